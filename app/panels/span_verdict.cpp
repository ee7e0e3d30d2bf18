#include "app/panels/span_verdict.h"

#include "app/panels/view_frame.h"
#include "app/state/method_groups.h"
#include "app/widgets/table.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using replay::SpanChange;
using replay::SpanHead;
using replay::SpanLoss;
using state::SpanLossNow;

constexpr std::size_t kMostHeads = 6;
constexpr std::size_t kMostHeadsInWindow = 3;  // what is said of the key below needs the room

// Layers run across, rows down: how much of the span each keeps.
class HeadGrid {
 public:
  explicit HeadGrid(const SpanLossNow& now)
      : loss_(*now.loss), layers_(now.question.place.info().layers) {
    const trace::ModelInfo& model = now.question.place.info().model;
    num_rows_ = std::max(1, model.num_q_heads / std::max(1, loss_.layout.q_heads_per_row));
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    at_ = {origin.x + widgets::em(2.2F), origin.y + ImGui::GetTextLineHeight()};
    const float room = ImGui::GetContentRegionAvail().x - widgets::em(2.4F);
    cell_w_ = std::clamp(room / static_cast<float>(std::max<std::size_t>(1, layers_.size())), 2.0F,
                         widgets::em(2.2F));
    const auto rows = static_cast<float>(num_rows_);
    cell_h_ = std::clamp(widgets::em(6) / rows, widgets::em(0.3F), widgets::em(1.05F));
    if (loss_.has_causes)
      for (const SpanHead* head : loss_.heads_of_mass(replay::kShareThatMatters))
        matters_.insert({head->layer, head->row});
  }

  void draw(DrawContext& context, const state::Place& place) const {
    const widgets::Palette& p = context.palette;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    numbers(context);
    for (std::size_t l = 0; l < layers_.size(); ++l)
      for (int row = 0; row < num_rows_; ++row)
        draw->AddRectFilled(from(l, row), to(l, row), p.dense, 2);
    for (const SpanHead& head : loss_.heads) {
      const auto layer = std::find(layers_.begin(), layers_.end(), head.layer);
      if (layer == layers_.end() || head.row >= num_rows_) continue;
      const auto l = static_cast<std::size_t>(layer - layers_.begin());
      const double share = static_cast<double>(head.kept) / static_cast<double>(head.keys);
      const ImU32 color = widgets::diverging_color(p, share);
      draw->AddRectFilled(from(l, head.row), to(l, head.row), color, 2);
      if (matters_.contains({head.layer, head.row})) {
        const ImVec2 a = from(l, head.row), b = to(l, head.row);
        draw->AddCircleFilled({(a.x + b.x) / 2, (a.y + b.y) / 2},
                              std::min({widgets::em(0.2F), (b.x - a.x) / 3, (b.y - a.y) / 3}),
                              widgets::ink_on(color));
      }
    }
    current(context, place);
    ImGui::SetCursorScreenPos(at_);
    const ImVec2 extent(cell_w_ * static_cast<float>(layers_.size()),
                        cell_h_ * static_cast<float>(num_rows_));
    const bool pressed = ImGui::InvisibleButton("###span heads", extent);
    if (!context.figure && ImGui::IsItemHovered()) point_at(context, pressed);
  }

 private:
  ImVec2 from(std::size_t l, int row) const {
    return {at_.x + cell_w_ * static_cast<float>(l) + 0.5F,
            at_.y + cell_h_ * static_cast<float>(row) + 0.5F};
  }
  ImVec2 to(std::size_t l, int row) const {
    const ImVec2 corner = from(l, row);
    return {corner.x + cell_w_ - 1, corner.y + cell_h_ - 1};
  }

  void numbers(DrawContext& context) const {
    const widgets::FontScope small(widgets::Type::Caption);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const auto step =
        static_cast<std::size_t>(std::max(1.0F, std::ceil(widgets::em(1.9F) / cell_w_)));
    const float line = ImGui::GetTextLineHeight();
    for (std::size_t l = 0; l < layers_.size(); l += step) {
      const std::string text = std::to_string(layers_[l]);
      const float width = ImGui::CalcTextSize(text.c_str()).x;
      draw->AddText({from(l, 0).x + (cell_w_ - width) / 2, at_.y - line - 1}, context.palette.muted,
                    text.c_str());
    }
    const int row_step = std::max(1, static_cast<int>(std::ceil(line / cell_h_)));
    for (int row = 0; row < num_rows_; row += row_step) {
      const bool kv = loss_.layout.axis == trace::RowAxis::KvHead;
      const std::string text = std::to_string(kv ? row : row * loss_.layout.q_heads_per_row);
      const float width = ImGui::CalcTextSize(text.c_str()).x;
      draw->AddText({at_.x - width - widgets::em(0.4F), from(0, row).y + (cell_h_ - line) / 2},
                    context.palette.muted, text.c_str());
    }
  }

  void current(DrawContext& context, const state::Place& place) const {
    const auto layer = std::find(layers_.begin(), layers_.end(), place.layer);
    const int row = place.q_head / std::max(1, loss_.layout.q_heads_per_row);
    if (layer == layers_.end() || row >= num_rows_) return;
    const auto l = static_cast<std::size_t>(layer - layers_.begin());
    const ImVec2 a = from(l, row), b = to(l, row);
    ImGui::GetWindowDrawList()->AddRect({a.x - 1.5F, a.y - 1.5F}, {b.x + 1.5F, b.y + 1.5F},
                                        context.palette.text, 2, 0, widgets::em(0.13F));
  }

  void point_at(DrawContext& context, bool pressed) const {
    const ImVec2 mouse = ImGui::GetMousePos();
    const auto l = std::min(static_cast<std::size_t>(std::max(0.0F, (mouse.x - at_.x) / cell_w_)),
                            layers_.size() - 1);
    const int row = std::clamp(static_cast<int>((mouse.y - at_.y) / cell_h_), 0, num_rows_ - 1);
    const auto head = std::find_if(
        loss_.heads.begin(), loss_.heads.end(),
        [&](const SpanHead& one) { return one.layer == layers_[l] && one.row == row; });
    std::string text =
        fmt::format("layer {}, {}\n", layers_[l], replay::row_words(loss_.layout, row));
    if (head == loss_.heads.end()) {
      text += "nothing of the span is lost here: every key is kept, or none of it comes before";
    } else {
      text += fmt::format("{} of {} keys kept", head->kept, head->keys);
      const double mass = loss_.sums().mass;
      if (loss_.has_causes && mass > 0)
        text += fmt::format("\n{} of the attention that the span receives",
                            state::share_text(head->mass / mass));
      if (head->enough)
        text += fmt::format("\na budget of {} keeps all of it", format_count(*head->enough));
    }
    const int per_row = std::max(1, loss_.layout.q_heads_per_row);
    state::Place there = context.workspace.place();
    there.layer = layers_[l];
    there.q_head = row * per_row;
    context.workspace.pointer.at(
        {.place = there, .key_begin = loss_.span.begin, .key_end = loss_.span.end});
    widgets::tooltip("%s", text.c_str());
    if (!pressed) return;
    context.workspace.cursor.change("", [&](state::Selection& s) {
      s.place.layer = layers_[l];
      if (s.place.q_head / per_row != row) s.place.q_head = row * per_row;
    });
  }

  const SpanLoss& loss_;
  const std::vector<int>& layers_;
  int num_rows_ = 1;
  ImVec2 at_;
  float cell_w_ = 0, cell_h_ = 0;
  std::set<std::pair<int, int>> matters_;
};

// Makes it method B.
void remedy_button_ui(DrawContext& context, const SpanLossNow& now, const std::string& words,
                      const selection::MethodSpec& spec, const std::string& tip) {
  const std::string text = words + "  \u2192 B";
  const float width = ImGui::CalcTextSize(text.c_str()).x + widgets::em(1);
  beside_ui(widgets::em(0.4F), width);
  if (ImGui::Button(text.c_str()))
    context.workspace.cursor.set_method(state::Slot::B,
                                        state::choice_of_spec(spec, *now.question.place.trace));
  if (ImGui::IsItemHovered())
    widgets::tooltip("%s\nclick: method B becomes %s", tip.c_str(), spec.canonical().c_str());
}

void remedies_ui(DrawContext& context, const SpanLossNow& now, bool& search) {
  const SpanLoss& loss = *now.loss;
  const std::string remedy = replay::remedy_of(loss);
  if (!remedy.empty()) widgets::text_wrapped(context.palette.text, remedy);
  if (context.figure) return;
  const SpanLoss::Sums sums = loss.sums();
  ImGui::Dummy({0, 0});
  if (now.may_look && sums.lost() > 0) {
    if (ImGui::Button("Look for the budget that keeps all of it###look")) search = true;
    if (ImGui::IsItemHovered())
      widgets::tooltip(
          "A larger budget of %s need not keep what a smaller one does:\nseveral are tried in "
          "every "
          "layer, which takes a while.",
          now.question.method.id().c_str());
  }
  if (sums.lost() == 0 || !loss.method.known()) return;
  if (loss.has_budgets && sums.enough)
    remedy_button_ui(context, now, fmt::format("budget {}", format_count(*sums.enough)),
                     loss.method.spec->with({{"budget_tokens", fmt::format("{}", *sums.enough)}}),
                     loss.exact_budgets
                         ? "It keeps all of the span in every head."
                         : "The largest budget that a head needs: others may lose some with it.");
  for (const SpanChange& change : loss.changes)
    if (change.spec && change.heads > 0)
      remedy_button_ui(
          context, now, change.change, *change.spec,
          fmt::format("It would keep all of the span in {} more heads.", change.heads));
}

void heads_ui(DrawContext& context, const SpanLoss& loss) {
  const table::Table table =
      state::span_heads_table(loss, context.figure ? kMostHeads : kMostHeadsInWindow);
  if (table.rows.empty()) return;
  widgets::TableLook look{{0.8F, 1.4F, 0.7F, 0.6F, 1.1F, 1.9F}};
  if (loss.has_budgets) look.weights.push_back(1.0F);
  look.ink = [&](std::size_t row, std::size_t column) {
    if (column != 2) return context.palette.text;
    const auto heads = loss.heads_of_mass(replay::kShareThatMatters);
    return heads[row]->keeps_all() ? context.palette.hit : context.palette.miss;
  };
  const widgets::FontScope small(widgets::Type::Caption);
  if (!context.figure) look.pointer = &context.workspace.pointer;
  widgets::table_ui(context.palette, "##span heads table", table, look);
}

}  // namespace

void span_verdict_ui(DrawContext& context, const SpanLossNow& now, state::Slot slot, bool& search) {
  const widgets::Palette& p = context.palette;
  if (!now.loss) {
    widgets::text_wrapped(now.error.empty() ? p.muted : p.error,
                          now.error.empty() ? "Counting what is kept of it\u2026" : now.error);
    return;
  }
  const SpanLoss& loss = *now.loss;
  {
    const widgets::FontScope strong(widgets::Type::Strong);
    widgets::text_colored(widgets::color_of_slot(p, slot), std::string(1, letter_of(slot)));
    ImGui::SameLine(0, widgets::em(0.5F));
    widgets::text_wrapped(p.text, replay::sentence_of(loss));
  }
  remedies_ui(context, now, search);
  if (!now.error.empty()) widgets::text_wrapped(p.error, now.error);
  if (!now.doing.empty()) widgets::text_colored(p.muted, now.doing + "\u2026");
}

void span_heads_ui(DrawContext& context, const SpanLossNow& now) {
  if (!now.loss || now.loss->heads.empty()) return;
  const SpanLoss& loss = *now.loss;
  heading_ui(context, "All layers",
             loss.has_causes ? "share kept, from none to all; dots: the heads that matter"
                             : "share kept, from none to all");
  HeadGrid(now).draw(context, now.question.place);
  if (loss.has_causes) heads_ui(context, loss);
}

}  // namespace kvloupe::panels
