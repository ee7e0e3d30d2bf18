#include "app/shell/new_trace/capture_prompt.h"

#include "app/shell/methods/param_ui.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace kvloupe::shell {
namespace {

constexpr std::uintmax_t kMostToEdit =
    1 << 18;  // bytes of a file whose text is taken into the window

// The text that is selected in the field that has the keyboard.
int note_selection(ImGuiInputTextCallbackData* data) {
  if (!data->HasSelection()) return 0;
  const int begin = std::min(data->SelectionStart, data->SelectionEnd);
  const int end = std::max(data->SelectionStart, data->SelectionEnd);
  static_cast<std::string*>(data->UserData)->assign(data->Buf + begin, data->Buf + end);
  return 0;
}

std::string tokens_of(const std::string& name, const std::optional<CaptureCost>& cost) {
  std::string text;
  if (!cost) return text;
  for (const CaptureCost::Span& span : cost->spans)
    if (span.name == name || span.name.starts_with(name + "."))
      text += fmt::format("{}{} to {}", text.empty() ? "tokens " : ", ", format_count(span.begin),
                          format_count(span.end - 1));
  return text;
}

// Its beginning, for a line.
std::string brief(const std::string& text) {
  return widgets::elided(state::readable_name(text.substr(0, 200)), widgets::em(14));
}

std::string places_of(const CaptureRequest& request, const CaptureSpan& span) {
  if (request.kind != PromptKind::Text && request.kind != PromptKind::Chat) return "";
  const int count = occurrences(request, span.text);
  if (count == 0) return "no longer in the prompt";
  if (count == 1) return "once";
  return fmt::format("{} times: {} to {}.{}", count, span.name, span.name, count);
}

const capture::TaskInfo* task_named(const CaptureChoicesQuestion::Answer& choices,
                                    const std::string& id) {
  for (const capture::TaskInfo& task : choices.tasks)
    if (task.id == id) return &task;
  return nullptr;
}

}  // namespace

void CapturePrompt::draw(const widgets::Palette& palette, CaptureRequest& request,
                         const CaptureChoicesQuestion::Answer* choices,
                         const std::optional<CaptureCost>& cost, const std::string& folder) {
  kinds_ui(request);
  const float line = ImGui::GetFrameHeightWithSpacing();
  const float below =
      line * (2.6F + static_cast<float>(std::min<std::size_t>(3, request.spans.size())));
  const float room = std::max(line * 4, ImGui::GetContentRegionAvail().y - below);
  switch (request.kind) {
    case PromptKind::Text: text_ui(request, room); break;
    case PromptKind::Chat: chat_ui(palette, request, room); break;
    case PromptKind::TextFile:
    case PromptKind::ChatFile: file_ui(palette, request, folder); break;
    case PromptKind::Task: task_ui(palette, request, choices); break;
  }
  spans_ui(palette, request, cost);
}

void CapturePrompt::kinds_ui(CaptureRequest& request) {
  constexpr std::array<std::pair<PromptKind, const char*>, 5> kKinds{{
      {PromptKind::Text, "Text"},
      {PromptKind::TextFile, "Text file"},
      {PromptKind::Chat, "Chat"},
      {PromptKind::ChatFile, "Chat file"},
      {PromptKind::Task, "Task"},
  }};
  for (const auto& [kind, name] : kKinds) {
    if (ImGui::RadioButton(name, request.kind == kind)) {
      request.kind = kind;
      problem_.clear();
    }
    ImGui::SameLine();
  }
  ImGui::NewLine();
}

bool CapturePrompt::marked_text_ui(const char* id, std::string& text, float height) {
  return ImGui::InputTextMultiline(
      id, &text, {-1, height}, ImGuiInputTextFlags_WordWrap | ImGuiInputTextFlags_CallbackAlways,
      note_selection, &span_text_);
}

void CapturePrompt::text_ui(CaptureRequest& request, float height) {
  marked_text_ui("##prompt", request.text, height);
}

void CapturePrompt::file_ui(const widgets::Palette& palette, CaptureRequest& request,
                            const std::string& folder) {
  const bool chat = request.kind == PromptKind::ChatFile;
  ImGui::SetNextItemWidth(-widgets::em(3));
  ImGui::InputTextWithHint(
      "##file", chat ? "a JSON list of {role, content}" : "a text file, or drop one here",
      &request.file);
  ImGui::SameLine();
  if (ImGui::Button("\u2026##file", {-1, 0}))
    files_.open(FileDialog::Purpose::OpenFile, chat ? "Choose a chat" : "Choose a text file",
                folder, [&request](const std::string& path) { request.file = path; });
  if (!chat && ImGui::Button("Take its text into the window")) {
    std::error_code failed;
    const std::uintmax_t size = std::filesystem::file_size(request.file, failed);
    problem_.clear();
    if (failed)
      problem_ = failed.message() + ".";
    else if (size > kMostToEdit)
      problem_ = "It holds more than 256 KiB: it is captured from the file alone.";
    else {
      std::ifstream file(request.file, std::ios::binary);
      request.text.assign(std::istreambuf_iterator<char>(file), {});
      request.kind = PromptKind::Text;
    }
  }
  if (!problem_.empty()) widgets::text_wrapped(palette.error, problem_);
}

void CapturePrompt::chat_ui(const widgets::Palette& palette, CaptureRequest& request,
                            float height) {
  if (!ImGui::BeginChild("##chat", {0, height}, ImGuiChildFlags_Borders)) return ImGui::EndChild();
  std::size_t removed = request.chat.size();
  for (std::size_t i = 0; i < request.chat.size(); ++i) {
    ChatMessage& message = request.chat[i];
    ImGui::PushID(static_cast<int>(i));
    ImGui::SetNextItemWidth(widgets::em(8));
    if (ImGui::BeginCombo("##role", message.role.c_str())) {
      for (const char* role : {"system", "user", "assistant"})
        if (ImGui::Selectable(role, message.role == role)) message.role = role;
      ImGui::EndCombo();
    }
    ImGui::SameLine();
    if (ImGui::SmallButton("Remove")) removed = i;
    marked_text_ui("##content", message.content, ImGui::GetTextLineHeight() * 4);
    ImGui::PopID();
  }
  if (removed < request.chat.size())
    request.chat.erase(request.chat.begin() + static_cast<std::ptrdiff_t>(removed));
  if (ImGui::Button("Add a message")) {
    const bool answer = !request.chat.empty() && request.chat.back().role == "user";
    request.chat.push_back({answer ? "assistant" : "user", ""});
  }
  ImGui::SameLine();
  widgets::text_colored(palette.faint, "The model answers after the last one.");
  ImGui::EndChild();
}

void CapturePrompt::task_ui(const widgets::Palette& palette, CaptureRequest& request,
                            const CaptureChoicesQuestion::Answer* choices) {
  if (choices == nullptr) return widgets::text_colored(palette.muted, "Asking for the tasks\u2026");
  if (task_named(*choices, task_id_) == nullptr && !choices->tasks.empty())
    task_id_ = choices->tasks.front().id;
  const capture::TaskInfo* task = task_named(*choices, task_id_);
  if (task == nullptr) return;
  ImGui::SetNextItemWidth(-1);
  if (ImGui::BeginCombo("##task", task->title.c_str())) {
    for (const capture::TaskInfo& one : choices->tasks) {
      if (ImGui::Selectable(fmt::format("{}##{}", one.title, one.id).c_str(), &one == task))
        task_id_ = one.id;
      if (ImGui::IsItemHovered()) widgets::tooltip("%s", one.summary.c_str());
    }
    ImGui::EndCombo();
  }
  widgets::text_wrapped(palette.muted, task->summary);
  std::string spec = task->id;
  for (const selection::ParamInfo& param : task->params) {
    std::string& value =
        task_values_.try_emplace(task->id + "." + param.name, param.default_text).first->second;
    param_ui({param, param.default_text, {}}, value);
    if (value != param.default_text && !value.empty())
      spec += (spec == task->id ? ":" : ",") + param.name + "=" + value;
  }
  request.task = spec;
}

void CapturePrompt::spans_ui(const widgets::Palette& palette, CaptureRequest& request,
                             const std::optional<CaptureCost>& cost) {
  ImGui::SeparatorText("Spans to be watched");
  std::size_t removed = request.spans.size();
  for (std::size_t i = 0; i < request.spans.size(); ++i) {
    const CaptureSpan& span = request.spans[i];
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::SmallButton("Remove")) removed = i;
    ImGui::SameLine();
    widgets::text_colored(palette.accent, state::readable_name(span.name));
    ImGui::SameLine();
    widgets::text_colored(palette.text, brief(span.text));
    const std::string tokens = tokens_of(span.name, cost);
    ImGui::SameLine();
    widgets::text_colored(palette.muted, tokens.empty() ? places_of(request, span) : tokens);
    ImGui::PopID();
  }
  if (removed < request.spans.size())
    request.spans.erase(request.spans.begin() + static_cast<std::ptrdiff_t>(removed));
  new_span_ui(request);
}

void CapturePrompt::new_span_ui(CaptureRequest& request) {
  ImGui::SetNextItemWidth(widgets::em(7));
  ImGui::InputTextWithHint("##span name", "its name", &span_name_);
  ImGui::SameLine();
  ImGui::SetNextItemWidth(-widgets::em(6));
  ImGui::InputTextWithHint("##span text", "select text above, or type it here", &span_text_);
  ImGui::SameLine();
  const bool ready = !span_name_.empty() && !span_text_.empty();
  ImGui::BeginDisabled(!ready);
  if (ImGui::Button("Add span", {-1, 0})) {
    request.spans.push_back({span_name_, span_text_});
    span_name_.clear();
    span_text_.clear();
  }
  ImGui::EndDisabled();
  if (!ready && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    widgets::tooltip("A span needs a name and a text that stands in the prompt");
}

}  // namespace kvloupe::shell
