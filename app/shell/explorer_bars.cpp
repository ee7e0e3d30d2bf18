// The transport bar (replay, place, methods) and the list of runs.
#include "app/shell/explorer.h"

#include "app/state/method_groups.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::shell {
namespace {

enum class Icon { First, Previous, Play, Pause, Next, Last };

// Drawn, so that no icon font is needed.
bool icon_button(const char* id, Icon icon, const widgets::Palette& palette, const char* tip) {
  const float side = ImGui::GetFrameHeight();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::Button(id, {side, side});
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", tip);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const ImVec2 c(at.x + side / 2, at.y + side / 2);
  const float r = side * 0.2F;
  const ImU32 ink = palette.text;
  const auto right = [&](float x) {
    draw->AddTriangleFilled({x - r * 0.8F, c.y - r}, {x - r * 0.8F, c.y + r}, {x + r * 0.9F, c.y},
                            ink);
  };
  const auto left = [&](float x) {
    draw->AddTriangleFilled({x + r * 0.8F, c.y + r}, {x + r * 0.8F, c.y - r}, {x - r * 0.9F, c.y},
                            ink);
  };
  const auto bar = [&](float x) {
    draw->AddRectFilled({x - r * 0.22F, c.y - r}, {x + r * 0.22F, c.y + r}, ink);
  };
  switch (icon) {
    case Icon::First:
      left(c.x + r * 0.2F);
      bar(c.x - r);
      break;
    case Icon::Previous:
      left(c.x);
      break;
    case Icon::Play:
      right(c.x);
      break;
    case Icon::Pause:
      bar(c.x - r * 0.55F);
      bar(c.x + r * 0.55F);
      break;
    case Icon::Next:
      right(c.x);
      break;
    case Icon::Last:
      right(c.x - r * 0.2F);
      bar(c.x + r);
      break;
  }
  return pressed;
}

}  // namespace

void Explorer::transport_ui() {
  const auto& p = gui_.palette();
  const float height = ImGui::GetFrameHeight() + widgets::em(0.9F);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoScrollbar |
                                      ImGuiWindowFlags_NoScrollWithMouse |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(0.8F), widgets::em(0.42F)});
  if (ImGui::BeginViewportSideBar("##transport", ImGui::GetMainViewport(), ImGuiDir_Up, height,
                                  kFlags)) {
    ImGui::BeginDisabled(workspace_.ready() == nullptr);
    if (icon_button("##first", Icon::First, p, "First chunk (Home)")) workspace_.set_chunk(0);
    ImGui::SameLine(0, widgets::em(0.2F));
    if (icon_button("##previous", Icon::Previous, p, "Previous chunk (Left)"))
      workspace_.step_chunk(-1);
    ImGui::SameLine(0, widgets::em(0.2F));
    if (icon_button("##play", playing_ ? Icon::Pause : Icon::Play, p,
                    playing_ ? "Pause (Space)" : "Play (Space)"))
      playing_ = !playing_;
    ImGui::SameLine(0, widgets::em(0.2F));
    if (icon_button("##next", Icon::Next, p, "Next chunk (Right)")) workspace_.step_chunk(1);
    ImGui::SameLine(0, widgets::em(0.2F));
    if (icon_button("##last", Icon::Last, p, "Last chunk (End)")) workspace_.set_chunk(1 << 30);
    ImGui::SameLine();
    ImGui::Checkbox("loop", &loop_);
    ImGui::SameLine();
    if (workspace_.ready() != nullptr) place_ui();
    ImGui::EndDisabled();
  }
  ImGui::End();
  ImGui::PopStyleVar();
}

void Explorer::place_ui() {
  const auto& info = workspace_.info();
  const state::Selection& s = workspace_.selection();
  const auto label = [&](const char* text) {
    ImGui::SameLine(0, widgets::em(1));
    ImGui::AlignTextToFramePadding();
    widgets::text_colored(gui_.palette().muted, text);
    ImGui::SameLine(0, widgets::em(0.4F));
  };
  int chunk = s.chunk;
  ImGui::SetNextItemWidth(
      std::clamp(ImGui::GetContentRegionAvail().x * 0.22F, widgets::em(8), widgets::em(24)));
  const std::string format = fmt::format("chunk %d of {}", info.chunks.size() - 1);
  if (ImGui::SliderInt("##chunk", &chunk, 0, std::max(0, static_cast<int>(info.chunks.size()) - 1),
                       format.c_str()))
    workspace_.set_chunk(chunk);
  label("layer");
  ImGui::SetNextItemWidth(widgets::em(4.2F));
  if (ImGui::BeginCombo("##layer", std::to_string(s.layer).c_str())) {
    for (const int layer : info.layers)
      if (ImGui::Selectable(std::to_string(layer).c_str(), layer == s.layer))
        workspace_.set_layer(layer);
    ImGui::EndCombo();
  }
  label("head");
  ImGui::SetNextItemWidth(widgets::em(7.6F));
  if (ImGui::BeginCombo("##head",
                        fmt::format("q {}  (KV {})", s.q_head, workspace_.kv_head()).c_str())) {
    for (int head = 0; head < info.model.num_q_heads; ++head)
      if (ImGui::Selectable(
              fmt::format("q {}  (KV {})", head, head / info.model.gqa_group_size()).c_str(),
              head == s.q_head))
        workspace_.set_q_head(head);
    ImGui::EndCombo();
  }
  for (const state::Slot slot : state::kSlots) {
    label(slot == state::Slot::A ? "A" : "B");
    methods_.draw(workspace_, gui_.palette(), slot);
  }
  label("show");
  for (const state::Slot slot : state::kSlots) {
    const bool here = s.shown == slot;
    if (slot == state::Slot::B) ImGui::SameLine(0, 1);
    ImGui::PushStyleColor(ImGuiCol_Button, here ? gui_.palette().accent : gui_.palette().raised);
    ImGui::PushStyleColor(ImGuiCol_Text, here ? gui_.palette().on_accent : gui_.palette().muted);
    if (ImGui::Button(slot == state::Slot::A ? "A##show" : "B##show", {widgets::em(1.9F), 0}))
      workspace_.change("flip", [&](state::Selection& next) { next.shown = slot; });
    ImGui::PopStyleColor(2);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Which method the views show (X flips)");
  }
  label("device");
  widgets::text_colored(gui_.palette().text, "cpu");
}

// The recorded runs with what they kept in this layer; a click shows one as A, Ctrl+click as B.
void Explorer::runs_ui() {
  if (!runs_open_) return;
  ImGui::PushStyleColor(ImGuiCol_WindowBg,
                        widgets::with_alpha(gui_.palette().panel, runs_docked_ ? 0 : 1));
  const bool visible = ImGui::Begin("Runs###runs", &runs_open_, ImGuiWindowFlags_NoCollapse);
  ImGui::PopStyleColor();
  runs_docked_ = ImGui::IsWindowDocked();
  if (visible && workspace_.ready() != nullptr) {
    const auto& p = gui_.palette();
    const auto& info = workspace_.info();
    const state::Selection& s = workspace_.selection();
    widgets::text_colored(p.muted, fmt::format("layer {}: mass recall, all chunks", s.layer));
    bool asked = workspace_.busy();  // one at a time, after what the views need
    for (const trace::RunInfo& run : info.runs) {
      ImGui::PushID(run.id);
      const bool is_a = s.choice(state::Slot::A).run == run.id,
                 is_b = s.choice(state::Slot::B).run == run.id;
      const ImVec2 at = ImGui::GetCursorScreenPos();
      if (ImGui::Selectable("##run", is_a || is_b, 0, {0, widgets::em(2.5F)}))
        workspace_.set_run(ImGui::GetIO().KeyCtrl ? state::Slot::B : state::Slot::A, run.id);
      if (ImGui::IsItemHovered())
        ImGui::SetTooltip("%s%s\nclick: show as A; Ctrl+click: as B", run.method.c_str(),
                          run.basis_leakage ? "\nleakage: its basis was fitted on this text" : "");
      const ImVec2 after = ImGui::GetCursorScreenPos();
      ImGui::SetCursorScreenPos({at.x + widgets::em(0.3F), at.y});
      widgets::text_colored(p.text,
                            state::short_label(run.method) +
                                (run.mode == trace::LoopMode::ClosedLoop ? "  closed loop" : ""));
      if (run.basis_leakage) {
        ImGui::SameLine();
        widgets::text_colored(p.warning, "leakage");
      }
      if (is_a || is_b) {
        ImGui::SameLine();
        widgets::text_colored(p.accent, is_a && is_b ? "A B" : is_a ? "A" : "B");
      }
      ImGui::SetCursorScreenPos({at.x + widgets::em(0.3F), at.y + widgets::em(1.2F)});
      const bool may_ask = !asked || workspace_.has_run_summary(run.id);
      if (may_ask) {
        const auto summary = workspace_.run_summary(run.id);
        asked |= summary.state == state::ResultState::Loading;
        if (summary && summary->mass_recall) {
          widgets::share_bar_ui(p, *summary->mass_recall, p.hit, widgets::em(5), widgets::em(0.4F));
          ImGui::SameLine();
          widgets::text_colored(
              p.muted, fmt::format("{:.2f}  {} kept", *summary->mass_recall,
                                   summary->effective_budget
                                       ? format_count(std::llround(*summary->effective_budget))
                                       : "?"));
        } else {
          widgets::text_colored(p.faint, summary.state == state::ResultState::Error ? "failed"
                                         : summary                                  ? "keeps all"
                                                                                    : "\u2026");
        }
      } else {
        widgets::text_colored(p.faint, "\u2026");
      }
      ImGui::SetCursorScreenPos(after);
      ImGui::Dummy({0, 0});
      ImGui::PopID();
    }
    if (info.runs.empty())
      widgets::text_wrapped(p.muted, "No run was recorded; the methods above are selected anew.");
  }
  ImGui::End();
}

}  // namespace kvloupe::shell
