// See file_dialog.h.
#include "app/shell/windows/file_dialog.h"

#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace kvloupe::shell {
namespace {

constexpr std::array<std::string_view, 3> kTraceEndings{".h5", ".hdf5", ".h5.part"};

bool is_trace_name(const std::string& name) {
  return std::ranges::any_of(kTraceEndings, [&](std::string_view ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  });
}

std::vector<std::string> filters_of(FileDialog::Purpose purpose) {
  if (purpose != FileDialog::Purpose::OpenTrace) return {"All files", "*"};
  std::string patterns;
  for (const std::string_view ending : kTraceEndings)
    patterns += fmt::format("{}*{}", patterns.empty() ? "" : " ", ending);
  return {"Traces", patterns, "All files", "*"};
}

}  // namespace

void FileDialog::open(Purpose purpose, const std::string& title, const std::filesystem::path& start,
                      std::function<void(const std::string&)> chosen) {
  purpose_ = purpose;
  title_ = title;
  chosen_ = std::move(chosen);
  open_ = false;
  start_ = start;
  asked_ = ImGui::GetTime();
  desktop_.reset();
  if (prefers_desktop && DesktopDialog::is_there())
    // A folder that ends with a slash is opened, another one is marked in the folder around it.
    desktop_ = std::make_unique<DesktopDialog>(purpose == Purpose::SaveFile, title,
                                               purpose == Purpose::SaveFile ? start : start / "",
                                               filters_of(purpose));
  else
    open_here(start);
}

void FileDialog::take_from_desktop() {
  const std::optional<std::string> path = desktop_->poll();
  if (!path) return;
  desktop_.reset();
  // No hand closes it so fast: its program failed.
  constexpr double kLeast = 0.3;
  if (path->empty() && ImGui::GetTime() - asked_ < kLeast) {
    open_here(start_);
    problem_ =
        "The desktop's file dialog ended at once, so this one is shown. To keep it, choose "
        "\u201CFile "
        "dialogs of the desktop or of this window\u201D in the command palette.";
    return;
  }
  const auto chosen = std::exchange(chosen_, nullptr);
  if (!path->empty()) chosen(*path);
}

void FileDialog::open_here(const std::filesystem::path& start) {
  const Purpose purpose = purpose_;
  name_ = purpose == Purpose::SaveFile ? start.filename().string() : "";
  problem_.clear();
  std::error_code ignored;
  std::filesystem::path folder = purpose == Purpose::SaveFile ? start.parent_path() : start;
  if (folder.empty() || !std::filesystem::is_directory(folder, ignored))
    folder = std::filesystem::current_path(ignored);
  enter(folder);
  open_ = appearing_ = true;
}

void FileDialog::enter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  if (error) {
    problem_ = state::readable_name(folder.string()) + ": " + error.message();
    return;
  }
  const std::filesystem::path before =
      std::exchange(folder_, std::filesystem::weakly_canonical(folder, error));
  // What was chosen there is not here.
  if (purpose_ != Purpose::SaveFile && folder_ != before) name_.clear();
  folder_text_ = folder_.string();
  problem_.clear();
  entries_.clear();
  for (const auto& item : it) {
    Entry entry{item.path().filename().string(), item.is_directory(error), 0};
    if (entry.name.starts_with(".")) continue;
    if (!entry.folder && purpose_ == Purpose::OpenTrace && !is_trace_name(entry.name)) continue;
    if (!entry.folder) entry.bytes = item.file_size(error);
    entries_.push_back(std::move(entry));
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.folder != b.folder ? a.folder : a.name < b.name;
  });
}

void FileDialog::confirm() {
  if (name_.empty()) return;
  const std::filesystem::path path =
      std::filesystem::path(name_).is_absolute() ? std::filesystem::path(name_) : folder_ / name_;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    name_.clear();
    enter(path);
    return;
  }
  if (purpose_ != Purpose::SaveFile && !std::filesystem::exists(path, ignored)) {
    problem_ = state::readable_name(path.string()) + ": no such file";
    return;
  }
  open_ = false;
  const auto chosen = std::exchange(chosen_, nullptr);  // what it holds goes with it
  chosen(path.string());
}

void FileDialog::draw(const widgets::Palette& palette) {
  if (desktop_) take_from_desktop();
  if (!open_) return;
  const std::string id = title_ + "###file dialog";
  if (!ImGui::IsPopupOpen(id.c_str())) ImGui::OpenPopup(id.c_str());
  const ImVec2 center = ImGui::GetMainViewport()->GetCenter();
  ImGui::SetNextWindowPos(center, ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({widgets::em(46), widgets::em(32)}, ImGuiCond_Appearing);
  bool stay = true;
  if (!ImGui::BeginPopupModal(id.c_str(), &stay, ImGuiWindowFlags_NoSavedSettings)) return;
  if (ImGui::Button("Up"))
    if (folder_.has_parent_path()) enter(folder_.parent_path());
  ImGui::SameLine();
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputText("##folder", &folder_text_, ImGuiInputTextFlags_EnterReturnsTrue))
    enter(folder_text_);
  list_ui(palette);
  if (!problem_.empty()) widgets::text_wrapped(palette.error, problem_);
  ImGui::SetNextItemWidth(-widgets::em(12));
  if (appearing_) ImGui::SetKeyboardFocusHere();
  if (ImGui::InputTextWithHint("##name", "File name", &name_, ImGuiInputTextFlags_EnterReturnsTrue))
    confirm();
  ImGui::SameLine();
  if (ImGui::Button(purpose_ == Purpose::SaveFile ? "Save" : "Open", {widgets::em(5), 0}))
    confirm();
  ImGui::SameLine();
  if (ImGui::Button("Cancel", {widgets::em(5), 0}) || ImGui::IsKeyPressed(ImGuiKey_Escape) ||
      !stay) {
    open_ = false;
    chosen_ = nullptr;
  }
  appearing_ = false;
  if (!open_) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

void FileDialog::list_ui(const widgets::Palette& palette) {
  const float below = ImGui::GetFrameHeightWithSpacing() * (problem_.empty() ? 1.0F : 2.2F) +
                      (entries_.empty() ? ImGui::GetTextLineHeightWithSpacing() : 0);
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                                     ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
  if (!ImGui::BeginTable("##files", 2, kFlags, {0, -below})) return;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthStretch, 4);
  ImGui::TableSetupColumn("size", ImGuiTableColumnFlags_WidthStretch, 1);
  std::filesystem::path next;
  bool accepted = false;
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(entries_.size()));
  while (clipper.Step())
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const Entry& entry = entries_[static_cast<std::size_t>(i)];
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      const std::string label = state::readable_name(entry.name) + (entry.folder ? "/" : "");
      ImGui::PushID(i);
      constexpr auto kSelect =
          ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick;
      if (ImGui::Selectable(label.c_str(), entry.name == name_, kSelect)) {
        if (entry.folder)
          next = folder_ / entry.name;
        else
          name_ = entry.name;
        accepted = !entry.folder && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
      }
      ImGui::PopID();
      ImGui::TableNextColumn();
      if (!entry.folder) widgets::text_colored(palette.muted, format_bytes(entry.bytes));
    }
  ImGui::EndTable();
  if (entries_.empty())
    widgets::text_colored(palette.muted, purpose_ == Purpose::OpenTrace
                                             ? "No traces (.h5) in this folder"
                                             : "Nothing in this folder");
  if (!next.empty()) enter(next);
  if (accepted) confirm();
}

}  // namespace kvloupe::shell
