// block_tables: what becomes of a block method's masks in one chunk, from top to bottom: the mask of
// each query head, the union over its query blocks, the union over the heads that share a row, and
// the table that attention reads. All stages share the axis of key blocks; the transport bar moves
// from chunk to chunk.
#include "app/panels/map_plot.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace kvloupe::panels {
namespace {

using replay::BlockReport;
using replay::BlockState;
using replay::StageDensity;

constexpr std::array kLegendOrder{BlockState::Kept, BlockState::Forced, BlockState::Straddling,
                                  BlockState::Current, BlockState::Dropped};

struct Stage {
  const char* id;
  std::string title;
  const StageDensity* density;
  const std::vector<BlockState>* states;  // [rows, N_b]
  std::int64_t rows = 1;
  double row_height = 1;  // in rows of the masks
  double begin = 0;       // on the y axis
  double end() const { return begin + static_cast<double>(rows) * row_height; }
};

// The chunk's row of the method, prepared for drawing.
struct Shown {
  std::string key;  // of what is shown
  std::string method;
  int kv_head = 0;
  bool recorded = false;
  BlockReport report;
  std::vector<Stage> stages;
  double height = 0;  // of all stages on the y axis
};

std::string heads_text(const BlockReport& report) {
  if (report.q_heads.size() == 1) return fmt::format("query head {}", report.q_heads.front());
  return fmt::format("query heads {} to {}", report.q_heads.front(), report.q_heads.back());
}

void lay_out(Shown& shown) {
  const BlockReport& r = shown.report;
  const auto heads = static_cast<std::int64_t>(r.q_heads.size());
  const std::int64_t query_blocks = r.grid.num_query_blocks();
  const auto mask_rows = static_cast<double>(heads * query_blocks);
  shown.stages = {
      {"mask",
       fmt::format("Masks of {}, {} query block{} each", heads_text(r), query_blocks,
                   query_blocks == 1 ? "" : "s"),
       &r.native, &r.mask, heads * query_blocks},
      {"query_union", "United over the query blocks of the chunk", &r.after_query_union,
       &r.query_union, heads},
      {"group_union", heads == 1 ? "One head: nothing to unite" : "United over these heads",
       &r.after_group_union, &r.group_union, 1},
      {"table", "The table: what is read, the chunk open", &r.read, &r.table, 1}};
  // A union's row is as tall as a few rows of the masks.
  const double tall = std::max(1.0, mask_rows / 8);
  const double gap = std::max(0.6, mask_rows / 10);
  double at = gap;
  for (Stage& stage : shown.stages) {
    if (std::string_view(stage.id) != "mask")
      stage.row_height = stage.rows > 1 ? std::max(1.0, tall * 0.7) : tall;
    stage.begin = at;
    at = stage.end() + gap * 1.6;
  }
  shown.height = at - gap * 0.8;
}

const Stage* stage_at(const Shown& shown, double y) {
  for (const Stage& stage : shown.stages)
    if (y >= stage.begin && y < stage.end()) return &stage;
  return nullptr;
}

std::int64_t row_in(const Stage& stage, double y) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>((y - stage.begin) / stage.row_height),
                                  0, stage.rows - 1);
}

// The most telling state of a pixel's blocks.
BlockState pixel_state(const std::vector<BlockState>& states, std::int64_t row, std::int64_t blocks,
                       std::pair<std::int64_t, std::int64_t> columns) {
  auto best = BlockState::Future;
  for (std::int64_t j = columns.first; j < columns.second; ++j) {
    const BlockState state = states[static_cast<std::size_t>(row * blocks + j)];
    if (widgets::prominence_of(state) > widgets::prominence_of(best)) best = state;
  }
  return best;
}

void fill_stages(const widgets::Palette& palette, const Shown& shown,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const std::int64_t blocks = shown.report.grid.num_key_blocks();
  const double pixels_per_block = window.width / (window.col_end - window.col_begin);
  for (int y = 0; y < window.height; ++y) {
    const double at =
        window.row_begin + (y + 0.5) / window.height * (window.row_end - window.row_begin);
    const Stage* stage = stage_at(shown, at);
    const double row_pixels =
        stage == nullptr ? 0
                         : stage->row_height * window.height / (window.row_end - window.row_begin);
    // A thin line between rows and blocks where there is room for one.
    const double in_row = stage == nullptr ? 0 : std::fmod(at - stage->begin, stage->row_height);
    const bool row_line = row_pixels > 8 && in_row * row_pixels / stage->row_height < 1;
    for (int x = 0; x < window.width; ++x) {
      ImU32& pixel = pixels[static_cast<std::size_t>(y) * window.width + x];
      const double column =
          window.col_begin + (x + 0.5) / window.width * (window.col_end - window.col_begin);
      if (stage == nullptr || column < 0 || column >= static_cast<double>(blocks)) {
        pixel = palette.panel;
        continue;
      }
      const bool column_line =
          pixels_per_block > 8 && (column - std::floor(column)) * pixels_per_block < 1;
      const auto columns = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                               window.width, x, blocks);
      pixel = row_line || column_line
                  ? palette.panel
                  : widgets::color_of(
                        palette, pixel_state(*stage->states, row_in(*stage, at), blocks, columns));
    }
  }
}

class BlockTablesPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto replay = workspace.block_replay();
    const Shown* shown = replay ? prepare(workspace, replay) : nullptr;
    widgets::figure_head_ui(context.palette, context.figure, "Block tables",
                            replay ? replay->method : "", place_caption(workspace),
                            replay ? chips(context, *replay, shown) : trace_chips(context));
    if (!ready_ui(context, replay, "Selecting blocks, chunk by chunk")) return;
    for (const std::string& note : replay->notes)
      widgets::text_wrapped(context.palette.warning, note);
    if (!workspace.selection().choice(workspace.selection().shown).empty() &&
        workspace.block_choice() != workspace.selection().choice(workspace.selection().shown))
      widgets::text_wrapped(context.palette.warning,
                            "The method shown chooses no blocks: this is compact_attention with "
                            "its defaults.");
    if (shown == nullptr) {
      widgets::empty_ui(context.palette, why_nothing(workspace, *replay));
      return;
    }
    finding_ui(context, *shown);
    legend_ui(context, *shown);
    ImGui::Dummy({0, widgets::em(0.6F)});
    stages_ui(context, *shown, replay.key);
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"stage", "q_head", "query_block", "key_block", "token_begin", "token_end",
                 "page_id", "state", "density_past", "density_causal", "density_rectangle",
                 "forced_past", "forced_causal", "forced_rectangle"},
                {}};
    const auto replay = workspace.block_replay();
    const Shown* shown = replay ? prepare(workspace, replay) : nullptr;
    if (shown == nullptr) return table;
    for (const Stage& stage : shown->stages) add_rows(*shown, stage, table);
    return table;
  }

  Array array(state::Workspace& workspace) override {
    const auto replay = workspace.block_replay();
    const Shown* shown = replay ? prepare(workspace, replay) : nullptr;
    if (shown == nullptr) return {};
    const auto& r = shown->report;
    return array_of("|u1",
                    {static_cast<std::int64_t>(r.q_heads.size()), r.grid.num_query_blocks(),
                     r.grid.num_key_blocks()},
                    r.mask);
  }

  std::string problem(state::Workspace& workspace) override {
    const auto replay = workspace.block_replay();
    if (!replay) return problem_of(replay);
    return prepare(workspace, replay) == nullptr ? why_nothing(workspace, *replay) : "";
  }

 private:
  // The report of the current chunk and row; nothing where the chunk is dense.
  const Shown* prepare(state::Workspace& workspace,
                       const state::Result<replay::ReplayResult>& replay) {
    const auto& s = workspace.selection();
    const replay::ReplayCell* cell = replay->find(s.layer, s.chunk);
    if (cell == nullptr || !cell->blocks) return nullptr;
    const int row = workspace.row_of(*replay);
    const std::string key = fmt::format("{}|c{}|row{}", replay.key, s.chunk, row);
    if (shown_ && shown_->key == key) return &*shown_;
    const int group = workspace.info().model.gqa_group_size();
    shown_.emplace();
    shown_->key = key;
    shown_->method = replay->method;
    shown_->kv_head = row * replay->q_heads_per_row / group;
    shown_->recorded = workspace.block_choice().run >= 0;
    shown_->report =
        replay::block_report(*cell->blocks, cell->rows[static_cast<std::size_t>(row)].positions,
                             row * replay->q_heads_per_row, replay->q_heads_per_row, group);
    lay_out(*shown_);
    return &*shown_;
  }

  static std::string why_nothing(const state::Workspace& workspace,
                                 const replay::ReplayResult& replay) {
    const auto& s = workspace.selection();
    const replay::ReplayCell* cell = replay.find(s.layer, s.chunk);
    if (cell == nullptr) return "This run has nothing for the chunk.";
    if (!cell->dense_reason)
      return "This run was recorded without the masks of its query heads: select its method anew.";
    return *cell->dense_reason == trace::DenseReason::EmptyPast
               ? "The first chunk has no past: every block is read. Step to a later chunk."
               : "The method decodes densely: every block is read. Step to a chunk of the prompt.";
  }

  static std::vector<widgets::Chip> chips(DrawContext& context, const replay::ReplayResult& r,
                                          const Shown* shown) {
    auto chips = trace_chips(context);
    const std::string id = r.method.substr(0, r.method.find(':'));
    chips.insert(chips.begin(),
                 {{id, context.palette.accent, r.method},
                  {fmt::format("blocks of {}", r.block_size), 0, "Tokens in a block."}});
    if (shown != nullptr)
      chips.push_back({shown->recorded ? "recorded run" : "open loop", 0,
                       shown->recorded
                           ? "Masks as the trace holds them."
                           : "Blocks chosen on the stored Q and K of the recorded run."});
    return chips;
  }

  static void finding_ui(DrawContext& context, const Shown& shown) {
    const BlockReport& r = shown.report;
    const auto past = static_cast<std::int64_t>(
        std::lower_bound(r.pages.begin(), r.pages.end(), r.grid.num_past_blocks()) -
        r.pages.begin());
    const bool one = r.q_heads.size() == 1;
    std::string text = fmt::format(
        "Of the past, the mask of {} wants {}, its union over the query blocks {}{}; {} is read: "
        "{} "
        "of {} past blocks of KV head {}, and the chunk.",
        one ? heads_text(r)
            : fmt::format("a query head ({} to {}, mean)", r.q_heads.front(), r.q_heads.back()),
        percent(r.native.kept.past), percent(r.after_query_union.kept.past),
        one ? std::string()
            : fmt::format(", the union over heads {}", percent(r.after_group_union.kept.past)),
        percent(r.read.kept.past), past, r.grid.num_past_blocks(), shown.kv_head);
    if (r.whole_group)
      text += fmt::format(" One table for the whole group would read {}.",
                          percent(r.whole_group->kept.past));
    const widgets::FontScope strong(widgets::fonts().strong, context.figure ? 1.1F : 1.0F);
    widgets::text_wrapped(context.palette.text, text);
  }

  static void legend_ui(DrawContext& context, const Shown& shown) {
    std::vector<widgets::LegendItem> items;
    for (const BlockState state : kLegendOrder) {
      const bool present =
          std::any_of(shown.stages.begin(), shown.stages.end(), [&](const Stage& stage) {
            return std::find(stage.states->begin(), stage.states->end(), state) !=
                   stage.states->end();
          });
      if (present)
        items.push_back({widgets::label_of(state), widgets::color_of(context.palette, state)});
    }
    if (!shown.report.knows_forced) items.front().text = "kept (by score or by rule)";
    widgets::legend_ui(context.palette, items);
  }

  void stages_ui(DrawContext& context, const Shown& shown, const std::string& key) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float side = std::min(room.x * 0.34F, widgets::em(21));
    const auto blocks = static_cast<double>(shown.report.grid.num_key_blocks());
    if (extent_ != std::pair(blocks, shown.height)) {
      extent_ = {blocks, shown.height};
      x_range_ = {0, blocks};
      y_range_ = {0, shown.height};
    }
    MapPlotSpec spec;
    spec.id = "##block stages";
    spec.x_label = fmt::format("key block (of {} tokens)", shown.report.grid.block_size);
    spec.rows = shown.height;
    spec.cols = blocks;
    spec.size = {room.x - side, room.y};
    spec.show_y_ticks = false;
    spec.content_key =
        fmt::format("{}|{}|{}", key, shown.key, static_cast<int>(context.palette.kind));
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_stages(context.palette, shown, window, pixels);
    };
    spec.x_range = &x_range_;
    spec.y_range = &y_range_;
    std::array<std::pair<float, float>, 4> places{};
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const auto hit = map_plot_ui(context, spec, texture_, [&] {
      for (std::size_t i = 0; i < shown.stages.size(); ++i)
        places[i] = {ImPlot::PlotToPixels(0.0, shown.stages[i].begin).y,
                     ImPlot::PlotToPixels(0.0, shown.stages[i].end()).y};
      marks(context, shown);
    });
    if (hit) point_at(context, shown, *hit);
    for (std::size_t i = 0; i < shown.stages.size(); ++i)
      density_ui(context, shown.report, shown.stages[i], places[i],
                 {corner.x + room.x - side + widgets::em(0.8F), side - widgets::em(1)}, i + 1);
  }

  // Where heads change in the masks, and where the chunk begins.
  static void marks(DrawContext& context, const Shown& shown) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const BlockReport& r = shown.report;
    ImPlot::PushPlotClipRect();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    const Stage& masks = shown.stages.front();
    for (std::size_t head = 1; head < r.q_heads.size(); ++head) {
      const double y =
          masks.begin + static_cast<double>(head) * static_cast<double>(r.grid.num_query_blocks());
      draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, y), ImPlot::PlotToPixels(limits.X.Max, y),
                    context.palette.text, std::max(1.0F, widgets::em(0.1F)));
    }
    const double begin =
        static_cast<double>(r.grid.past_len) / static_cast<double>(r.grid.block_size);
    draw->AddLine(ImPlot::PlotToPixels(begin, limits.Y.Min),
                  ImPlot::PlotToPixels(begin, limits.Y.Max), context.palette.accent,
                  std::max(1.0F, widgets::em(0.1F)));
    const widgets::FontScope small(widgets::fonts().mono, 0.8F);
    for (std::size_t head = 0; head < r.q_heads.size(); ++head) {
      const double rows = static_cast<double>(r.grid.num_query_blocks());
      const ImVec2 from = ImPlot::PlotToPixels(limits.X.Min, masks.begin + rows * head);
      const ImVec2 to = ImPlot::PlotToPixels(limits.X.Min, masks.begin + rows * (head + 1));
      if (to.y - from.y < ImGui::GetTextLineHeight()) continue;
      const std::string text = fmt::format("q {}", r.q_heads[head]);
      const ImVec2 size = ImGui::CalcTextSize(text.c_str());
      const ImVec2 at(from.x + widgets::em(0.2F), from.y + widgets::em(0.15F));
      draw->AddRectFilled(at, {at.x + size.x + widgets::em(0.4F), at.y + size.y},
                          widgets::with_alpha(context.palette.panel, 0.85F));
      draw->AddText({at.x + widgets::em(0.2F), at.y}, context.palette.text, text.c_str());
    }
    ImPlot::PopPlotClipRect();
  }

  // Beside a stage: its name, how dense it is, and how much of that is kept by rule.
  static void density_ui(DrawContext& context, const BlockReport& report, const Stage& stage,
                         std::pair<float, float> place, ImVec2 left_and_width, std::size_t number) {
    const auto& p = context.palette;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const float x = left_and_width.x, width = left_and_width.y;
    float line_height = 0;
    {
      const widgets::FontScope small(widgets::fonts().body, 0.9F);
      line_height = ImGui::GetTextLineHeight();
    }
    const float bar = widgets::em(0.55F);
    float y = (place.first + place.second) / 2 - (2 * line_height + bar + widgets::em(0.4F)) / 2;
    {
      const widgets::FontScope strong(widgets::fonts().strong, 0.92F);
      const std::string title = widgets::elided(fmt::format("{}  {}", number, stage.title), width);
      draw->AddText({x, y}, p.text, title.c_str());
      y += ImGui::GetTextLineHeight() + widgets::em(0.15F);
    }
    const auto share = [&](double value) { return x + width * static_cast<float>(value); };
    draw->AddRectFilled({x, y}, {x + width, y + bar}, p.dropped);
    draw->AddRectFilled({x, y}, {share(stage.density->kept.past), y + bar}, p.hit);
    draw->AddRectFilled({x, y}, {share(stage.density->forced.past), y + bar}, p.sink);
    y += bar + widgets::em(0.1F);
    const widgets::FontScope small(widgets::fonts().body, 0.9F);
    const std::string forced =
        report.knows_forced ? fmt::format(" ({} by rule)", percent(stage.density->forced.past))
                            : std::string();
    const std::string text = fmt::format(
        "{} of the past{}, {} of causal pairs, {} of all", percent(stage.density->kept.past),
        forced, percent(stage.density->kept.causal), percent(stage.density->kept.rectangle));
    draw->AddText(nullptr, 0.0F, {x, y}, p.muted, text.c_str(), nullptr, width);
  }

  static void point_at(DrawContext& context, const Shown& shown, const MapPlotHit& hit) {
    const Stage* stage = stage_at(shown, hit.row);
    if (stage == nullptr) return;
    const BlockReport& r = shown.report;
    const auto block = static_cast<std::int64_t>(hit.col);
    const std::int64_t row = row_in(*stage, hit.row);
    if (hit.clicked)
      context.workspace.set_key_span(static_cast<std::int32_t>(r.grid.key_begin(block)),
                                     static_cast<std::int32_t>(r.grid.key_end(block)));
    if (!ImGui::BeginTooltip()) return;
    ImGui::Text("block %lld: tokens %s to %s", static_cast<long long>(block),
                format_count(r.grid.key_begin(block)).c_str(),
                format_count(r.grid.key_end(block) - 1).c_str());
    ImGui::Text("KV head %d, page %lld", shown.kv_head,
                static_cast<long long>(trace::page_id(r.grid, shown.kv_head, block)));
    const std::int64_t query_blocks = r.grid.num_query_blocks();
    const bool of_masks = stage == &shown.stages.front();
    if (of_masks) {
      const std::int64_t i = row % query_blocks;
      ImGui::Text("query head %d, query block %lld: queries %s to %s",
                  r.q_heads[static_cast<std::size_t>(row / query_blocks)],
                  static_cast<long long>(r.grid.block_of_query_block(i)),
                  format_count(r.grid.past_len + r.grid.row_begin(i)).c_str(),
                  format_count(r.grid.past_len + r.grid.row_end(i) - 1).c_str());
    } else if (stage->rows > 1) {
      ImGui::Text("query head %d", r.q_heads[static_cast<std::size_t>(row)]);
    }
    const BlockState state =
        (*stage->states)[static_cast<std::size_t>(row * r.grid.num_key_blocks() + block)];
    widgets::legend_ui(context.palette,
                       {{widgets::label_of(state), widgets::color_of(context.palette, state)}});
    ImGui::EndTooltip();
  }

  static void add_rows(const Shown& shown, const Stage& stage, Table& table) {
    const BlockReport& r = shown.report;
    const std::int64_t blocks = r.grid.num_key_blocks();
    const bool of_masks = &stage == &shown.stages.front();
    for (std::int64_t row = 0; row < stage.rows; ++row)
      for (std::int64_t j = 0; j < blocks; ++j) {
        const BlockState state = (*stage.states)[static_cast<std::size_t>(row * blocks + j)];
        if (state == BlockState::Future) continue;
        const std::int64_t i = row % r.grid.num_query_blocks();
        const auto head =
            static_cast<std::size_t>(of_masks ? row / r.grid.num_query_blocks() : row);
        const auto& density = *stage.density;
        const auto forced = [&](double share) { return r.knows_forced ? cell(share) : ""; };
        table.rows.push_back(
            {stage.id, of_masks || stage.rows > 1 ? cell(std::int64_t{r.q_heads[head]}) : "",
             of_masks ? cell(r.grid.block_of_query_block(i)) : "", cell(j),
             cell(r.grid.key_begin(j)), cell(r.grid.key_end(j)),
             cell(trace::page_id(r.grid, shown.kv_head, j)), widgets::label_of(state),
             cell(density.kept.past), cell(density.kept.causal), cell(density.kept.rectangle),
             forced(density.forced.past), forced(density.forced.causal),
             forced(density.forced.rectangle)});
      }
  }

  widgets::MapTexture texture_;
  ImPlotRange x_range_, y_range_;
  std::pair<double, double> extent_{0, 0};
  std::optional<Shown> shown_;
};

}  // namespace

std::unique_ptr<Panel> make_block_tables_panel() { return std::make_unique<BlockTablesPanel>(); }

}  // namespace kvloupe::panels
