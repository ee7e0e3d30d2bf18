#include "app/shell/new_trace/capture_window.h"

#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::shell {
namespace {

// What is asked of a larger model's capture waits for a click: the model is loaded for the answer.
constexpr std::uint64_t kLargeModel = std::uint64_t{1} << 30;

std::string text_of(const CaptureCost& cost) {
  return fmt::format(
      "About {} on disk, {} of memory (weights {}, KV cache {}, working set {}) and {}, for {} "
      "tokens in {} {} and {} of {} layers.",
      format_bytes(cost.bytes), format_bytes(cost.memory), format_bytes(cost.weights),
      format_bytes(cost.kv_cache), format_bytes(cost.working_set), format_duration(cost.seconds),
      format_count(cost.tokens), format_count(cost.chunks), cost.chunks == 1 ? "chunk" : "chunks",
      cost.layers, cost.model_layers);
}

}  // namespace

void CaptureWindow::open(const std::string& folder) {
  open_ = to_front_ = true;
  if (!run_.running()) form_.begin(folder);
}

bool CaptureWindow::take(const std::string& path, const std::string& folder) {
  if (run_.running()) return false;
  CaptureRequest& request = form_.request();
  if (const std::string model = model_of_path(path); !model.empty()) {
    if (!open_) open(folder);
    request.model = model;
    return true;
  }
  if (!open_) open(folder);
  request.kind = path.ends_with(".json") ? PromptKind::ChatFile : PromptKind::TextFile;
  request.file = path;
  return true;
}

void CaptureWindow::tick() {
  const double now = ImGui::GetTime();
  const bool was_running = run_.running();
  run_.poll();
  if (run_.running()) growing_.tick(now);
  if (was_running && !run_.running()) {
    growing_.end(run_.left_trace());
    if (run_.left_trace() && on_trace) on_trace(growing_.output());
    const bool failed = run_.stage() == CaptureStage::Failed;
    outcome_ = failed ? run_.message() : std::string();
    for (const std::string& warning : run_.warnings()) messages_.say(warning, false);
    messages_.say(run_.message(), failed);
  }
  growing_.watch_span();
  // What it records is on screen: the rest is said in the status bar.
  if (makes_room_ && (growing_.opened() || (!run_.running() && run_.left_trace())))
    open_ = makes_room_ = false;
  const bool wanted = open_ && !run_.running() && problem_of(form_.request()).empty();
  const AskCost when = when_to_ask();
  estimator_.follow(wanted ? std::optional(form_.request()) : std::nullopt, now, when);
  if (!wanted || estimator_.asking()) ask_now_ = false;
}

bool CaptureWindow::is_large() {
  const auto bytes = form_.model_bytes();
  return bytes && *bytes > kLargeModel;
}

AskCost CaptureWindow::when_to_ask() {
  if (ask_now_) return AskCost::AtOnce;
  return is_large() ? AskCost::No : AskCost::WhenStill;
}

std::string CaptureWindow::obstacle() const {
  if (run_.running()) return "A capture runs already: wait for its end, or cancel it.";
  if (std::string problem = problem_of(form_.request()); !problem.empty()) return problem;
  return estimator_.problem();
}

void CaptureWindow::start() {
  if (!obstacle().empty()) return;
  estimator_.stop();
  outcome_.clear();
  run_.start(form_.request());
  if (!run_.running()) {
    outcome_ = run_.message();
    return;
  }
  const std::vector<CaptureSpan>& spans = form_.request().spans;
  growing_.begin(form_.request().output, spans.empty() ? std::string() : spans.front().name);
  makes_room_ = true;
}

void CaptureWindow::draw(const widgets::Palette& palette) {
  if (!open_) return;
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const ImVec2 room = viewport->WorkSize;
  const ImVec2 size{std::min(room.x - widgets::em(1), widgets::em(66)),
                    std::min(room.y - widgets::em(0.6F), widgets::em(43))};
  ImGui::SetNextWindowPos({viewport->WorkPos.x + room.x / 2, viewport->WorkPos.y + room.y / 2},
                          ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize(size, ImGuiCond_Always);
  if (to_front_) ImGui::SetNextWindowFocus();
  to_front_ = false;
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoCollapse |
      ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoScrollbar |
      ImGuiWindowFlags_NoScrollWithMouse;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(1), widgets::em(0.7F)});
  const bool visible = ImGui::Begin("New capture###capture", &open_, kFlags);
  ImGui::PopStyleVar();
  // Opened by a key it must not lie under the tooltip of what the mouse rests on beside it.
  const ImVec2 from = ImGui::GetWindowPos(), extent = ImGui::GetWindowSize();
  if (!ImGui::IsMouseHoveringRect(from, {from.x + extent.x, from.y + extent.y}, false))
    widgets::keep_clear(from, {from.x + extent.x, from.y + extent.y});
  if (visible) {
    const float below = ImGui::GetFrameHeightWithSpacing() + ImGui::GetTextLineHeight() * 2.6F +
                        ImGui::GetStyle().ItemSpacing.y * 2;
    const float left = (ImGui::GetContentRegionAvail().x - widgets::em(1)) * 0.58F;
    ImGui::BeginDisabled(run_.running());
    if (ImGui::BeginChild("##left", {left, -below}))
      form_.model_and_prompt_ui(palette, estimator_.cost());
    ImGui::EndChild();
    ImGui::SameLine(0, widgets::em(1));
    if (ImGui::BeginChild("##right", {0, -below})) form_.settings_ui(palette, estimator_.cost());
    ImGui::EndChild();
    ImGui::EndDisabled();
    ImGui::Separator();
    if (ImGui::BeginChild("##cost", {0, ImGui::GetTextLineHeight() * 2.5F})) costs_ui(palette);
    ImGui::EndChild();
    buttons_ui(palette);
  }
  ImGui::End();
}

void CaptureWindow::costs_ui(const widgets::Palette& palette) {
  if (run_.running()) return progress_ui(palette, widgets::em(20));
  if (const std::string why = obstacle(); !why.empty()) {
    const bool asked = !estimator_.problem().empty() && why == estimator_.problem();
    // The cause may have been cured elsewhere: room made, a file put in its place.
    if (asked && ImGui::SmallButton("Ask again")) {
      estimator_.stop();
      ask_now_ = true;
    }
    if (asked) ImGui::SameLine();
    return widgets::text_wrapped(asked ? palette.error : palette.warning, why);
  }
  if (!outcome_.empty()) return widgets::text_wrapped(palette.error, outcome_);
  if (estimator_.cost()) {
    widgets::text_wrapped(palette.text, text_of(*estimator_.cost()));
    if (ImGui::IsItemHovered())
      widgets::tooltip("Bytes and memory are counted; the time is an estimate from a short run");
    return;
  }
  if (!estimator_.asking() && is_large()) {
    if (ImGui::Button("Say what it will take")) ask_now_ = true;
    ImGui::SameLine();
    return widgets::text_wrapped(palette.muted, fmt::format("This loads the model first: {}.",
                                                            format_bytes(*form_.model_bytes())));
  }
  widgets::text_wrapped(palette.muted,
                        "Asking what it will take on disk, in memory and in time; the model is "
                        "loaded for that\u2026");
}

void CaptureWindow::progress_ui(const widgets::Palette& palette, float width) {
  if (run_.of_chunks() == 0) return widgets::text_colored(palette.text, "Loading the model\u2026");
  widgets::share_bar_ui(palette, static_cast<double>(run_.chunks()) / run_.of_chunks(),
                        palette.accent, width, widgets::em(0.4F));
  ImGui::SameLine();
  std::string text =
      fmt::format("chunk {} of {}", format_count(run_.chunks()), format_count(run_.of_chunks()));
  if (!run_.prefill_pace().empty()) text += ", prefill " + run_.prefill_pace();
  if (run_.cancelling()) text = "Ending after this chunk\u2026";
  widgets::text_colored(palette.text, text);
}

void CaptureWindow::status_ui(const widgets::Palette& palette) {
  if (!run_.running()) return;
  widgets::text_colored(palette.accent, "Capturing");
  ImGui::SameLine();
  progress_ui(palette, widgets::em(9));
  ImGui::SameLine();
  if (ImGui::SmallButton("Cancel##capture")) run_.cancel();
  if (ImGui::IsItemHovered())
    widgets::tooltip(run_.cancelling() ? "End at once: the chunks done stay in the .part"
                                       : "End after this chunk: the chunks done stay as a trace");
  ImGui::SameLine();
}

void CaptureWindow::buttons_ui(const widgets::Palette& palette) {
  if (run_.running()) {
    if (ImGui::Button(run_.cancelling() ? "End at once###cancel" : "Cancel###cancel",
                      {widgets::em(8), 0}))
      run_.cancel();
    if (ImGui::IsItemHovered())
      widgets::tooltip("After the chunk in flight: the chunks done stay as a trace");
  } else {
    const std::string why = obstacle();
    ImGui::BeginDisabled(!why.empty());
    if (ImGui::Button("Start###start", {widgets::em(8), 0})) start();
    ImGui::EndDisabled();
    if (!why.empty() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
      widgets::tooltip("%s", why.c_str());
  }
  ImGui::SameLine();
  if (ImGui::Button("Copy the command"))
    ImGui::SetClipboardText(capture_command_text(form_.request()).c_str());
  if (ImGui::IsItemHovered())
    widgets::tooltip("The line of `kvloupe capture` that does the same in a terminal");
  ImGui::SameLine();
  widgets::text_colored(palette.faint,
                        run_.running() && growing_.opened()
                            ? "The trace is open behind this window and grows."
                            : "It runs as `kvloupe capture`, in a process of its own.");
}

}  // namespace kvloupe::shell
