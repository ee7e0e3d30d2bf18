#include "app/shell/windows/exporter.h"

#include "app/shell/commands/shell_words.h"
#include "app/state/export_words.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>

#include <filesystem>

namespace kvloupe::shell {
std::string Exporter::command_of(const state::ViewInfo& view) const {
  return shell_line(state::export_arguments(state::describe(workspace_, view))) +
         " --png figure.png";
}

std::string Exporter::link_command_of(const state::ViewInfo& view,
                                      const state::Place* place) const {
  state::ViewState what = state::state_of(workspace_);
  if (place != nullptr) what.place = state::target_of(*place);
  what.view = view.id;
  // A window that is opened there has no copies of views.
  std::erase_if(what.options,
                [](const auto& option) { return option.first.find('#') != std::string::npos; });
  return fmt::format("kvloupe {} --goto {}", shell_word(what.trace),
                     shell_word(state::link_text(what)));
}

void Exporter::picture_menu_ui() {
  if (!ImGui::BeginMenu("Exported pictures")) return;
  state::PictureForm form = workspace_.selection().picture;
  for (const auto theme : {state::ThemeKind::Light, state::ThemeKind::Dark})
    if (ImGui::MenuItem(theme == state::ThemeKind::Light ? "Light" : "Dark", nullptr,
                        form.theme == theme))
      form.theme = theme;
  ImGui::Separator();
  for (const auto& [width, height] :
       {std::pair{1600, 900}, std::pair{1200, 800}, std::pair{800, 600}, std::pair{800, 500}})
    if (ImGui::MenuItem(fmt::format("{} x {}", width, height).c_str(), nullptr,
                        form.width == width && form.height == height)) {
      form.width = width;
      form.height = height;
    }
  ImGui::Separator();
  for (const double scale : {1.0, 2.0, 3.0})
    if (ImGui::MenuItem(fmt::format("Scale {}", scale).c_str(), nullptr, form.scale == scale))
      form.scale = scale;
  ImGui::EndMenu();
  workspace_.cursor.set_picture(form);
}

void Exporter::ask(const state::ViewInfo& view, state::Format format, const std::string& folder) {
  if (!workspace_.has_trace()) return;
  // What stands on the screen now, not when the name has been found.
  const state::ViewState what = state::describe(workspace_, view);
  const std::filesystem::path start =
      std::filesystem::path(folder) / fmt::format("{}.{}", view.id, state::ending_of(format));
  files_.open(FileDialog::Purpose::SaveFile, fmt::format("Export {}", view.title), start,
              [this, what, format](const std::string& file) {
                begin({what, format, file});
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

// The command line draws and writes, in a process of its own with a context of its own: so the file
// is what the command gives.
void Exporter::write(const Request& request) {
  std::vector<std::string> arguments = state::export_arguments(request.what);
  arguments.insert(arguments.end(),
                   {fmt::format("--{}", state::name_of(request.format)), request.file});
  ++under_way_;
  workspace_.answers.jobs().submit<std::string>(
      Lane::TraceIo, "export", fmt::format("Exporting {}", request.what.view),
      [run = run_command, arguments](const WorkContext&) {
        return std::make_shared<const std::string>(run(arguments));
      },
      [this, file = request.file](std::shared_ptr<const std::string> problem) {
        --under_way_;
        messages_.say(problem->empty() ? "Written: " + printable(file) : *problem,
                      !problem->empty());
      },
      [this](const Error& error) {
        --under_way_;
        messages_.say(error.what(), true);
      });
}

}  // namespace kvloupe::shell
