#include "app/shell/windows/exporter.h"

#include "app/figure/export.h"
#include "app/state/export_words.h"
#include "app/state/shell_words.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>

#include <filesystem>

namespace kvloupe::shell {
std::string Exporter::command_of(const state::ViewInfo& view) const {
  return command_of(state::describe(workspace_, view));
}

std::string Exporter::command_of(const state::ViewState& picture) {
  return state::shell_line(state::export_arguments(picture)) + " --png figure.png";
}

std::string Exporter::link_command_of(const state::ViewInfo* view,
                                      const state::Place* place) const {
  state::ViewState what = state::state_of(workspace_);
  if (place != nullptr) what.place = state::target_of(*place);
  if (view != nullptr) what.view = view->id;
  // A window that is opened there has no copies of views.
  std::erase_if(what.options,
                [](const auto& option) { return option.first.find('#') != std::string::npos; });
  return fmt::format("kvloupe {} --goto {}", state::shell_word(what.trace),
                     state::shell_word(state::link_text(what)));
}

void Exporter::ask(const state::ViewInfo& view, state::Format format, const std::string& folder) {
  if (!workspace_.can_show(view)) return;
  // What stands on the screen now, not when the name has been found.
  const state::ViewState what = state::describe(workspace_, view);
  std::shared_ptr<state::Workspace> shown;
  if (!state::is_picture(format)) {
    view.problem(workspace_);  // asks for all that the table is made of
    shown = workspace_.apart();
  }
  ask_for_name({what, shown, format, {}}, view.title, folder);
}

void Exporter::ask(const state::ViewState& picture, const std::string& title, state::Format format,
                   const std::string& folder) {
  ask_for_name({picture, nullptr, format, {}}, title, folder);
}

void Exporter::ask_for_name(Request request, const std::string& title, const std::string& folder) {
  const std::filesystem::path start =
      std::filesystem::path(folder) /
      fmt::format("{}.{}", request.what.view, state::ending_of(request.format));
  files_.open(FileDialog::Purpose::SaveFile, fmt::format("Export {}", title), start,
              [this, request](const std::string& file) mutable {
                request.file = file;
                begin(request);
              });
}

// What may not be written is said at once; a file that is there is asked for.
void Exporter::begin(const Request& request) {
  InputFiles inputs = state::files_read(request.what);
  for (const auto& tab : workspace_.traces.tabs())
    for (const auto& file : trace::files_of_trace(tab->path)) inputs.push_back(file);
  try {
    check_result_file(request.file, inputs, false, "give another name");
  } catch (const Error& error) {
    messages_.say(error.what(), true);
    return;
  }
  std::error_code ignored;
  if (std::filesystem::exists(request.file, ignored))
    waiting_ = request;
  else
    write(request);
}

void Exporter::draw(const widgets::Palette& palette) {
  constexpr const char* kId = "Replace the file?";
  if (!waiting_) return;
  if (!ImGui::IsPopupOpen(kId)) ImGui::OpenPopup(kId);
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  if (!ImGui::BeginPopupModal(kId, nullptr,
                              ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_AlwaysAutoResize))
    return;
  widgets::text_colored(palette.text, printable(waiting_->file) + " exists.");
  std::optional<Request> confirmed;
  bool done = false;
  if (ImGui::Button("Replace")) {
    confirmed = waiting_;
    done = true;
  }
  ImGui::SameLine();
  if (ImGui::Button("Keep it") || ImGui::IsKeyPressed(ImGuiKey_Escape)) done = true;
  if (done) {
    waiting_.reset();
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
  if (confirmed) write(*confirmed);
}

void Exporter::write(const Request& request) {
  const bool drawn = state::is_picture(request.format);
  workspace_.answers.jobs().submit<std::string>(
      drawn ? Lane::Command : Lane::TraceIo, "export " + request.file,
      fmt::format("Exporting {}", request.what.view), drawn ? drawing(request) : writing(request),
      [this, file = request.file](std::shared_ptr<const std::string> problem) {
        messages_.say(problem->empty() ? "Written: " + printable(file) : *problem,
                      !problem->empty());
      },
      [this](const Error& error) { messages_.say(error.what(), true); });
}

// A number on screen is not computed again to be written.
Exporter::Work Exporter::writing(const Request& request) {
  return [request](const WorkContext& context) {
    check_result_file(request.file, state::files_read(request.what), false);
    figure::export_shown(*request.shown, {request.what, request.format, request.file},
                         context.cancel);
    return std::make_shared<const std::string>();
  };
}

// The command line draws, in a process of its own: ImGui draws in one thread of a process alone, and the
// frames of a picture, its fonts before them, would hold up the window's.
Exporter::Work Exporter::drawing(const Request& request) const {
  std::vector<std::string> arguments = state::export_arguments(request.what);
  arguments.insert(arguments.end(),
                   {fmt::format("--{}", state::name_of(request.format)), request.file});
  return [run = run_command, arguments](const WorkContext& context) {
    return std::make_shared<const std::string>(run(arguments, context.cancel));
  };
}

}  // namespace kvloupe::shell
