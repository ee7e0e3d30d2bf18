// What single views promise of their contents.
#include "app/panels/box_outline.h"
#include "app/widgets/palette.h"
#include "core/trace/trace_writer.h"
#include "tests/gui/view_fixture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

using state::Slot;
using test::cell_of;

class ViewContents : public test::ViewTest {
 protected:
  test::ExactTable table_of(const char* id) {
    const state::ViewInfo& view = *state::find_view(id);
    EXPECT_EQ(test::problem_of_view(workspace, view), "") << id;
    return test::exact(view.table(workspace));
  }
};

TEST_F(ViewContents, TheMapOfLanesHasNoRecall) {
  open();
  const auto recalls = [&](const char* method) {
    workspace.cursor.set_method(Slot::A, method);
    const test::ExactTable table = table_of("kv_map");
    std::set<bool> given;
    for (std::size_t row = 0; row < table.rows.size(); ++row)
      given.insert(!cell_of(table, row, "mass_recall").empty());
    return given;
  };
  EXPECT_EQ(recalls("quoka:budget_tokens=48"), std::set<bool>{true});
  EXPECT_EQ(recalls("aqua:basis=self"), std::set<bool>{false});
  EXPECT_EQ(recalls("aqua_h2o:basis=self"), std::set<bool>{true});
}

// Chunk 4 of 128 tokens begins at block 16 of 32 tokens, of 20; KV head 1 has query heads 3 to 5.
TEST_F(ViewContents, TheTableOfBlocksNamesPagesAndTokens) {
  open();
  workspace.cursor.set_method(Slot::A, "flash_prefill:lowering=union,block_size=32,sink_blocks=1");
  workspace.cursor.go_to(state::parse_goto("chunk=4,q_head=4"));
  const test::ExactTable table = table_of("block_tables");
  std::map<std::string, int> stages;
  std::set<std::string> heads;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string& stage = cell_of(table, i, "stage");
    ++stages[stage];
    heads.insert(cell_of(table, i, "q_head"));
    const int block = std::stoi(cell_of(table, i, "key_block"));
    EXPECT_EQ(cell_of(table, i, "token_begin"), std::to_string(block * 32));
    EXPECT_EQ(cell_of(table, i, "token_end"), std::to_string(block * 32 + 32));
    EXPECT_EQ(cell_of(table, i, "page_id"), std::to_string(20 + block));
    if (stage != "table") continue;
    const std::string& state = cell_of(table, i, "state");
    if (block == 0) {
      EXPECT_EQ(state, "kept by rule");
    } else if (block >= 16) {
      EXPECT_EQ(state, "of the chunk");
    }
  }
  EXPECT_EQ(heads, (std::set<std::string>{"", "3", "4", "5"}));
  // Query blocks at 16 to 19 see the blocks up to their own.
  EXPECT_EQ(stages["mask"], 3 * (17 + 18 + 19 + 20));
  EXPECT_EQ(stages["query_union"], 3 * 20);
  EXPECT_EQ(stages["group_union"], 20);
  EXPECT_EQ(stages["table"], 20);
}

// The window is part of the place: its last 16 queries rank other keys first than the chunk's.
TEST_F(ViewContents, RankingsFollowTheWindow) {
  open();
  const auto means = [&](const char* place) {
    workspace.cursor.go_to(state::parse_goto(place));
    const test::ExactTable table = table_of("received_rankings");
    EXPECT_EQ(table.rows.size(), 512U);
    EXPECT_EQ(workspace.place().query_window().second, 640);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < table.rows.size(); ++i) values.push_back(cell_of(table, i, "mean"));
    return values;
  };
  const auto of_chunk = means("chunk=4");
  EXPECT_EQ(workspace.place().query_window().first, 512);
  const auto of_16 = means("chunk=4,window=16");
  EXPECT_EQ(workspace.place().query_window().first, 624);
  EXPECT_NE(of_chunk, of_16);
  EXPECT_NE(means("chunk=4,window=2000"), of_16);
  EXPECT_EQ(means("chunk=4,window=0"), of_chunk);
}

// The last queries of the prompt are the question's, and they are the ones that want the needle.
TEST_F(ViewContents, QueriesSayWhetherTheyAskAndWhatTheyGiveTheKeysChosen) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=4"));
  for (const auto& row : table_of("query_relevance").rows) EXPECT_EQ(row.back(), "");
  workspace.cursor.go_to(state::parse_goto("key=300-315"));
  for (const char* view : {"query_geometry", "query_relevance"}) {
    const test::ExactTable table = table_of(view);
    std::map<std::string, double> given;
    std::map<std::string, int> queries;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      if (cell_of(table, i, "attention_on_keys").empty()) continue;  // a key, or the mean query
      const std::string& asks = cell_of(table, i, "question");
      given[asks] += std::stod(cell_of(table, i, "attention_on_keys"));
      ++queries[asks];
    }
    const trace::TokenSpan* question = nullptr;
    for (const trace::TokenSpan& span : workspace.place().info().spans)
      if (span.name == "question") question = &span;
    ASSERT_NE(question, nullptr);
    EXPECT_EQ(queries["1"], question->end - question->begin) << view;
    EXPECT_EQ(queries["0"], 128 - queries["1"]) << view;
    EXPECT_GT(given["1"] / queries["1"], 10 * given["0"] / queries["0"]) << view;
  }
}

// What is not asked for adds no column; what is stands in a place of its own.
TEST_F(ViewContents, TheTableOfGeometryHasWhatItsOptionsShow) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=4,chunk=4"));
  const auto shown = [&](const std::map<std::string, std::string>& options) {
    for (const char* option : {"fit", "color", "span", "dimensions", "rope"})
      workspace.cursor.set_option(std::string("query_geometry.") + option,
                                  options.contains(option) ? options.at(option) : "");
    return table_of("query_geometry");
  };
  const auto kinds = [](const test::ExactTable& table) {
    std::map<std::string, int> count;
    for (std::size_t i = 0; i < table.rows.size(); ++i) ++count[cell_of(table, i, "kind")];
    return count;
  };
  using Kinds = std::map<std::string, int>;
  const test::ExactTable plain = shown({});
  const std::vector<std::string> columns{"kind",   "position", "pc1",
                                         "pc2",    "s_q",      "max_attention",
                                         "chosen", "question", "attention_on_keys"};
  EXPECT_EQ(plain.columns, columns);
  EXPECT_EQ(kinds(plain), (Kinds{{"query", 128}, {"key", 640}, {"mean_query", 1}}));

  const test::ExactTable keys = shown({{"fit", "keys"}, {"color", "fate"}, {"dimensions", "3"}});
  EXPECT_EQ(kinds(keys), (Kinds{{"key", 640}}));
  EXPECT_EQ(keys.columns.back(), "fate");
  EXPECT_EQ(keys.columns[4], "pc3");
  std::set<std::string> fates;
  for (std::size_t i = 0; i < keys.rows.size(); ++i) fates.insert(cell_of(keys, i, "fate"));
  EXPECT_TRUE(fates.contains("kept") && fates.contains("lost") && fates.contains("current chunk"));

  const test::ExactTable head = shown({{"span", "head"}, {"color", "attention"}});
  EXPECT_EQ(kinds(head), (Kinds{{"query", 642}, {"key", 642}, {"mean_query", 7}}));
  for (std::size_t i = 0; i < head.rows.size(); ++i) {
    const std::string& kind = cell_of(head, i, "kind");
    if (kind == "mean_query") continue;
    const int position = std::stoi(cell_of(head, i, "position"));
    EXPECT_EQ(cell_of(head, i, "chunk"),
              std::to_string(position < 640 ? position / 128 : position - 635));
    EXPECT_EQ(cell_of(head, i, "attention_received").empty(), kind != "key");
    EXPECT_EQ(cell_of(head, i, "max_attention").empty(), kind != "query");
    // The rows that the method chose are those of the chunk looked at.
    EXPECT_EQ(cell_of(head, i, "chosen").empty(),
              kind != "query" || position < 512 || position >= 640);
  }
  // Before and after the rotary embedding S_q is the same, and the places are not.
  const test::ExactTable before = shown({{"rope", "before"}});
  ASSERT_EQ(before.rows.size(), plain.rows.size());
  EXPECT_NE(cell_of(before, 5, "pc1"), cell_of(plain, 5, "pc1"));
  EXPECT_EQ(cell_of(before, 5, "s_q"), cell_of(plain, 5, "s_q"));
}

// A box that is turned has its titles beside its edges: a name is written elsewhere.
TEST_F(ViewContents, NamesStandClearOfTheTitlesOfABox) {
  open();
  draw(*panels::make_panel("query_geometry"), true);  // a font
  const std::vector<ImVec2> corners{{100, 160}, {200, 100}, {300, 160}, {300, 280},
                                    {200, 340}, {100, 280}, {200, 220}, {200, 200}};
  const std::vector<panels::Circle> titles = panels::beside_outline(corners);
  ASSERT_GT(titles.size(), 20U);
  const ImVec2 size(60, 15), dot(290, 220);
  const auto touches = [&](ImVec2 from, const panels::Circle& circle) {
    const ImVec2 near = panels::nearest_of(circle.at, from, {from.x + size.x, from.y + size.y});
    return std::hypot(near.x - circle.at.x, near.y - circle.at.y) < circle.radius;
  };
  const auto is_clear = [&](ImVec2 from) {
    return std::none_of(titles.begin(), titles.end(),
                        [&](const panels::Circle& title) { return touches(from, title); });
  };
  for (const panels::Circle& title : titles) {
    const bool in_middle =
        title.at.x > 100 && title.at.x < 300 && title.at.y > 160 && title.at.y < 280;
    EXPECT_FALSE(in_middle) << title.at.x << ", " << title.at.y;
  }
  const auto place = [&](const std::vector<panels::Circle>& clear) {
    return panels::place_of_words(dot, 10, 120, size, {0, 0}, {480, 420}, {}, clear);
  };
  EXPECT_FALSE(is_clear(place({})));
  EXPECT_TRUE(is_clear(place(titles)));
}

// Half-open.
struct Keys {
  std::int32_t begin = 0, end = 0;
};

// A trace of 16,384 tokens and one head, with recorded runs of which each kept these keys alone as soon
// as they were past.
std::string trace_with_kept_keys(const std::string& name, const std::vector<Keys>& runs) {
  test::GuiTraceOptions options = {
      .num_tokens = 16384, .num_layers = 1, .layers = {0}, .num_q_heads = 1, .num_kv_heads = 1};
  options.runs.clear();
  const std::string path = test::write_gui_trace(name, options);
  for (const Keys& keys : runs) {
    trace::RunInfo run;
    run.method = "keydiff:budget_tokens=" + std::to_string(keys.end - keys.begin);
    trace::LayerRecord layer;
    for (std::int32_t begin = 0; begin < options.num_tokens; begin += options.chunk_size) {
      trace::CellRecord cell;
      cell.num_candidates = begin;
      cell.rows.emplace_back();
      for (std::int32_t key = keys.begin; key < std::min(keys.end, begin); ++key)
        cell.rows.front().positions.push_back(key);
      if (begin == 0) cell.dense_reason = trace::DenseReason::EmptyPast;
      layer.cells.push_back(std::move(cell));
    }
    trace::append_sidecar_run(path, run, {0}, {layer});
  }
  return path;
}

// A single kept key among thousands must be seen in the picture of the map.
TEST_F(ViewContents, ASingleKeptKeyNeverVanishes) {
  open(trace_with_kept_keys("one_key.h5", {{7777, 7778}}));
  ASSERT_EQ(workspace.method(Slot::A).run, 0);
  const auto panel = panels::make_panel("kv_map");
  renderer.gui().apply_style(widgets::ThemeKind::Light, 1.0F);
  draw(*panel, true);
  const figure::Image image = renderer.read();
  // At least half way from the colour of a dropped key to that of a kept one.
  const auto& palette = renderer.gui().palette();
  const int red_dropped = static_cast<int>(palette.dropped & 255U),
            red_kept = static_cast<int>(palette.hit & 255U);
  const auto is_kept = [&](const std::uint8_t* pixel) {
    return pixel[0] <= (red_dropped + red_kept) / 2 + 2 && pixel[0] >= red_kept &&
           pixel[2] > pixel[0] + 40;
  };
  int seen = 0;
  for (int y = image.height * 2 / 3; y < image.height * 5 / 6; ++y)
    for (int x = image.width * 3 / 10; x < image.width / 2; ++x)
      seen += is_kept(image.rgba.data() + (static_cast<std::size_t>(y) * image.width + x) * 4);
  EXPECT_GT(seen, 20) << "the column of the only kept key is not in the picture";
}

// Keys of each class lie side by side: each has its colour, in the order of the keys.
TEST_F(ViewContents, TheDifferenceHasAColourForEachClass) {
  open(trace_with_kept_keys("two_sets.h5", {{7000, 11000}, {9000, 12500}}));
  ASSERT_EQ(workspace.method(Slot::A).run, 0);
  ASSERT_EQ(workspace.method(Slot::B).run, 1);
  workspace.cursor.set_option("kv_map.show", "difference");
  const auto panel = panels::make_panel("kv_map");
  renderer.gui().apply_style(widgets::ThemeKind::Light, 1.0F);
  draw(*panel, true);
  const figure::Image image = renderer.read();
  const auto& palette = renderer.gui().palette();
  // Along a line through the last chunks, of which all of these keys are past: where each colour is.
  std::map<analysis::KeptBy, std::pair<int, int>> seen;
  const int y = image.height * 33 / 40;
  for (int x = 0; x < image.width * 2 / 3; ++x) {
    const std::uint8_t* pixel =
        image.rgba.data() + (static_cast<std::size_t>(y) * image.width + x) * 4;
    const ImU32 color = IM_COL32(pixel[0], pixel[1], pixel[2], 255);
    for (const auto what :
         {analysis::KeptBy::AOnly, analysis::KeptBy::Both, analysis::KeptBy::BOnly})
      if (color == widgets::color_of(palette, what)) {
        auto& [first, count] = seen[what];
        if (count++ == 0) first = x;
      }
  }
  ASSERT_EQ(seen.size(), 3U);
  const auto [a, a_count] = seen[analysis::KeptBy::AOnly];
  const auto [both, both_count] = seen[analysis::KeptBy::Both];
  const auto [b, b_count] = seen[analysis::KeptBy::BOnly];
  EXPECT_LT(a, both);
  EXPECT_LT(both, b);
  // 2,000, 2,000 and 1,500 keys.
  EXPECT_NEAR(both_count, a_count, 3);
  EXPECT_NEAR(b_count, 0.75 * a_count, 3);
}

}  // namespace
}  // namespace kvloupe
