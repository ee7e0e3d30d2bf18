#include "app/shell/windows/layouts.h"

#include "app/shell/saved/layout_file.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/key_names.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace kvloupe::shell {

namespace fs = std::filesystem;

Layouts::Layouts(state::Workspace& workspace, PanelHost& panels, WindowSteps& steps,
                 FileDialog& files, Messages& messages)
    : workspace_(workspace), panels_(panels), steps_(steps), files_(files), messages_(messages) {
  layouts_ = saved_layouts(unread_);
}

const Layout* Layouts::find(const std::string& name) const {
  const auto found = std::find_if(layouts_.begin(), layouts_.end(),
                                  [&](const Layout& layout) { return layout.name == name; });
  return found != layouts_.end() ? &*found : nullptr;
}

void Layouts::ask_for_name() {
  opening_ = true;
  name_ = last_name_;
}

void Layouts::list_ui() {
  if (layouts_.empty()) {
    ImGui::MenuItem("None is saved yet", nullptr, false, false);
    return;
  }
  ImGui::Separator();
  const bool can_choose = workspace_.has_trace();
  for (const Layout& layout : std::vector<Layout>(layouts_)) {
    const state::Perspective& workspace = state::perspective_or_first(layout.perspective);
    if (ImGui::MenuItem(fmt::format("{}###layout {}", layout.name, layout.name).c_str(),
                        workspace.word.c_str(), false, can_choose)) {
      last_name_ = layout.name;
      panels_.choose_layout(layout);
    }
  }
  ImGui::Separator();
  if (!ImGui::BeginMenu("Delete")) return;
  for (const Layout& layout : std::vector<Layout>(layouts_))
    if (ImGui::MenuItem(fmt::format("{}###delete {}", layout.name, layout.name).c_str())) {
      remove(layout.name);
      messages_.say(fmt::format("Deleted: {}. {} brings it back.", layout.name,
                                widgets::with_key("Undo", "undo")),
                    false);
      steps_.push([this, layout] { put(layout); }, [this, name = layout.name] { remove(name); });
    }
  ImGui::EndMenu();
}

void Layouts::draw(const widgets::Palette& palette) {
  for (const auto& failures : {std::exchange(unread_, {}), writer_.failures()})
    for (const std::string& failure : failures) messages_.say(failure, true);
  constexpr const char* kId = "Save the layout";
  if (std::exchange(opening_, false)) ImGui::OpenPopup(kId);
  ImGui::SetNextWindowPos(ImGui::GetMainViewport()->GetCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({widgets::em(28), 0});
  if (!ImGui::BeginPopup(kId, ImGuiWindowFlags_NoSavedSettings)) return;
  widgets::escape_closes_popup();
  const state::Perspective& here = state::perspective_or_first(workspace_.selection().perspective);
  widgets::text_wrapped(
      palette.muted, fmt::format("What lies where in \u201C{}\u201D, its options and its locks, as",
                                 here.question));
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-widgets::em(7));
  const bool entered =
      ImGui::InputTextWithHint("##name", "a name", &name_, ImGuiInputTextFlags_EnterReturnsTrue);
  const std::string why = name_.empty() ? "a name is wanted" : problem_of_name(name_);
  ImGui::SameLine();
  ImGui::BeginDisabled(!why.empty());
  const bool pressed =
      ImGui::Button(find(name_) != nullptr ? "Replace###save" : "Save###save", {-1, 0});
  ImGui::EndDisabled();
  if (!name_.empty() && !why.empty()) widgets::text_wrapped(palette.error, why + ".");
  if ((entered || pressed) && why.empty()) {
    Layout layout = panels_.layout();
    layout.name = last_name_ = name_;
    put(layout);
    messages_.say(fmt::format("Saved: {} (View, Layouts).", name_), false);
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
}

void Layouts::put(const Layout& layout) {
  std::erase_if(layouts_, [&](const Layout& one) { return one.name == layout.name; });
  layouts_.insert(std::upper_bound(layouts_.begin(), layouts_.end(), layout,
                                   [](const auto& a, const auto& b) { return a.name < b.name; }),
                  layout);
  writer_.run([layout] { write_layout(layout_path(layout.name), layout); });
}

void Layouts::remove(const std::string& name) {
  std::erase_if(layouts_, [&](const Layout& layout) { return layout.name == name; });
  writer_.run([name] { fs::remove(layout_path(name)); });
}

void Layouts::import_from(const std::string& folder) {
  files_.open(FileDialog::Purpose::OpenFile, "Import a layout", folder,
              [this](const std::string& file) { import_file(file); });
}

void Layouts::export_to(const std::string& folder) {
  Layout layout = panels_.layout();
  layout.name =
      last_name_.empty() ? state::perspective_or_first(layout.perspective).word : last_name_;
  files_.open(FileDialog::Purpose::SaveFile, "Export the layout", fs::path(folder) / "layout.json",
              [this, layout](const std::string& file) { write_file(file, layout); });
}

void Layouts::import_file(const std::string& file) {
  workspace_.answers.jobs().submit<Layout>(
      Lane::TraceIo, "import layout " + file, "Reading " + state::readable_name(file),
      [file](const WorkContext&) { return std::make_shared<const Layout>(read_layout(file)); },
      [this](std::shared_ptr<const Layout> read) {
        Layout layout = *read;
        for (int n = 2; find(layout.name) != nullptr && *find(layout.name) != layout; ++n)
          layout.name = fmt::format("{} ({})", read->name, n);
        last_name_ = layout.name;
        put(layout);
        messages_.say(fmt::format("Imported: {} (View, Layouts).", layout.name), false);
        panels_.choose_layout(layout);
      },
      [this](const Error& error) { messages_.say(error.what(), true); });
}

// A file that is there is not replaced: it may be anything.
void Layouts::write_file(const std::string& file, const Layout& layout) {
  workspace_.answers.jobs().submit<std::string>(
      Lane::TraceIo, "export " + file, "Writing " + state::readable_name(file),
      [file, layout](const WorkContext&) {
        std::error_code none;
        if (fs::exists(file, none))
          throw input_error(printable(file) + " is not written", "it is there already",
                            "give another name");
        write_layout(file, layout);
        return std::make_shared<const std::string>(file);
      },
      [this](const std::shared_ptr<const std::string>& written) {
        messages_.say("Written: " + printable(*written), false);
      },
      [this](const Error& error) { messages_.say(error.what(), true); });
}

}  // namespace kvloupe::shell
