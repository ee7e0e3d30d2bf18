#include "app/shell/new_trace/capture_form.h"

#include "app/shell/methods/param_ui.h"
#include "app/state/method_groups.h"
#include "app/state/questions/how_much/devices.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "capture/model/gguf_part.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;

// A budget is suggested for so many tokens where the prompt's length is not known.
constexpr std::int64_t kUnknownTokens = 2048;
constexpr std::int64_t kBytesPerToken = 4;

std::string text_of(const state::MethodDraft& draft) {
  return draft.problem().empty() ? draft.short_spec() : draft.spec();
}

// As far as they are there.
std::uint64_t bytes_of_parts(const capture::GgufPart& part) {
  std::uint64_t bytes = 0;
  for (int number = 1; number <= part.count; ++number) {
    std::error_code failed;
    const std::uint64_t of_part = fs::file_size(part.file(number), failed);
    if (failed) break;
    bytes += of_part;
  }
  return bytes;
}

// Of a file, of all parts of a model in several, or of all weights in a folder.
std::optional<std::uint64_t> bytes_of_path(const std::string& path) {
  std::error_code failed;
  if (fs::is_regular_file(path, failed)) {
    if (const auto part = capture::gguf_part(path)) return bytes_of_parts(*part);
    return fs::file_size(path, failed);
  }
  if (!fs::is_directory(path, failed)) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(path, failed))
    if (file.path().extension() == ".safetensors") bytes += file.file_size(failed);
  return bytes;
}

void heading(const char* text) {
  ImGui::Dummy({0, widgets::grid(0.5F)});
  ImGui::SeparatorText(text);
}

bool closes_ui(const char* id) {
  ImGui::SameLine();
  return ImGui::SmallButton(fmt::format("Remove##{}", id).c_str());
}

}  // namespace

void CaptureForm::begin(const std::string& folder) {
  folder_ = folder;
  std::error_code ignored;
  if (request_.output.empty() || fs::exists(request_.output, ignored))
    request_.output = unused_output(folder);
  request_.force = false;
}

void CaptureForm::add_method(const std::string& spec) {
  methods_.emplace_back(spec, selection::ModelShape{});
  take_drafts();
}

void CaptureForm::choose_drift(const std::string& spec, const std::string& prompt) {
  if (!closed_loop_ && !spec.empty()) closed_loop_.emplace(spec, selection::ModelShape{});
  if (!closed_loop_) closed_loop_.emplace().change_method("quoka", {}, expected_tokens({}));
  request_.drift = true;
  constexpr int kAnswer = 32;  // tokens, in which the two answers may part
  if (request_.max_new_tokens == 0) request_.max_new_tokens = kAnswer;
  const bool typed = !request_.text.empty() && request_.text != traced_prompt_;
  if (request_.kind == PromptKind::Text && !typed && !prompt.empty()) {
    request_.text = traced_prompt_ = prompt;
    request_.raw = request_.special = true;  // it has its template in it
    if (workspace_.has_trace()) traced_model_ = workspace_.place().info().model;
    take_traced_model();
  }
  take_drafts();
}

void CaptureForm::take_traced_model() {
  if (!found_ || !traced_model_) return;
  request_.model = model_of_trace(found_->models, *traced_model_, request_.model);
  traced_model_.reset();
}

void CaptureForm::take_drafts() {
  request_.methods.clear();
  for (const state::MethodDraft& draft : methods_) request_.methods.push_back(text_of(draft));
  request_.closed_loop = closed_loop_ ? text_of(*closed_loop_) : std::string();
}

std::int64_t CaptureForm::expected_tokens(const std::optional<CaptureCost>& cost) const {
  if (cost) return cost->tokens;
  if (request_.kind != PromptKind::Text || request_.text.empty()) return kUnknownTokens;
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(request_.text.size()) / kBytesPerToken);
}

std::optional<std::uint64_t> CaptureForm::model_bytes() {
  if (found_)
    for (const capture::FoundModel& model : found_->models)
      if (model.name == request_.model) return model.bytes;
  if (measured_ != request_.model) {
    measured_ = request_.model;
    bytes_ = bytes_of_path(request_.model);
  }
  return bytes_;
}

void CaptureForm::model_and_prompt_ui(const widgets::Palette& palette,
                                      const std::optional<CaptureCost>& cost) {
  ImGui::SeparatorText("Model");
  if (const auto answer = workspace_.ask(CaptureChoicesQuestion{})) found_ = answer.answer;
  take_traced_model();
  if (request_.model.empty() && found_)
    for (const capture::FoundModel& model : found_->models)
      if (model.refusal.empty()) {
        request_.model = model.name;
        break;
      }
  model_ui(palette);
  heading("Trace");
  output_ui();
  heading("Prompt");
  prompt_.draw(palette, request_, found_.get(), cost, folder_);
}

void CaptureForm::model_ui(const widgets::Palette& palette) {
  ImGui::SetNextItemWidth(-widgets::em(6));
  if (ImGui::InputTextWithHint("##model", "a .gguf file, a Hugging Face folder, or a name",
                               &request_.model))
    traced_model_.reset();
  ImGui::SameLine(0, 0);
  if (ImGui::ArrowButton("##found models", ImGuiDir_Down)) ImGui::OpenPopup("models");
  if (ImGui::IsItemHovered()) widgets::tooltip("The models on this machine");
  ImGui::SameLine();
  if (ImGui::Button("\u2026##model file", {-1, 0}))
    files_.open(FileDialog::Purpose::OpenFile, "Choose a .gguf file, or a folder's config.json",
                folder_, [this](const std::string& path) {
                  const std::string model = model_of_path(path);
                  request_.model = model.empty() ? path : model;
                });
  if (!ImGui::BeginPopup("models")) return;
  found_models_ui(palette);
  ImGui::EndPopup();
}

void CaptureForm::found_models_ui(const widgets::Palette& palette) {
  if (!found_) return widgets::text_colored(palette.muted, "Looking for models\u2026");
  for (const capture::FoundModel& model : found_->models) {
    ImGui::BeginDisabled(!model.refusal.empty());
    if (ImGui::Selectable(state::readable_name(model.name).c_str(), model.name == request_.model))
      request_.model = model.name;
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
      widgets::tooltip(
          "%s", state::readable_name(model.refusal.empty() ? model.path.string() : model.refusal)
                    .c_str());
    ImGui::SameLine(widgets::em(22));
    widgets::text_colored(palette.muted,
                          fmt::format("{}, {}", model.place, format_bytes(model.bytes)));
  }
  if (found_->models.empty()) widgets::text_colored(palette.muted, "None was found.");
  ImGui::Separator();
  widgets::text_colored(
      palette.faint,
      fmt::format("Looked in {}, {} and {}", found_->folders.hugging_face.string(),
                  found_->folders.llama_cpp.string(), found_->folders.ollama.string()));
}

void CaptureForm::settings_ui(const widgets::Palette& palette,
                              const std::optional<CaptureCost>& cost) {
  const std::int64_t tokens = expected_tokens(cost);
  methods_ui(palette, tokens);
  closed_loop_ui(palette, tokens);
  heading("Capture");
  const float wide = widgets::em(9);
  ImGui::SetNextItemWidth(wide);
  if (ImGui::InputInt("tokens of a chunk", &request_.chunk_size, 16, 128))
    request_.chunk_size = std::clamp(request_.chunk_size, 1, 1 << 20);
  ImGui::SetNextItemWidth(wide);
  ImGui::InputTextWithHint("layers", "all, or as 0-5,7", &request_.layers);
  ImGui::SetNextItemWidth(wide);
  if (ImGui::InputInt("new tokens", &request_.max_new_tokens, 1, 16))
    request_.max_new_tokens = std::clamp(request_.max_new_tokens, 0, 1 << 20);
  if (ImGui::IsItemHovered())
    widgets::tooltip("Tokens to generate after the prompt: each but the last is a decode step");
  ImGui::SetNextItemWidth(wide);
  device_ui(palette);
  bool wrapped = !request_.raw;
  if (ImGui::Checkbox("the model's chat template around it", &wrapped)) {
    request_.raw = !wrapped;
    request_.special = false;
  }
  if (!request_.raw || request_.kind != PromptKind::Text) return;
  ImGui::Checkbox("special tokens in it are tokens", &request_.special);
  if (ImGui::IsItemHovered())
    widgets::tooltip(
        "Such as <|im_start|>, as in a text that a chat template made; else they are text");
}

void CaptureForm::methods_ui(const widgets::Palette& palette, std::int64_t tokens) {
  ImGui::SeparatorText("Methods recorded beside the model");
  std::size_t removed = methods_.size();
  for (std::size_t i = 0; i < methods_.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    method_ui(palette, methods_[i], tokens);
    if (closes_ui("method")) removed = i;
    ImGui::PopID();
  }
  if (removed < methods_.size()) {
    methods_.erase(methods_.begin() + static_cast<std::ptrdiff_t>(removed));
    take_drafts();
  }
  ImGui::SetNextItemWidth(-1);
  ImGui::PushID("add");
  if (ImGui::Button("Add a method")) ImGui::OpenPopup("a new method");
  ImGui::SetNextWindowSize({widgets::em(26), 0});
  if (ImGui::BeginPopup("a new method")) {
    widgets::text_colored(palette.muted, "Which method?");
    const auto* taken = finder_.draw(palette, "", "", [](const std::string&) { return ""; });
    if (taken != nullptr) {
      methods_.emplace_back();
      methods_.back().change_method(taken->id, {}, tokens);
      take_drafts();
      ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
  }
  ImGui::PopID();
  if (methods_.empty()) {
    ImGui::SameLine();
    widgets::text_colored(palette.faint, "none: it can be selected anew later");
  }
}

void CaptureForm::method_ui(const widgets::Palette& palette, state::MethodDraft& draft,
                            std::int64_t tokens) {
  const std::string spec = text_of(draft), problem = draft.problem();
  {
    const widgets::FontScope mono(widgets::Type::Number);
    if (!problem.empty()) ImGui::PushStyleColor(ImGuiCol_Text, palette.error);
    const std::string label =
        widgets::elided(spec, ImGui::GetContentRegionAvail().x - widgets::em(6));
    if (ImGui::Button(fmt::format("{}###method", label).c_str())) ImGui::OpenPopup("the method");
    if (!problem.empty()) ImGui::PopStyleColor();
  }
  if (ImGui::IsItemHovered())
    widgets::tooltip("%s", problem.empty() ? spec.c_str() : problem.c_str());
  ImGui::SetNextWindowSizeConstraints({widgets::em(28), 0}, {widgets::em(42), widgets::em(40)});
  if (!ImGui::BeginPopup("the method")) return;
  const auto* taken = finder_.draw(palette, draft.id(), "", [](const std::string&) { return ""; });
  if (taken != nullptr) draft.change_method(taken->id, {}, tokens);
  if (const auto* info = selection::find_method(draft.id()))
    widgets::text_wrapped(palette.muted, info->summary);
  params_ui(draft, draft.defaults({}, tokens), {});
  if (!draft.problem().empty()) widgets::text_wrapped(palette.error, draft.problem());
  ImGui::EndPopup();
  take_drafts();
}

void CaptureForm::closed_loop_ui(const widgets::Palette& palette, std::int64_t tokens) {
  heading("Closed loop");
  bool on = closed_loop_.has_value();
  if (ImGui::Checkbox("the model attends only to what a method keeps", &on)) {
    closed_loop_.reset();
    if (on) closed_loop_.emplace().change_method("quoka", {}, tokens);
    request_.drift = request_.drift && on;
    take_drafts();
  }
  if (closed_loop_) {
    ImGui::PushID("closed loop");
    method_ui(palette, *closed_loop_, tokens);
    ImGui::PopID();
  }
  ImGui::BeginDisabled(!closed_loop_);
  ImGui::Checkbox("drift", &request_.drift);
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    widgets::tooltip(
        "Runs the dense model on the same tokens, too, and stores how far the closed loop is from\n"
        "it. It takes about twice the time, and needs a closed loop.");
}

void CaptureForm::device_ui(const widgets::Palette& palette) {
  if (!ImGui::BeginCombo("device", request_.device.c_str())) return;
  const auto devices = workspace_.ask(state::DevicesQuestion{});
  if (!devices) {
    widgets::text_colored(palette.muted, devices.state == state::ResultState::Loading
                                             ? "Looking for devices\u2026"
                                             : devices.error);
  } else {
    for (const device::ListedDevice& one : *devices.answer) {
      ImGui::BeginDisabled(!one.available());
      if (ImGui::Selectable(one.info.id.c_str(), one.info.id == request_.device))
        request_.device = one.info.id;
      ImGui::EndDisabled();
    }
  }
  ImGui::EndCombo();
}

void CaptureForm::output_ui() {
  ImGui::SetNextItemWidth(-widgets::em(14));
  ImGui::InputTextWithHint("##output", "the file to write", &request_.output);
  ImGui::SameLine();
  if (ImGui::Button("\u2026##output", {widgets::em(2.6F), 0}))
    files_.open(FileDialog::Purpose::SaveFile, "Where to write the trace", request_.output,
                [this](const std::string& path) { request_.output = path; });
  ImGui::SameLine();
  ImGui::Checkbox("replace", &request_.force);
  if (ImGui::IsItemHovered())
    widgets::tooltip("A file of that name that is there already is replaced");
}

}  // namespace kvloupe::shell
