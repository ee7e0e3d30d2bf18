#include "app/panels/sample_recording_ui.h"

#include "app/state/questions/results/lost_answer.h"
#include "app/widgets/figure.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace kvloupe::panels {
namespace {

using state::ReadResults;
using trace::ResultSample;

constexpr const char* kPopup = "record";

// What is known of it: the time that the answer took. What else is to be done was not measured.
std::string words_of_time(const ReadResults& results, const ResultSample& sample) {
  constexpr const char* kWork =
      "loads the model and the evaluation's tasks, makes the sample's text again, and runs the "
      "model on it once more";
  if (std::isnan(sample.seconds)) return fmt::format("It {}.", kWork);
  return fmt::format("{} took {} to answer it. Recording takes longer: it {}.",
                     results.label_of(sample.method), format_duration(sample.seconds), kWork);
}

// "what; why; what to do", a line each.
void problem_ui(DrawContext& context, const std::string& said) {
  for (std::size_t begin = 0; begin < said.size();) {
    const std::size_t end = std::min(said.find("; ", begin), said.size());
    widgets::text_wrapped(context.palette.error, said.substr(begin, end - begin));
    begin = end + 2;
  }
}

// What the sample's text and answer are made from, if that does not lie where it is looked for.
void recorded_from_ui(state::RecordedFrom& from, bool has_failed) {
  if (has_failed) ImGui::SetNextItemOpen(true, ImGuiCond_Once);
  if (!ImGui::TreeNode("Where its model and tasks are")) return;
  const struct {
    const char *label, *hint;
    std::string* value;
  } fields[] = {{"model", "a file, a folder, or a name; empty: by its name", &from.model},
                {"own tasks", "the folder of their .yaml files", &from.tasks},
                {"data", "a folder; empty: the usual one", &from.data},
                {"device", "cpu, or cuda:0", &from.device}};
  for (const auto& field : fields) {
    ImGui::SetNextItemWidth(widgets::em(24));
    ImGui::InputTextWithHint(field.label, field.hint, field.value);
  }
  ImGui::TreePop();
}

// What has grown since it was opened moves up, rather than out of the window.
void keep_popup_inside() {
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  const float bottom = viewport.WorkPos.y + viewport.WorkSize.y;
  if (at.y + size.y > bottom)
    ImGui::SetWindowPos({at.x, std::max(viewport.WorkPos.y, bottom - size.y)});
}

void record_now_ui(DrawContext& context, const ReadResults& results, const ResultSample& sample) {
  state::OpenResults& open = context.workspace.results;
  const std::string why = open.recording.running()
                              ? "Another sample is being recorded: wait for it, or cancel it"
                              : open.recording.obstacle();
  ImGui::BeginDisabled(!why.empty());
  if (ImGui::Button("Record now")) open.record(sample.id);
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    widgets::tooltip({{why.empty() ? "In the background: the window goes on" : why}});
  const std::string problem = open.recording.problem_of(results.file.path, sample.id);
  for (const std::string& said : {open.recording.obstacle(), problem})
    if (!said.empty()) problem_ui(context, said);
  recorded_from_ui(open.sight.recorded_from, !problem.empty());
}

void by_command_ui(DrawContext& context, const ReadResults& results, const ResultSample& sample) {
  state::OpenResults& open = context.workspace.results;
  const std::string command = state::record_command(results, sample, open.sight.recorded_from);
  widgets::text_wrapped(context.palette.muted, "The same in a terminal:");
  widgets::text_wrapped(context.palette.accent, printable(command));
  if (ImGui::Button("Copy the command")) ImGui::SetClipboardText(command.c_str());
  ImGui::SameLine();
  if (ImGui::Button("Reload the results")) {
    open.open(open.path());
    ImGui::CloseCurrentPopup();
  }
  if (ImGui::IsItemHovered()) widgets::tooltip("Once the command has ended");
}

void under_way_ui(DrawContext& context) {
  state::SampleRecording& recording = context.workspace.results.recording;
  widgets::text_wrapped(context.palette.accent, recording.words());
  if (recording.ending()) return;
  widgets::text_wrapped(context.palette.muted,
                        "It goes on in the background. Closing the results or the window ends it.");
  if (ImGui::Button("Cancel")) recording.cancel();
}

}  // namespace

void record_ui(DrawContext& context, const ReadResults& results, const ResultSample& sample) {
  state::SampleRecording& recording = context.workspace.results.recording;
  const bool is_recorded = recording.is_of(results.file.path, sample.id);
  ImGui::PushStyleColor(ImGuiCol_Text,
                        is_recorded ? context.palette.accent : context.palette.muted);
  if (ImGui::SmallButton(is_recorded ? "recording" : "Record...")) {
    recording.look_for_python();
    ImGui::OpenPopup(kPopup);
  }
  ImGui::PopStyleColor();
  if (ImGui::IsItemHovered())
    widgets::tooltip({{is_recorded ? recording.words() : "Record a trace of it"}});
  ImGui::SetNextWindowSize({widgets::em(32), 0});
  if (!ImGui::BeginPopup(kPopup)) return;
  keep_popup_inside();
  if (is_recorded) {
    recording.look_on();
    under_way_ui(context);
  } else {
    widgets::text_wrapped(
        context.palette.text,
        "Records the sample to a trace beside the results. One is recorded at a time.");
    widgets::text_wrapped(context.palette.muted, words_of_time(results, sample));
    record_now_ui(context, results, sample);
    ImGui::Separator();
    by_command_ui(context, results, sample);
  }
  ImGui::EndPopup();
}

}  // namespace kvloupe::panels
