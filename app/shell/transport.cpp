#include "app/shell/transport.h"

#include "app/state/labels.h"
#include "app/state/questions/devices.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>

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

void label_ui(const widgets::Palette& palette, const char* text) {
  ImGui::SameLine(0, widgets::em(1));
  ImGui::AlignTextToFramePadding();
  widgets::text_colored(palette.muted, text);
  ImGui::SameLine(0, widgets::em(0.4F));
}

// A line of a list, which opens where the chosen one is in sight.
bool choice_ui(const std::string& name, bool chosen) {
  const bool pressed = ImGui::Selectable(name.c_str(), chosen);
  if (chosen) ImGui::SetItemDefaultFocus();
  return pressed;
}

// Below this the bar takes two lines: nothing may be cut off.
float width_of_one_line() { return widgets::em(96); }

}  // namespace

void Transport::tick(state::Workspace& workspace) {
  if (!playing_ || !workspace.has_trace()) return;
  const double now = ImGui::GetTime();
  const double period = 1.0 / chunks_per_second_;
  // Wait for the views, but not for ever: a slow method must not stop the replay.
  if (now - last_step_ < period || (workspace.answers.busy() && now - last_step_ < 4 * period))
    return;
  last_step_ = now;
  const int last = static_cast<int>(workspace.place().info().chunks.size()) - 1;
  if (workspace.place().chunk < last)
    workspace.cursor.step_chunk(1);
  else if (loop_)
    workspace.cursor.set_chunk(0);
  else
    playing_ = false;
}

void Transport::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  const bool two_lines = ImGui::GetMainViewport()->Size.x < width_of_one_line();
  const float line = ImGui::GetFrameHeight() + widgets::em(0.9F);
  const float height = two_lines ? 2 * line - widgets::em(0.4F) : line;
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoScrollbar |
                                      ImGuiWindowFlags_NoScrollWithMouse |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(0.8F), widgets::em(0.42F)});
  if (ImGui::BeginViewportSideBar("##transport", ImGui::GetMainViewport(), ImGuiDir_Up, height,
                                  kFlags)) {
    ImGui::BeginDisabled(!workspace.has_trace());
    buttons_ui(workspace, palette);
    if (workspace.has_trace()) {
      place_ui(workspace, palette);
      if (two_lines) ImGui::Dummy({0, 0});
      methods_ui(workspace, palette);
    }
    ImGui::EndDisabled();
  }
  ImGui::End();
  ImGui::PopStyleVar();
}

void Transport::buttons_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  state::Cursor& cursor = workspace.cursor;
  const float gap = widgets::em(0.2F);
  if (icon_button("##first", Icon::First, palette, "First chunk (Home)")) cursor.set_chunk(0);
  ImGui::SameLine(0, gap);
  if (icon_button("##previous", Icon::Previous, palette, "Previous chunk (Left)"))
    cursor.step_chunk(-1);
  ImGui::SameLine(0, gap);
  if (icon_button("##play", playing_ ? Icon::Pause : Icon::Play, palette,
                  playing_ ? "Pause (Space)" : "Play (Space)"))
    toggle();
  ImGui::SameLine(0, gap);
  if (icon_button("##next", Icon::Next, palette, "Next chunk (Right)")) cursor.step_chunk(1);
  ImGui::SameLine(0, gap);
  if (icon_button("##last", Icon::Last, palette, "Last chunk (End)")) cursor.set_chunk(1 << 30);
  ImGui::SameLine();
  ImGui::Checkbox("loop", &loop_);
  ImGui::SameLine();
}

void Transport::place_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  state::Cursor& cursor = workspace.cursor;
  const state::Place place = workspace.place();
  const trace::TraceInfo& info = place.info();
  const int last = static_cast<int>(info.chunks.size()) - 1;
  int chunk = place.chunk;
  ImGui::SetNextItemWidth(
      std::clamp(ImGui::GetContentRegionAvail().x * 0.22F, widgets::em(10), widgets::em(24)));
  const bool step = place.chunk_info().phase == trace::Phase::Decode;
  const std::string format = fmt::format("{} %d of {}", step ? "decode step" : "chunk", last);
  if (ImGui::SliderInt("##chunk", &chunk, 0, std::max(0, last), format.c_str()))
    cursor.set_chunk(chunk);
  label_ui(palette, "layer");
  ImGui::SetNextItemWidth(widgets::em(4.2F));
  if (ImGui::BeginCombo("##layer", std::to_string(place.layer).c_str())) {
    for (const int layer : info.layers)
      if (choice_ui(state::layer_name(info.model, layer), layer == place.layer))
        cursor.set_layer(layer);
    ImGui::EndCombo();
  }
  label_ui(palette, "head");
  ImGui::SetNextItemWidth(widgets::em(7.6F));
  const auto head_name = [&](int head) {
    return fmt::format("q {}  (KV {})", head, head / info.model.gqa_group_size());
  };
  if (ImGui::BeginCombo("##head", head_name(place.q_head).c_str())) {
    for (int head = 0; head < info.model.num_q_heads; ++head)
      if (choice_ui(head_name(head), head == place.q_head)) cursor.set_q_head(head);
    ImGui::EndCombo();
  }
}

void Transport::methods_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  for (const state::Slot slot : state::kSlots) {
    label_ui(palette, slot == state::Slot::A ? "A" : "B");
    methods_.draw(workspace, palette, slot);
  }
  label_ui(palette, "show");
  for (const state::Slot slot : state::kSlots) {
    const bool here = workspace.selection().shown == slot;
    if (slot == state::Slot::B) ImGui::SameLine(0, 1);
    const ImU32 color = widgets::color_of_slot(palette, slot);
    ImGui::PushStyleColor(ImGuiCol_Button, here ? color : palette.raised);
    ImGui::PushStyleColor(ImGuiCol_Text, here ? widgets::ink_on(color) : palette.muted);
    if (ImGui::Button(slot == state::Slot::A ? "A##show" : "B##show", {widgets::em(1.9F), 0}))
      workspace.cursor.show(slot);
    ImGui::PopStyleColor(2);
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Which method the views show (X flips)");
  }
  device_ui(workspace, palette);
}

// What is shown is computed anew on another device.
void Transport::device_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  label_ui(palette, "device");
  const std::string here = workspace.place().device;
  ImGui::SetNextItemWidth(widgets::em(5.4F));
  if (!ImGui::BeginCombo("##device", here.c_str(), ImGuiComboFlags_HeightLarge)) return;
  const auto devices = workspace.ask(state::DevicesQuestion{});
  if (!devices) {
    widgets::text_colored(palette.muted, devices.state == state::ResultState::Loading
                                             ? "asking the driver ..."
                                             : state::problem_of(devices));
  } else {
    for (const device::ListedDevice& one : *devices.answer) {
      ImGui::BeginDisabled(!one.available());
      if (choice_ui(one.info.id + "  " + one.info.name, one.info.id == here))
        workspace.cursor.set_device(one.info.id);
      ImGui::EndDisabled();
      if (!one.available() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", one.reason.c_str());
      if (one.info.kind == device::DeviceKind::Sim && ImGui::IsItemHovered())
        ImGui::SetTooltip(
            "Every operator as on a GPU, in host memory: slow, its times are no device's");
    }
  }
  ImGui::EndCombo();
}

}  // namespace kvloupe::shell
