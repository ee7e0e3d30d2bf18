// Every registered view draws without a display in the empty, loading, error and full state, and
// gives as data what it draws.
#include "app/figure/figure_page.h"
#include "app/figure/headless.h"
#include "app/panels/panel.h"
#include "tests/gui/synthetic_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

namespace kvloupe {
namespace {

using state::ResultState;
using test::SyntheticSource;

void wait_until_idle(state::Workspace& workspace) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (workspace.busy() && std::chrono::steady_clock::now() < end) {
    workspace.publish();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  workspace.publish();
}

class ViewStates : public ::testing::Test {
 protected:
  ViewStates()
      : source(std::make_shared<SyntheticSource>(options())),
        workspace(0, [this](const std::string&, std::uint64_t) { return source; }),
        renderer(640, 420, 1.0F) {}

  static test::SyntheticOptions options() {
    test::SyntheticOptions o;
    o.num_tokens = 640;
    o.num_layers = 4;
    o.needle_begin = 300;
    o.needle_end = 316;
    return o;
  }
  void open() {
    workspace.open("/synthetic.h5");
    wait_until_idle(workspace);
  }
  // Different colours in the picture: a view that draws nothing has one.
  std::size_t draw(panels::Panel& panel, bool settle) {
    panels::DrawContext context{workspace, renderer.gui().palette(), true, false};
    for (int i = 0; i < 4; ++i) {
      renderer.frame([&] { figure::figure_page_ui(context, panel); });
      if (settle) wait_until_idle(workspace);
      workspace.publish();
    }
    const figure::Image image = renderer.read();
    std::set<std::uint32_t> colors;
    for (std::size_t i = 0; i + 3 < image.rgba.size(); i += 4)
      colors.insert(image.rgba[i] | image.rgba[i + 1] << 8 | image.rgba[i + 2] << 16);
    return colors.size();
  }

  std::shared_ptr<SyntheticSource> source;
  state::Workspace workspace;
  figure::HeadlessRenderer renderer;
};

TEST_F(ViewStates, IdsAreUniqueAndEveryViewHasAPicture) {
  std::set<std::string> ids;
  for (const panels::PanelInfo& info : panels::panel_registry()) {
    EXPECT_TRUE(ids.insert(info.id).second) << info.id;
    EXPECT_TRUE(info.has(panels::Format::Png)) << info.id;
    EXPECT_EQ(panels::find_panel(info.id), &info);
  }
  for (const char* wanted : {"attention_map", "kv_map", "layer_head_overview", "selected_vs_true",
                             "miss_inspector", "token_strip", "query_geometry", "query_relevance",
                             "quest_pages", "block_tables", "received_rankings", "latency"})
    EXPECT_EQ(ids.count(wanted), 1U) << wanted;
  EXPECT_EQ(panels::find_panel("nothing"), nullptr);
}

TEST_F(ViewStates, EmptyWithoutATrace) {
  for (const panels::PanelInfo& info : panels::panel_registry()) {
    const auto panel = info.make();
    EXPECT_GT(draw(*panel, true), 4U) << info.id << " says nothing";
    EXPECT_FALSE(panel->problem(workspace).empty()) << info.id;
    EXPECT_TRUE(panel->table(workspace).rows.empty()) << info.id;
  }
}

TEST_F(ViewStates, LoadingWhileAnalysesRun) {
  open();
  source->behaviour = SyntheticSource::Behaviour::Wait;
  for (const panels::PanelInfo& info : panels::panel_registry()) {
    const auto panel = info.make();
    EXPECT_GT(draw(*panel, false), 4U) << info.id;
    if (info.id != std::string("trace_info") && info.id != std::string("latency")) {
      EXPECT_TRUE(workspace.busy()) << info.id << " asked for nothing";
    }
  }
  workspace.jobs().cancel_all();
}

TEST_F(ViewStates, ErrorIsShownNotThrown) {
  open();
  source->behaviour = SyntheticSource::Behaviour::Fail;
  for (const panels::PanelInfo& info : panels::panel_registry()) {
    if (info.id == std::string("trace_info")) continue;
    const auto panel = info.make();
    std::string problem;
    for (int i = 0; i < 4; ++i) {
      problem = panel->problem(workspace);
      wait_until_idle(workspace);
    }
    EXPECT_NE(problem.find("the analysis failed"), std::string::npos) << info.id << ": " << problem;
    EXPECT_GT(draw(*panel, true), 4U) << info.id;
  }
}

TEST_F(ViewStates, FullWithAResult) {
  open();
  for (const panels::PanelInfo& info : panels::panel_registry()) {
    const auto panel = info.make();
    std::string problem = "not asked";
    for (int i = 0; i < 16 && !problem.empty(); ++i) {
      problem = panel->problem(workspace);
      wait_until_idle(workspace);
    }
    EXPECT_EQ(problem, "") << info.id;
    EXPECT_GT(draw(*panel, true), 40U) << info.id;
    if (info.has(panels::Format::Csv)) {
      const panels::Table table = panel->table(workspace);
      EXPECT_FALSE(table.rows.empty()) << info.id;
      for (const auto& row : table.rows) ASSERT_EQ(row.size(), table.columns.size()) << info.id;
    }
    if (info.has(panels::Format::Npy)) {
      const panels::Array array = panel->array(workspace);
      std::int64_t bytes = array.dtype == "|u1" ? 1 : 4;
      for (const std::int64_t extent : array.shape) bytes *= extent;
      EXPECT_EQ(static_cast<std::int64_t>(array.bytes.size()), bytes) << info.id;
      EXPECT_GT(bytes, 0) << info.id;
    }
  }
}

TEST_F(ViewStates, TheMapOfLanesHasNoRecall) {
  open();
  const auto panel = panels::find_panel("kv_map")->make();
  const auto recalls = [&](const char* method) {
    workspace.set_method(state::Slot::A, method);
    for (int i = 0; i < 16 && !panel->problem(workspace).empty(); ++i) wait_until_idle(workspace);
    const panels::Table table = panel->table(workspace);
    EXPECT_EQ(table.columns.at(4), "mass_recall");
    std::set<bool> given;
    for (const auto& row : table.rows) given.insert(!row.at(4).empty());
    return given;
  };
  EXPECT_EQ(recalls("quoka:budget_tokens=64"), std::set<bool>{true});
  EXPECT_EQ(recalls("aqua:basis=self"), std::set<bool>{false});
  EXPECT_EQ(recalls("aqua_h2o:basis=self"), std::set<bool>{true});
}

std::string figure_cell(const panels::Table& table, std::size_t row, const char* column) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  return table.rows.at(row).at(static_cast<std::size_t>(found - table.columns.begin()));
}

// Chunk 4 of 128 tokens begins at block 16 of 32 tokens, of 20; KV head 1 has query heads 3 to 5.
TEST_F(ViewStates, TheTableOfBlocksNamesPagesAndTokens) {
  open();
  workspace.set_method(state::Slot::A, "flash_prefill");
  workspace.go_to(state::parse_goto("chunk=4,q_head=4"));
  const auto panel = panels::find_panel("block_tables")->make();
  for (int i = 0; i < 16 && !panel->problem(workspace).empty(); ++i) wait_until_idle(workspace);
  const panels::Table table = panel->table(workspace);
  std::map<std::string, int> stages;
  std::set<std::string> heads;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string stage = figure_cell(table, i, "stage");
    ++stages[stage];
    heads.insert(figure_cell(table, i, "q_head"));
    const int block = std::stoi(figure_cell(table, i, "key_block"));
    EXPECT_EQ(figure_cell(table, i, "token_begin"), std::to_string(block * 32));
    EXPECT_EQ(figure_cell(table, i, "token_end"), std::to_string(block * 32 + 32));
    EXPECT_EQ(figure_cell(table, i, "page_id"), std::to_string(20 + block));
    if (stage != "table") continue;
    const std::string state = figure_cell(table, i, "state");
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
TEST_F(ViewStates, RankingsFollowTheWindow) {
  open();
  const auto panel = panels::find_panel("received_rankings")->make();
  const auto means = [&](const char* place) {
    workspace.go_to(state::parse_goto(place));
    for (int i = 0; i < 4; ++i) {
      panel->problem(workspace);
      wait_until_idle(workspace);
    }
    const panels::Table table = panel->table(workspace);
    EXPECT_EQ(table.rows.size(), 512U);
    EXPECT_EQ(workspace.query_window().second, 640);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      values.push_back(figure_cell(table, i, "mean"));
    return values;
  };
  const auto of_chunk = means("chunk=4");
  EXPECT_EQ(workspace.query_window().first, 512);
  const auto of_16 = means("chunk=4,window=16");
  EXPECT_EQ(workspace.query_window().first, 624);
  EXPECT_NE(of_chunk, of_16);
  means("chunk=4,window=2000");
  EXPECT_EQ(workspace.query_window().first, 0);
}

// A single kept key among thousands must be seen in the picture of the map.
TEST_F(ViewStates, ASingleKeptKeyNeverVanishes) {
  test::SyntheticOptions o;
  o.num_tokens = 16384;
  o.num_layers = 1;
  o.needle_begin = 9000;
  o.needle_end = 9016;
  source = std::make_shared<SyntheticSource>(o);
  source->only_kept_key = 7777;
  open();
  const auto panel = panels::find_panel("kv_map")->make();
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

}  // namespace
}  // namespace kvloupe
