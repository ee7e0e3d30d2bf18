#include "app/shell/bars/transport.h"

#include "app/shell/bars/bar_pickers.h"
#include "app/state/labels.h"
#include "app/state/questions/how_much/devices.h"
#include "app/widgets/figure.h"
#include "app/widgets/key_names.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace kvloupe::shell {
namespace {

enum class Icon { First, Previous, Play, Pause, Next, Last };

// Drawn, so that no icon font is needed.
bool icon_button(const char* id, Icon icon, const widgets::Palette& palette,
                 const std::string& tip) {
  const float side = ImGui::GetFrameHeight();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::Button(id, {side, side});
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    widgets::tooltip("%s", tip.c_str());
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
    case Icon::Previous: left(c.x); break;
    case Icon::Play: right(c.x); break;
    case Icon::Pause:
      bar(c.x - r * 0.55F);
      bar(c.x + r * 0.55F);
      break;
    case Icon::Next: right(c.x); break;
    case Icon::Last:
      right(c.x - r * 0.2F);
      bar(c.x + r);
      break;
  }
  return pressed;
}

// A part of a line of the bar: as wide as it says, or what is left where it stretches.
struct Piece {
  float width;
  std::function<void(float width)> draw;
  bool stretches = false;
};

float gap() { return widgets::em(0.5F); }

// One below each place of the grip, so that it is seen to slide.
void chunk_marks_ui(ImVec2 from, ImVec2 to, int places) {
  const float each = (to.x - from.x) / static_cast<float>(places);
  if (each < widgets::em(0.4F)) return;
  const float high = widgets::em(0.22F);
  for (int i = 0; i < places; ++i) {
    const float x = from.x + each * (static_cast<float>(i) + 0.5F);
    ImGui::GetWindowDrawList()->AddRectFilled({x - each * 0.32F, to.y - high},
                                              {x + each * 0.32F, to.y},
                                              ImGui::GetColorU32(ImGuiCol_Text, 0.28F));
  }
}

// The first and the last chunk of the phase of the place.
std::pair<int, int> same_phase(const state::Place& place) {
  const auto& chunks = place.info().chunks;
  const auto is_same = [&](int chunk) {
    return chunk >= 0 && chunk < static_cast<int>(chunks.size()) &&
           chunks[static_cast<std::size_t>(chunk)].phase == place.chunk_info().phase;
  };
  std::pair range{place.chunk, place.chunk};
  while (is_same(range.first - 1)) --range.first;
  while (is_same(range.second + 1)) ++range.second;
  return range;
}
float width_of_more() { return ImGui::GetFrameHeight(); }

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

// Two lines, whatever the window: what has no room goes into the menu at the end of the first.
void Transport::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  const float line = ImGui::GetFrameHeight(), between = widgets::em(0.4F);
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoScrollbar |
                                      ImGuiWindowFlags_NoScrollWithMouse |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  const ImVec2 padding(widgets::em(0.8F), widgets::em(0.42F));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {gap(), between});
  if (ImGui::BeginViewportSideBar("##transport", ImGui::GetMainViewport(), ImGuiDir_Up,
                                  2 * line + between + 2 * padding.y, kFlags)) {
    ImGui::BeginDisabled(!workspace.has_trace());
    buttons_ui(workspace, palette);
    if (workspace.has_trace()) {
      ImGui::SameLine(0, gap());
      place_line_ui(workspace, palette);
      methods_line_ui(workspace, palette);
    }
    ImGui::EndDisabled();
  }
  ImGui::End();
  ImGui::PopStyleVar(2);
}

void Transport::buttons_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  state::Cursor& cursor = workspace.cursor;
  const float close = widgets::em(0.2F);
  if (icon_button("##first", Icon::First, palette, widgets::with_key("First chunk", "chunk.first")))
    cursor.set_chunk(0);
  ImGui::SameLine(0, close);
  if (icon_button("##previous", Icon::Previous, palette,
                  widgets::with_key("Previous chunk", "chunk.previous")))
    cursor.step_chunk(-1);
  ImGui::SameLine(0, close);
  if (icon_button("##play", playing_ ? Icon::Pause : Icon::Play, palette,
                  widgets::with_key(playing_ ? "Pause" : "Play", "play")))
    toggle();
  ImGui::SameLine(0, close);
  if (icon_button("##next", Icon::Next, palette, widgets::with_key("Next chunk", "chunk.next")))
    cursor.step_chunk(1);
  ImGui::SameLine(0, close);
  if (icon_button("##last", Icon::Last, palette, widgets::with_key("Last chunk", "chunk.last")))
    cursor.set_chunk(1 << 30);
}

void Transport::place_line_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  const std::vector<Piece> pieces{
      {widgets::em(10), [&](float width) { chunk_ui(workspace, width); }, true},
      {widgets::em(6), [&](float width) { layer_ui(workspace, width); }},
      {widgets::em(8.2F), [&](float width) { head_ui(workspace, width); }},
      {widgets::em(13), [&](float width) { span_.draw(workspace, palette, width); }},
      {widgets::em(15.5F), [&](float width) { numbers_picker_ui(workspace, palette, width); }}};
  const float room = ImGui::GetContentRegionAvail().x - width_of_more() - gap();
  float used = 0;
  std::size_t fit = 0;
  while (fit < pieces.size() && used + pieces[fit].width + gap() <= room)
    used += pieces[fit++].width + gap();
  for (std::size_t i = 0; i < fit; ++i) {
    const float spare = pieces[i].stretches ? room - used : 0;
    pieces[i].draw(pieces[i].width + std::min(spare, widgets::em(20)));
    ImGui::SameLine(0, gap());
  }
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x - width_of_more());
  if (ImGui::Button("...###more", {width_of_more(), 0})) ImGui::OpenPopup("more");
  if (is_explained())
    widgets::tooltip(fit < pieces.size() ? "What has no room in the bar" : "How chunks are played");
  if (!ImGui::BeginPopup("more")) return;
  for (std::size_t i = fit; i < pieces.size(); ++i) pieces[i].draw(widgets::em(18));
  ImGui::Checkbox("play in a loop", &loop_);
  ImGui::EndPopup();
}

void Transport::chunk_ui(state::Workspace& workspace, float width) {
  const state::Place& place = workspace.place();
  const int last = static_cast<int>(place.info().chunks.size()) - 1;
  const bool step = place.chunk_info().phase == trace::Phase::Decode;
  const char* word = step ? "decode step" : "chunk";
  // Of the prompt's chunks, or of the steps that follow them.
  const auto [first, end] = same_phase(place);
  const std::string format = fmt::format("{} %d", word);
  int chunk = place.chunk;
  ImGui::SetNextItemWidth(width);
  // The words stand in the half without the grip.
  const bool typing = ImGui::TempInputIsActive(ImGui::GetID("##chunk"));
  if (!typing) ImGui::PushStyleColor(ImGuiCol_Text, 0U);
  if (ImGui::SliderInt("##chunk", &chunk, 0, std::max(0, last), format.c_str()))
    workspace.cursor.set_chunk(chunk);
  if (typing) return;
  ImGui::PopStyleColor();
  std::string words = fmt::format("{} {} ({}\u2013{})", word, place.chunk, first, end);
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  const float inset = ImGui::GetStyle().FramePadding.x;
  const bool left = 2 * place.chunk >= last;
  // The bar goes on over the steps, which is said where the grip leaves room.
  const std::string more = fmt::format(", then {} decode steps", last - end);
  const float grip =
      (to.x - from.x) * static_cast<float>(place.chunk) / static_cast<float>(last + 1);
  const float free = left ? grip : to.x - from.x - grip - ImGui::GetStyle().GrabMinSize;
  if (!step && end < last && ImGui::CalcTextSize((words + more).c_str()).x + 2 * inset < free)
    words += more;
  const float x = left ? from.x + inset : to.x - inset - ImGui::CalcTextSize(words.c_str()).x;
  chunk_marks_ui(from, to, last + 1);
  ImGui::GetWindowDrawList()->AddText({x, from.y + ImGui::GetStyle().FramePadding.y},
                                      ImGui::GetColorU32(ImGuiCol_Text), words.c_str());
}

void Transport::layer_ui(state::Workspace& workspace, float width) {
  const state::Place place = workspace.place();
  const trace::TraceInfo& info = place.info();
  ImGui::SetNextItemWidth(width);
  if (!ImGui::BeginCombo("##layer", fmt::format("layer {}", place.layer).c_str())) return;
  for (const int layer : info.layers)
    if (choice_ui(state::layer_name(info.model, layer), layer == place.layer))
      workspace.cursor.set_layer(layer);
  ImGui::EndCombo();
}

void Transport::head_ui(state::Workspace& workspace, float width) {
  const state::Place place = workspace.place();
  const trace::ModelInfo& model = place.info().model;
  const auto head_name = [&](int head) {
    return fmt::format("KV {} / q {}", head / model.gqa_group_size(), head);
  };
  ImGui::SetNextItemWidth(width);
  if (!ImGui::BeginCombo("##head", head_name(place.q_head).c_str())) return;
  for (int head = 0; head < model.num_q_heads; ++head)
    if (choice_ui(head_name(head), head == place.q_head)) workspace.cursor.set_q_head(head);
  ImGui::EndCombo();
}

// The cards of A and B share what the switch and the device leave.
void Transport::methods_line_ui(state::Workspace& workspace, const widgets::Palette& palette) {
  const float switch_width = 2 * widgets::em(1.9F) + 1, device_width = widgets::em(6.4F);
  const float room = ImGui::GetContentRegionAvail().x - switch_width - device_width - 3 * gap();
  for (const state::Slot slot : state::kSlots) {
    methods_.draw(workspace, palette, slot, room / 2);
    ImGui::SameLine(0, gap());
  }
  for (const state::Slot slot : state::kSlots) {
    const bool here = workspace.selection().shown == slot;
    if (slot == state::Slot::B) ImGui::SameLine(0, 1);
    const ImU32 color = widgets::color_of_slot(palette, slot);
    ImGui::PushStyleColor(ImGuiCol_Button, here ? color : palette.raised);
    ImGui::PushStyleColor(ImGuiCol_Text, here ? widgets::ink_on(color) : palette.muted);
    if (ImGui::Button(slot == state::Slot::A ? "A##show" : "B##show", {widgets::em(1.9F), 0}))
      workspace.cursor.show(slot);
    ImGui::PopStyleColor(2);
    if (is_explained())
      widgets::tooltip("%s",
                       widgets::with_key("Which method the views show", "method.flip").c_str());
  }
  ImGui::SameLine(0, gap());
  device_ui(workspace, palette, device_width);
}

// What is shown is computed anew on another device.
void Transport::device_ui(state::Workspace& workspace, const widgets::Palette& palette,
                          float width) {
  const std::string here = workspace.place().device;
  ImGui::SetNextItemWidth(width);
  const bool open = ImGui::BeginCombo("##device", here.c_str(), ImGuiComboFlags_HeightLarge);
  if (!open) {
    if (is_explained()) widgets::tooltip("The device that computes what is shown");
    return;
  }
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
        widgets::tooltip("%s", one.reason.c_str());
      if (one.info.kind == device::DeviceKind::Sim && ImGui::IsItemHovered())
        widgets::tooltip(
            "Every operator as on a GPU, in host memory: slow, its times are no device's");
    }
  }
  ImGui::EndCombo();
}

}  // namespace kvloupe::shell
