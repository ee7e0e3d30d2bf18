// layer_head_overview: one number for every layer and head, to see in one look where a method, or
// its premise, fails. A click goes there. Of one method, of several, or of A less B.
#include "app/state/questions/layer_head_overview.h"

#include "app/panels/show_control.h"
#include "app/state/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::Number;
using replay::NumberInfo;
using state::OverviewQuestion;
using state::Show;
using state::Slot;
using Overview = state::Result<OverviewQuestion>;

constexpr const char* kView = "layer_head_overview";

// Most heads keep more than half: the colours are spent there, so that 0.6 does not look like 1.
ImU32 rising(const widgets::Palette& palette, double t) {
  return widgets::diverging_color(palette, t * t);
}
ImU32 falling(const widgets::Palette& palette, double t) {
  return widgets::diverging_color(palette, 1 - t);
}
ImU32 spread(const widgets::Palette& palette, double t) {
  return widgets::sequential_color(palette, 0.08 + 0.92 * t);
}

// How a number is coloured.
struct Coloring {
  ImU32 (*color)(const widgets::Palette&, double);
  state::OverviewScale::Range range;

  Coloring(const NumberInfo& info, state::OverviewScale::Range ends)
      : color(info.better == replay::Better::Neither ? spread
              : info.higher_is_better()              ? rising
                                                     : falling),
        range(ends) {}
  // Of A less B: which of the two is higher.
  explicit Coloring(state::OverviewScale::Range ends)
      : color(widgets::slot_diverging_color), range(ends) {}
  ImU32 at(const widgets::Palette& palette, double value) const {
    if (std::isnan(value)) return palette.raised;
    return color(palette, std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0));
  }
};

// What a column of the grid stands for.
const char* head_word(const OverviewQuestion::Answer& answer) {
  if (answer.overview.per_kv_head) return "KV head";
  return answer.q_heads_per_column == 1 ? "query head" : "sub-group";
}

// Where the cells lie: layers run down in a tall view and across in a wide one.
struct Grid {
  int num_layers = 0, num_heads = 0;
  bool wide = false;
  ImVec2 origin, at;  // of the axis names, of the first cell
  float cell_w = 0, cell_h = 0;

  // In the window cells are at least 14 x 18 pixels, `pixel` being one at normal size, times `zoom`: where
  // that is more than there is room for, it scrolls.
  Grid(const analysis::Overview& overview, bool figure, float pixel, float zoom)
      : num_layers(static_cast<int>(overview.values.rows)),
        num_heads(static_cast<int>(overview.values.cols)),
        origin(ImGui::GetCursorScreenPos()) {
    ImVec2 room = ImGui::GetContentRegionAvail();
    wide = room.x > room.y * 1.2F;
    const ImVec2 margin(widgets::em(2.2F), widgets::em(2.9F));
    if (figure) {
      const float least = std::max(widgets::em(4), 3 * static_cast<float>(down()));
      room.y = std::max(room.y, margin.y + 2 + least);
    }
    at = {origin.x + margin.x, origin.y + margin.y};
    cell_w = std::min((room.x - margin.x - 2) / static_cast<float>(std::max(1, across())),
                      widgets::em(6));
    cell_h = std::min((room.y - margin.y - 2) / static_cast<float>(std::max(1, down())),
                      widgets::em(figure ? 14.0F : 4.6F));
    if (figure) return;
    cell_w = std::max(cell_w, 14 * pixel) * zoom;
    cell_h = std::max(cell_h, 18 * pixel) * zoom;
  }

  int across() const { return wide ? num_layers : num_heads; }
  int down() const { return wide ? num_heads : num_layers; }
  bool fits() const { return across() > 0 && down() > 0 && cell_w >= 2 && cell_h >= 2; }
  ImVec2 extent() const {
    return {cell_w * static_cast<float>(across()), cell_h * static_cast<float>(down())};
  }
  ImVec2 from(int layer, int head) const {
    return {at.x + cell_w * static_cast<float>(wide ? layer : head) + 0.5F,
            at.y + cell_h * static_cast<float>(wide ? head : layer) + 0.5F};
  }
  ImVec2 to(int layer, int head) const {
    const ImVec2 corner = from(layer, head);
    return {corner.x + cell_w - 1, corner.y + cell_h - 1};
  }
  // Row of the layer and column of the head under the mouse.
  std::pair<int, int> under(ImVec2 mouse) const {
    const int x = std::clamp(static_cast<int>((mouse.x - at.x) / cell_w), 0, across() - 1);
    const int y = std::clamp(static_cast<int>((mouse.y - at.y) / cell_h), 0, down() - 1);
    return wide ? std::pair{x, y} : std::pair{y, x};
  }
};

// Of the two ends of the list of cells.
struct Headings {
  const char* worst;
  const char* best;
};

class OverviewPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    pointed_ = std::exchange(pointing_, std::nullopt);
    switch (show(context)) {
      case Show::One:
        one_ui(context);
        break;
      case Show::Both:
        grids_ui(context, {context.workspace.method(Slot::A), context.workspace.method(Slot::B)});
        break;
      case Show::Several:
        grids_ui(context, state::several_methods(context.workspace));
        break;
      case Show::Difference:
        difference_ui(context);
        break;
    }
  }

 private:
  static Show show(const DrawContext& context) {
    const OverviewQuestion asked = state::overview_question(context.workspace);
    return analysis::needs_method(asked.asked) ? show_now(context, kView) : Show::One;
  }

  void one_ui(DrawContext& context) {
    num_grids_ = 1;
    const OverviewQuestion asked = state::overview_question(context.workspace);
    const Overview result = shown_[0].ask(context.workspace, asked);
    head_.begin();
    if (analysis::needs_method(asked.asked)) show_ui(context, kView);
    head_ui(context, result.question);
    if (!context.figure) controls_ui(context, asked);
    const NumberInfo& info = replay::info_of(result.question.number());
    if (!ready_ui(context, result, fmt::format("Measuring {} in all layers", info.title))) return;
    const Coloring coloring(info, scale_.of(result.question, *result));
    note_ui(context, result.question);
    scale_ui(context, result, info, coloring);
    head_.end(result.question.place.cell_key() + result.question.key());
    const bool entropy = info.number == Number::Entropy;
    grid_and_extremes_ui(
        context, result, info, coloring,
        {entropy ? "Most spread" : "Look here first", entropy ? "Sharpest" : "Doing best"});
  }

  void grid_and_extremes_ui(DrawContext& context, const Overview& result, const NumberInfo& info,
                            const Coloring& coloring, const Headings& headings) {
    if (!context.figure) {
      const float height = std::max(ImGui::GetContentRegionAvail().y, widgets::em(9));
      ImGui::BeginChild("grid", {0, height}, ImGuiChildFlags_None,
                        ImGuiWindowFlags_HorizontalScrollbar);
      grid_ui(context, result, info, coloring);
      ImGui::EndChild();
      return;
    }
    const float side = widgets::em(19);
    ImGui::BeginChild("grid", {ImGui::GetContentRegionAvail().x - side, 0});
    grid_ui(context, result, info, coloring);
    ImGui::EndChild();
    ImGui::SameLine();
    ImGui::BeginChild("extremes", {0, 0}, ImGuiChildFlags_None, ImGuiWindowFlags_NoScrollbar);
    extremes_ui(context, result, info, coloring, headings);
    ImGui::EndChild();
  }

  // One grid a method, in the colours of one scale.
  void grids_ui(DrawContext& context, const std::vector<state::MethodChoice>& methods) {
    num_grids_ = methods.size();
    std::vector<Overview> results;
    for (std::size_t i = 0; i < methods.size(); ++i)
      results.push_back(shown_[i].ask(context.workspace,
                                      state::overview_question(context.workspace, methods[i])));
    const OverviewQuestion& first = results.front().question;
    widgets::figure_head_ui(
        context.palette, context.figure,
        fmt::format("{} by layer and head", replay::headline_of(first.number())), "",
        place_caption(first.place), {});
    show_ui(context, kView);
    if (!context.figure) controls_ui(context, first);
    for (const Overview& result : results)
      if (result) scale_.of(result.question, *result);
    if (const auto ready = std::find_if(results.begin(), results.end(),
                                        [](const Overview& result) { return bool(result); });
        ready != results.end()) {
      const NumberInfo& info = replay::info_of(ready->question.number());
      scale_ui(context, *ready, info, Coloring(info, scale_.of(ready->question, **ready)));
    }
    if (methods.size() == 2) same_method_ui(context, methods[0], methods[1]);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const int count = static_cast<int>(methods.size());
    const int across = grids_across(first.place, room, count);
    const int down = (count + across - 1) / across;
    const float gap = widgets::em(0.6F);
    const ImVec2 size((room.x - gap * static_cast<float>(across - 1)) / static_cast<float>(across),
                      std::max(widgets::em(9), (room.y - gap * static_cast<float>(down)) /
                                                   static_cast<float>(down)));
    for (int i = 0; i < count; ++i) {
      if (i % across != 0) ImGui::SameLine(0, gap);
      ImGui::BeginChild(fmt::format("grid {}", i).c_str(), size);
      grid_of_method_ui(context, static_cast<std::size_t>(i), results[static_cast<std::size_t>(i)]);
      ImGui::EndChild();
    }
  }

  // As many beside each other as give the largest cells.
  static int grids_across(const state::Place& place, ImVec2 room, int count) {
    const auto layers = static_cast<float>(place.info().layers.size());
    const auto heads = static_cast<float>(place.info().model.num_kv_heads);
    int best = 1;
    float largest = 0;
    for (int across = 1; across <= count; ++across) {
      const float w = room.x / static_cast<float>(across) - widgets::em(2.2F);
      const float h = room.y / static_cast<float>((count + across - 1) / across) - widgets::em(5);
      const bool wide = w > h * 1.2F;
      const float cell = std::min(w / (wide ? layers : heads), widgets::em(6)) *
                         std::min(h / (wide ? heads : layers), widgets::em(4.6F));
      if (h > 0 && cell > largest) {
        largest = cell;
        best = across;
      }
    }
    return best;
  }

  void grid_of_method_ui(DrawContext& context, std::size_t index, const Overview& result) {
    const NumberInfo& info = replay::info_of(result.question.number());
    std::string mean;
    if (result && result->num_known > 0) {
      double sum = 0;
      for (const std::int32_t i : result->by_worth)
        sum += result->overview.values.values[static_cast<std::size_t>(i)];
      mean = fmt::format("mean {:.3f}", sum / result->num_known);
    }
    method_line_ui(context, index, result.question.method, mean);
    if (!ready_ui(context, result, fmt::format("Measuring {} in all layers", info.title))) return;
    if (result.question.number() != result.question.asked) note_ui(context, result.question);
    grid_ui(context, result, info, Coloring(info, scale_.of(result.question, *result)));
  }

  void difference_ui(DrawContext& context) {
    num_grids_ = 1;
    const auto asked = state::overview_difference_question(context.workspace);
    const auto result = difference_.ask(context.workspace, asked);
    const OverviewQuestion& a = result.question.a;
    const OverviewQuestion& b = result.question.b;
    widgets::figure_head_ui(
        context.palette, context.figure,
        fmt::format("{}: A less B, by layer and head", replay::headline_of(a.number())), "",
        place_caption(a.place), {});
    show_ui(context, kView);
    both_chips_ui(context, a.place, *state::known_facts(context.workspace, a.place, a.method),
                  *state::known_facts(context.workspace, b.place, b.method));
    if (!context.figure) controls_ui(context, asked.a);
    if (!ready_ui(context, result, "Comparing A and B in all layers")) return;
    const Coloring coloring(scale_.of(result.question, *result));
    NumberInfo info = replay::info_of(a.number());
    difference_scale_ui(context, *result, info, coloring);
    const std::string title = fmt::format("A less B: {}", info.title);
    info.title = title.c_str();
    Overview drawn;  // the differences, as a grid draws values
    drawn.state = result.state;
    drawn.question = a;
    drawn.answer = {result.answer, &result->less};
    drawn.stale = result.stale;
    drawn.key = result.key;
    grid_and_extremes_ui(context, drawn, info, coloring, {"B furthest ahead", "A furthest ahead"});
  }

  static void difference_scale_ui(DrawContext& context,
                                  const state::OverviewDifferenceQuestion::Answer& answer,
                                  const NumberInfo& info, const Coloring& coloring) {
    widgets::color_scale_ui(
        context.palette, coloring.color, fmt::format("B higher by {:.2g}", coloring.range.high),
        fmt::format("A higher by {:.2g}", coloring.range.high), info.title, widgets::em(9));
    const bool has_better = info.better != replay::Better::Neither;
    remark_ui(
        context, context.palette.text,
        fmt::format("A is {0} in {1} of {2} heads, B in {3}", has_better ? "better" : "higher",
                    answer.a_better, answer.less.num_known, answer.b_better));
    if (answer.less.num_dense > 0)
      remark_ui(context, context.palette.muted, "struck out: one of them is not known there");
    ImGui::Dummy({0, widgets::em(0.2F)});
  }

  // Budgets and fallbacks are those of the head that the place names.
  static void head_ui(DrawContext& context, const OverviewQuestion& question) {
    const std::string title =
        fmt::format("{} by layer and head", replay::headline_of(question.number()));
    if (!question.of_method()) {
      widgets::figure_head_ui(context.palette, context.figure, title, "",
                              place_caption(question.place), trace_chips(context, question.place));
      return;
    }
    if (question.method.empty()) return;
    method_head_ui(context, title, question.place,
                   *state::known_facts(context.workspace, question.place, question.method),
                   context.workspace.selection().shown);
  }

  static void note_ui(DrawContext& context, const OverviewQuestion& question) {
    if (!question.of_method()) return;
    if (question.number() == question.asked) {
      method_note_ui(context, question.place,
                     *state::known_facts(context.workspace, question.place, question.method));
      return;
    }
    widgets::text_wrapped(
        context.palette.warning,
        fmt::format(
            "{} cuts lanes and keeps every key: \u201C{}\u201D would be 1 everywhere, shown is "
            "what the cut lanes cost.",
            question.method.id(), replay::headline_of(question.asked)));
  }

  static void controls_ui(DrawContext& context, const OverviewQuestion& asked) {
    state::Cursor& cursor = context.workspace.cursor;
    ImGui::SetNextItemWidth(std::min(widgets::em(11), ImGui::GetContentRegionAvail().x));
    if (ImGui::BeginCombo("##metric", replay::headline_of(asked.asked).c_str())) {
      for (const Number number : analysis::kOverviewNumbers) {
        if (ImGui::Selectable(replay::headline_of(number).c_str(), number == asked.asked))
          cursor.set_option("layer_head_overview.metric", replay::name_of(number));
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", replay::info_of(number).sentence);
      }
      ImGui::EndCombo();
    }
    // The bar above says over which chunks, where it says anything.
    if (!analysis::needs_method(asked.asked) || asked.chunks.chosen) return;
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x < widgets::em(7)) ImGui::NewLine();
    bool all = !asked.chunks.range;
    if (ImGui::Checkbox("all chunks", &all))
      cursor.set_option("layer_head_overview.chunks", all ? "all" : "current");
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip(
          "Mean over all chunks of the prompt that selected (over the decode steps where none "
          "did), "
          "instead of the current chunk");
  }

  // What the numbers are means over, as far as the place does not say it.
  static std::string words_of_mean(const Overview& result) {
    const OverviewQuestion& question = result.question;
    if (question.of_method() && question.chunks.chosen)
      return ", " + state::words_of(question.chunks, question.place.info());
    if (!question.mean_of_chunks()) return "";
    return result->overview.phase == trace::Phase::Decode ? ", mean over decode steps"
                                                          : ", mean over chunks";
  }

  static void scale_ui(DrawContext& context, const Overview& result, const NumberInfo& info,
                       const Coloring& coloring) {
    const std::string mean = words_of_mean(result);
    widgets::color_scale_ui(
        context.palette, coloring.color, fmt::format("{:.2g}", coloring.range.low),
        fmt::format("{:.2g}", coloring.range.high),
        context.figure ? fmt::format("{}{}", info.brief, mean) : "", widgets::em(7));
    if (info.number == Number::RelevancePearson)
      remark_ui(context, context.palette.text,
                fmt::format("{} of {} heads above 0.5", result->above_half, result->num_known));
    const auto keys = result.question.watched();
    if (keys)
      remark_ui(context, context.palette.text,
                context.workspace.place().has_keys()
                    ? "watched: " + state::range_words("key", "keys", keys->begin, keys->end)
                    : fmt::format("watched: {} ({})", state::readable_name(keys->name),
                                  state::range_words("key", "keys", keys->begin, keys->end)));
    if (result.question.of_method() && result->num_dense > 0)
      remark_ui(context, context.palette.muted,
                keys ? "struck out: dense, or none of these keys comes before the chunk"
                     : "struck out: dense, everything is kept");
    ImGui::Dummy({0, widgets::em(0.2F)});
  }

  static void remark_ui(DrawContext& context, ImU32 color, const std::string& text) {
    const widgets::FontScope small(widgets::fonts().body, 0.9F);
    if (context.figure) ImGui::SameLine(0, widgets::em(1));
    widgets::text_wrapped(color, text);
  }

  void grid_ui(DrawContext& context, const Overview& result, const NumberInfo& info,
               const Coloring& coloring) {
    const float pixel = widgets::em(1 / 15.0F);
    const widgets::FontScope small(widgets::fonts().body, context.figure ? 0.9F : 0.82F);
    const Grid grid(result->overview, context.figure, pixel, zoom_);
    if (!grid.fits()) return;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const bool numbers = grid.cell_w > ImGui::CalcTextSize("-0.00").x + 2 &&
                         grid.cell_h > ImGui::GetTextLineHeight();
    for (int l = 0; l < grid.num_layers; ++l)
      for (int h = 0; h < grid.num_heads; ++h) {
        const double value = result->overview.values.at(l, h);
        const ImVec2 from = grid.from(l, h), to = grid.to(l, h);
        const ImU32 color = coloring.at(context.palette, value);
        draw->AddRectFilled(from, to, color, std::min(3.0F, grid.cell_h * 0.2F));
        if (std::isnan(value)) draw->AddLine({from.x, to.y}, {to.x, from.y}, context.palette.faint);
        if (info.number == Number::RelevancePearson && value > 0.5)
          draw->AddRect({from.x + 1, from.y + 1}, {to.x - 1, to.y - 1}, context.palette.text, 2, 0,
                        1.5F);
        if (numbers) number_in(draw, value, color, from, to);
      }
    current_ui(context, grid, result);
    axes_ui(context, grid, *result);
    ImGui::SetCursorScreenPos(grid.at);
    const bool pressed = ImGui::InvisibleButton("##cells", grid.extent());
    if (context.figure) return;
    const bool dragged = move_ui(grid);
    if (!ImGui::IsItemHovered()) return;
    const auto [l, h] = grid.under(ImGui::GetMousePos());
    const int layer = result->overview.layers[static_cast<std::size_t>(l)];
    ImGui::SetTooltip("layer %d, %s %d\n%s %.4f\n%s", layer, head_word(*result), h, info.title,
                      static_cast<double>(result->overview.values.at(l, h)), info.sentence);
    if (pressed && !dragged && !result.stale) go(context.workspace, *result, layer, h);
  }

  // As in every map the wheel zooms, a drag pans and a double click shows it as at first. True while
  // the cells are dragged.
  bool move_ui(const Grid& grid) {
    constexpr float kLeastZoom = 0.25F, kMostZoom = 6;
    const ImGuiIO& io = ImGui::GetIO();
    ImGui::SetItemKeyOwner(ImGuiKey_MouseWheelY);
    const bool hovered = ImGui::IsItemHovered();
    if (hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) zoom_ = 1;
    if (hovered && io.MouseWheel != 0) {
      const float before = zoom_;
      zoom_ = std::clamp(zoom_ * std::pow(1.15F, io.MouseWheel), kLeastZoom, kMostZoom);
      // What is under the mouse stays there.
      const float more = zoom_ / before - 1;
      ImGui::SetScrollX(ImGui::GetScrollX() + more * (io.MousePos.x - grid.at.x));
      ImGui::SetScrollY(ImGui::GetScrollY() + more * (io.MousePos.y - grid.at.y));
    }
    const ImVec2 drag = ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F);
    const bool dragged = drag.x != 0 || drag.y != 0;
    if (ImGui::IsItemActive() && dragged) {
      ImGui::SetScrollX(ImGui::GetScrollX() - io.MouseDelta.x);
      ImGui::SetScrollY(ImGui::GetScrollY() - io.MouseDelta.y);
    }
    return dragged;
  }

  // The cell of the place; and the one under the mouse, in all grids.
  void current_ui(DrawContext& context, const Grid& grid, const Overview& result) {
    pointed_ui(context, grid, result->q_heads_per_column);
    const state::Place& place = result.question.place;
    const std::vector<int>& layers = result->overview.layers;
    const auto layer = std::find(layers.begin(), layers.end(), place.layer);
    const int head = place.q_head / result->q_heads_per_column;
    if (layer == layers.end() || head >= grid.num_heads) return;
    const int l = static_cast<int>(layer - layers.begin());
    const ImVec2 from = grid.from(l, head), to = grid.to(l, head);
    // Two lines, so that it stands out from dark cells and light ones.
    const float line = std::max(2.0F, widgets::em(0.16F));
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const float out = 1.5F + line;
    draw->AddRect({from.x - out, from.y - out}, {to.x + out, to.y + out}, context.palette.panel, 4,
                  0, line);
    draw->AddRect({from.x - 1.5F, from.y - 1.5F}, {to.x + 1.5F, to.y + 1.5F}, context.palette.text,
                  3, 0, line);
  }

  // Of several grids; one alone has the mouse.
  void pointed_ui(DrawContext& context, const Grid& grid, int q_heads_per_column) {
    if (num_grids_ < 2 || context.figure) return;
    if (pointed_ && pointed_->second / q_heads_per_column < grid.num_heads) {
      const int head = pointed_->second / q_heads_per_column;
      const ImVec2 from = grid.from(pointed_->first, head), to = grid.to(pointed_->first, head);
      ImGui::GetWindowDrawList()->AddRect(from, to, context.palette.text, 3, 0, widgets::em(0.1F));
    }
    const ImVec2 extent = grid.extent();
    const bool inside =
        ImGui::IsMouseHoveringRect(grid.at, {grid.at.x + extent.x, grid.at.y + extent.y});
    if (!inside || !ImGui::IsWindowHovered()) return;
    const auto [layer, head] = grid.under(ImGui::GetMousePos());
    pointing_ = {layer, head * q_heads_per_column};
  }

  static void go(state::Workspace& workspace, const OverviewQuestion::Answer& answer, int layer,
                 int column) {
    workspace.cursor.change("", [&](state::Selection& s) {
      s.place.layer = layer;
      if (s.place.q_head / answer.q_heads_per_column != column)
        s.place.q_head = column * answer.q_heads_per_column;
    });
  }

  // Numbers and names stay in sight while the cells scroll below them.
  static void axes_ui(DrawContext& context, const Grid& grid,
                      const OverviewQuestion::Answer& answer) {
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const ImU32 color = context.palette.muted;
    const ImVec2 scroll(ImGui::GetScrollX(), ImGui::GetScrollY());
    const ImVec2 margin(grid.at.x - grid.origin.x, grid.at.y - grid.origin.y);
    const ImVec2 corner(grid.origin.x + scroll.x, grid.origin.y + scroll.y);
    const ImVec2 extent = grid.extent();
    if (scroll.y > 0)
      draw->AddRectFilled(corner, {grid.at.x + extent.x + 2, corner.y + margin.y - 1},
                          context.palette.panel);
    if (scroll.x > 0)
      draw->AddRectFilled(corner, {corner.x + margin.x - 1, grid.at.y + extent.y + 2},
                          context.palette.panel);
    const ImVec2 first(corner.x + margin.x, corner.y + margin.y);  // of the cells in sight
    const char* head = head_word(answer);
    draw->AddText({first.x, corner.y}, color,
                  grid.wide ? "layer \u2192" : fmt::format("{} \u2192", head).c_str());
    draw->AddText({corner.x, first.y - widgets::em(1.35F)}, color,
                  !grid.wide                      ? "layer"
                  : answer.overview.per_kv_head   ? "KV"
                  : answer.q_heads_per_column > 1 ? "sub"
                                                  : "q");
    const float line = ImGui::GetTextLineHeight();
    const auto text_of = [&](bool is_layer, int i) {
      return std::to_string(is_layer ? answer.overview.layers[static_cast<std::size_t>(i)] : i);
    };
    const int step_x = std::max(1, static_cast<int>(std::ceil(widgets::em(1.5F) / grid.cell_w)));
    const int step_y = std::max(1, static_cast<int>(std::ceil(line / grid.cell_h)));
    for (int i = 0; i < grid.across(); i += step_x) {
      const std::string text = text_of(grid.wide, i);
      const float middle = grid.at.x + grid.cell_w * (static_cast<float>(i) + 0.5F);
      if (middle < first.x) continue;
      draw->AddText(
          {middle - ImGui::CalcTextSize(text.c_str()).x / 2, first.y - line - widgets::em(0.2F)},
          color, text.c_str());
    }
    for (int i = 0; i < grid.down(); i += step_y) {
      const std::string text = text_of(!grid.wide, i);
      const float middle = grid.at.y + grid.cell_h * (static_cast<float>(i) + 0.5F);
      if (middle < first.y) continue;
      draw->AddText(
          {first.x - ImGui::CalcTextSize(text.c_str()).x - widgets::em(0.4F), middle - line / 2},
          color, text.c_str());
    }
  }

  static void number_in(ImDrawList* draw, double value, ImU32 color, ImVec2 from, ImVec2 to) {
    if (std::isnan(value)) return;
    // No minus before what rounds to 0.
    const std::string text = fmt::format("{:.2f}", std::abs(value) < 0.005 ? 0.0 : value);
    const ImVec2 size = ImGui::CalcTextSize(text.c_str());
    draw->AddText({(from.x + to.x - size.x) / 2, (from.y + to.y - size.y) / 2},
                  widgets::ink_on(color), text.c_str());
  }

  static void extremes_ui(DrawContext& context, const Overview& result, const NumberInfo& info,
                          const Coloring& coloring, const Headings& headings) {
    const std::vector<std::int32_t>& cells = result->by_worth;
    // As many as the height has room for, beside two headings and the meaning.
    const float room = ImGui::GetContentRegionAvail().y - widgets::em(7.5F);
    const float lines = std::clamp(room / 2 / ImGui::GetTextLineHeightWithSpacing(), 1.0F, 9.0F);
    const std::size_t count = std::min(static_cast<std::size_t>(lines), cells.size());
    for (const bool best : {false, true}) {
      {
        const widgets::FontScope strong(widgets::fonts().strong, 1.0F);
        widgets::text_colored(context.palette.text, best ? headings.best : headings.worst);
      }
      if (!best && !result->gap.values.empty())
        remark_ui(context, context.palette.muted, "recall, gap to the oracle");
      for (std::size_t i = 0; i < count; ++i)
        extreme_ui(context, result, coloring, cells[best ? cells.size() - 1 - i : i]);
      ImGui::Dummy({0, widgets::em(0.6F)});
    }
    widgets::text_wrapped(context.palette.muted, info.sentence);
  }

  static void extreme_ui(DrawContext& context, const Overview& result, const Coloring& coloring,
                         std::int32_t index) {
    const analysis::Matrix& values = result->overview.values;
    const double value = values.values[static_cast<std::size_t>(index)];
    const int layer = result->overview.layers[static_cast<std::size_t>(index / values.cols)];
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float box = widgets::em(0.9F);
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + 2}, {at.x + box, at.y + 2 + box},
                                              coloring.at(context.palette, value), 3);
    ImGui::SetCursorScreenPos({at.x + box + widgets::em(0.5F), at.y});
    widgets::text_colored(
        context.palette.text,
        fmt::format("layer {}, {} {}", layer, head_word(*result), index % values.cols));
    ImGui::SameLine(widgets::em(13));
    const widgets::FontScope mono(widgets::fonts().mono, 0.95F);
    std::string text = fmt::format("{:.3f}", value);
    if (!result->gap.values.empty())
      text += fmt::format("  {:.3f}", result->gap.values[static_cast<std::size_t>(index)]);
    widgets::text_colored(context.palette.muted, text);
  }

  std::array<state::LastAnswer<OverviewQuestion>, state::kMostMethods> shown_;
  state::LastAnswer<state::OverviewDifferenceQuestion> difference_;
  state::OverviewScale scale_;
  std::size_t num_grids_ = 1;
  // Row of the layer and query head under the mouse, in the last frame and in this one.
  std::optional<std::pair<int, int>> pointed_, pointing_;
  SteadyHead head_;
  float zoom_ = 1;
};

}  // namespace

std::unique_ptr<Panel> make_layer_head_overview_panel() {
  return std::make_unique<OverviewPanel>();
}

}  // namespace kvloupe::panels
