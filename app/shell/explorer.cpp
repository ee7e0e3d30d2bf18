// The frame of the Explore workspace; menus and bars are in explorer_menus.cpp and
// explorer_bars.cpp.
#include "app/shell/explorer.h"

#include "app/figure/figure_page.h"
#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>

namespace kvloupe::shell {
namespace {

constexpr double kToastSeconds = 6.0;

// Where a view lives in the default layout.
enum class Place { Left, Center, Right, RightBelow, Bottom };
Place place_of(const std::string& id) {
  if (id == "layer_head_overview") return Place::Left;
  if (id == "attention_map" || id == "kv_map" || id == "aqua_lanes" || id == "quest_pages" ||
      id == "block_tables")
    return Place::Center;
  if (id == "selected_vs_true") return Place::Right;
  if (id == "miss_inspector") return Place::RightBelow;
  return Place::Bottom;
}

std::string window_name(const panels::PanelInfo& info) {
  return fmt::format("{}###{}", info.title, info.id);
}

}  // namespace

Explorer::Explorer(state::Workspace& workspace, figure::GuiContext& gui, Settings settings)
    : workspace_(workspace), gui_(gui), settings_(std::move(settings)) {
  for (const panels::PanelInfo& info : panels::panel_registry())
    panels_.push_back({&info, info.make(), true, false, false, 0});
  workspace_.on_message = [this](const std::string& text, bool is_error) { say(text, is_error); };
  workspace_.on_opened = [this](const state::TraceTab& tab) {
    add_recent_file(tab.path);
    recent_ = load_recent_files();
    settings_.last_folder = std::filesystem::path(tab.path).parent_path().string();
  };
  recent_ = load_recent_files();
  make_commands();
}

Explorer::~Explorer() {
  workspace_.on_message = nullptr;
  workspace_.on_opened = nullptr;
}

void Explorer::set_window_size(int width, int height) {
  settings_.window_width = width;
  settings_.window_height = height;
}

void Explorer::set_content_scale(float scale) {
  if (scale == content_scale_) return;
  content_scale_ = scale;
  style_changed_ = true;
}

void Explorer::change_scale(float factor) {
  settings_.user_scale =
      factor == 0 ? 1.0F : std::clamp(settings_.user_scale * factor, kLeastScale, kMostScale);
  style_changed_ = true;
}

void Explorer::before_frame() {
  if (style_changed_) gui_.apply_style(settings_.theme, content_scale_ * settings_.user_scale);
  style_changed_ = false;
  const state::TraceTab* tab = workspace_.ready();
  if (tab != nullptr && tab->id != fonts_for_tab_) {
    fonts_for_tab_ = tab->id;
    figure::prepare_fonts(gui_, workspace_);
  }
}

bool Explorer::animating() const { return playing_ || workspace_.busy() || !toasts_.empty(); }

void Explorer::frame() {
  // A measurement is disturbed by whatever the user does: it ends, and keeps the samples it has.
  const ImGuiIO& io = ImGui::GetIO();
  const bool pressed =
      ImGui::IsAnyMouseDown() || io.MouseWheel != 0 || io.InputQueueCharacters.Size > 0;
  if (workspace_.latency().running && pressed) workspace_.stop_latency();
  workspace_.publish();
  handle_shortcuts(commands_);
  tick_playback();
  menu_ui();
  transport_ui();
  status_ui();
  layout_ui();  // also while nothing is open: a dock space that is not submitted forgets its windows
  if (workspace_.tabs().empty()) {
    welcome_ui();
  } else {
    panels_ui();
    runs_ui();
  }
  toasts_ui();
  palette_ui();
  shortcut_sheet_ui();
  goto_ui();
  files_.draw(gui_.palette());
}

void Explorer::tick_playback() {
  if (!playing_ || workspace_.ready() == nullptr) return;
  const double now = ImGui::GetTime();
  const double period = 1.0 / chunks_per_second_;
  // Wait for the views, but not for ever: a slow method must not stop the replay.
  if (now - last_step_ < period || (workspace_.busy() && now - last_step_ < 4 * period)) return;
  last_step_ = now;
  const int last = static_cast<int>(workspace_.info().chunks.size()) - 1;
  const int chunk = workspace_.selection().chunk;
  if (chunk < last)
    workspace_.set_chunk(chunk + 1);
  else if (loop_)
    workspace_.set_chunk(0);
  else
    playing_ = false;
}

void Explorer::layout_ui() {
  const ImGuiID dockspace = ImGui::DockSpaceOverViewport(
      ImGui::GetID("explore"), ImGui::GetMainViewport(), ImGuiDockNodeFlags_PassthruCentralNode);
  const ImGuiDockNode* node = ImGui::DockBuilderGetNode(dockspace);
  const bool unknown = node == nullptr || (node->IsLeafNode() && node->Windows.Size == 0 &&
                                           ImGui::GetFrameCount() < 8);
  if (reset_layout_ || unknown) {
    build_default_layout(dockspace);
    reset_layout_ = false;
  }
}

void Explorer::build_default_layout(ImGuiID dockspace) {
  ImGui::DockBuilderRemoveNode(dockspace);
  ImGui::DockBuilderAddNode(dockspace, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dockspace, ImGui::GetMainViewport()->WorkSize);
  ImGuiID center = dockspace;
  ImGuiID right = ImGui::DockBuilderSplitNode(center, ImGuiDir_Right, 0.29F, nullptr, &center);
  const ImGuiID right_below =
      ImGui::DockBuilderSplitNode(right, ImGuiDir_Down, 0.42F, nullptr, &right);
  const ImGuiID bottom =
      ImGui::DockBuilderSplitNode(center, ImGuiDir_Down, 0.34F, nullptr, &center);
  ImGuiID left = ImGui::DockBuilderSplitNode(center, ImGuiDir_Left, 0.26F, nullptr, &center);
  const ImGuiID runs = ImGui::DockBuilderSplitNode(left, ImGuiDir_Down, 0.36F, nullptr, &left);
  for (OpenPanel& panel : panels_) {
    panel.open = true;
    ImGuiID where = bottom;
    switch (place_of(panel.info->id)) {
      case Place::Left:
        where = left;
        break;
      case Place::Center:
        where = center;
        break;
      case Place::Right:
        where = right;
        break;
      case Place::RightBelow:
        where = right_below;
        break;
      case Place::Bottom:
        where = bottom;
        break;
    }
    ImGui::DockBuilderDockWindow(window_name(*panel.info).c_str(), where);
    const std::string id = panel.info->id;
    // One after the other: a dock node shows the tab that had the focus.
    panel.frames_to_focus = id == "kv_map" ? 3 : id == "token_strip" ? 6 : 0;
  }
  runs_open_ = true;
  ImGui::DockBuilderDockWindow("Runs###runs", runs);
  ImGui::DockBuilderFinish(dockspace);
}

void Explorer::panels_ui() {
  panels::DrawContext context{workspace_, gui_.palette(), false, false};
  for (OpenPanel& panel : panels_) {
    panel.visible = false;
    if (!panel.open) continue;
    // Windows learn which tab is theirs over the first frames.
    if (panel.frames_to_focus > 0 && --panel.frames_to_focus == 0) ImGui::SetNextWindowFocus();
    ImGui::SetNextWindowSize({widgets::em(40), widgets::em(26)}, ImGuiCond_FirstUseEver);
    // Docked, it lies on the cleared frame, which has its colour already.
    ImGui::PushStyleColor(ImGuiCol_WindowBg,
                          widgets::with_alpha(gui_.palette().panel, panel.docked ? 0 : 1));
    panel.visible =
        ImGui::Begin(window_name(*panel.info).c_str(), &panel.open, ImGuiWindowFlags_NoCollapse);
    ImGui::PopStyleColor();
    panel.docked = ImGui::IsWindowDocked();
    if (ImGui::BeginPopupContextItem()) {
      for (const panels::Format format : panel.info->formats)
        if (ImGui::MenuItem(fmt::format("Export as {}\u2026", panels::name_of(format)).c_str()))
          export_dialog(*panel.info, format);
      if (ImGui::MenuItem("Copy the export command"))
        ImGui::SetClipboardText(
            ("kvloupe " + export_arguments(*panel.info) + " --png figure.png").c_str());
      ImGui::EndPopup();
    }
    if (panel.visible) panel.panel->draw(context);
    ImGui::End();
  }
}

bool Explorer::panel_visible(const std::string& id) const {
  return std::any_of(panels_.begin(), panels_.end(),
                     [&](const OpenPanel& panel) { return panel.info->id == id && panel.visible; });
}

void Explorer::show_view(const std::string& id) {
  for (OpenPanel& panel : panels_)
    if (panel.info->id == id) {
      panel.open = true;
      ImGui::SetWindowFocus(window_name(*panel.info).c_str());
    }
}

void Explorer::status_ui() {
  const widgets::FontScope small(widgets::fonts().body, 0.88F);
  const auto& p = gui_.palette();
  const float height = ImGui::GetFrameHeight() + widgets::em(0.3F);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(0.8F), widgets::em(0.15F)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, p.window);
  if (ImGui::BeginViewportSideBar("##status", ImGui::GetMainViewport(), ImGuiDir_Down, height,
                                  kFlags)) {
    ImGui::AlignTextToFramePadding();
    const auto jobs = workspace_.jobs().status();
    if (jobs.empty()) {
      widgets::text_colored(p.faint, workspace_.ready() != nullptr ? "Ready" : "");
    } else {
      const JobStatus& job = jobs.front();
      const double share =
          job.total > 0 ? static_cast<double>(job.done) / static_cast<double>(job.total) : 0;
      widgets::text_colored(p.text, job.title + (job.stage.empty() ? "" : ": " + job.stage));
      ImGui::SameLine();
      if (job.total > 0) {
        widgets::share_bar_ui(p, share, p.accent, widgets::em(9), widgets::em(0.4F));
        ImGui::SameLine();
      }
      if (jobs.size() > 1) {
        widgets::text_colored(p.muted, fmt::format("and {} more", jobs.size() - 1));
        ImGui::SameLine();
      }
      if (ImGui::SmallButton("Cancel##jobs")) {
        workspace_.jobs().cancel(job.tag);
        if (job.tag == "latency") workspace_.stop_latency();
      }
    }
    if (workspace_.ready() != nullptr) {
      const auto& info = workspace_.info();
      const std::string text =
          fmt::format("{}  \u00B7  {} tokens  \u00B7  {}  \u00B7  {:.0f} frames/s",
                      workspace_.trace_name(), format_count(info.num_tokens),
                      format_bytes(info.bytes), static_cast<double>(ImGui::GetIO().Framerate));
      ImGui::SameLine(
          std::max(ImGui::GetCursorPosX(),
                   ImGui::GetWindowWidth() - ImGui::CalcTextSize(text.c_str()).x - widgets::em(1)));
      widgets::text_colored(p.faint, text);
    }
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

void Explorer::say(const std::string& text, bool is_error) {
  toasts_.push_back({text, is_error, 0});
}

void Explorer::toasts_ui() {
  const double now = ImGui::GetTime();
  std::erase_if(toasts_, [&](const Toast& toast) { return toast.until != 0 && toast.until < now; });
  const ImVec2 size = ImGui::GetMainViewport()->Size;
  float bottom = size.y - widgets::em(3);
  int index = 0;
  for (Toast& toast : toasts_) {
    if (toast.until == 0) toast.until = now + kToastSeconds;
    ImGui::SetNextWindowPos({size.x - widgets::em(1.2F), bottom}, ImGuiCond_Always, {1, 1});
    ImGui::SetNextWindowSizeConstraints({widgets::em(16), 0}, {widgets::em(34), size.y});
    constexpr ImGuiWindowFlags kFlags =
        ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_AlwaysAutoResize |
        ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav |
        ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
    if (ImGui::Begin(fmt::format("##toast{}", index++).c_str(), nullptr, kFlags)) {
      ImGui::PushTextWrapPos(widgets::em(32));
      widgets::text_colored(toast.is_error ? gui_.palette().error : gui_.palette().text,
                            toast.text);
      ImGui::PopTextWrapPos();
      if (ImGui::IsWindowHovered()) {
        toast.until = now + 1;
        if (ImGui::IsMouseClicked(ImGuiMouseButton_Left))
          ImGui::SetClipboardText(toast.text.c_str());
      }
      bottom -= ImGui::GetWindowHeight() + widgets::em(0.5F);
    }
    ImGui::End();
  }
}

void Explorer::welcome_ui() {
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const auto& p = gui_.palette();
  ImGui::SetNextWindowPos({viewport->WorkPos.x + viewport->WorkSize.x / 2,
                           viewport->WorkPos.y + viewport->WorkSize.y * 0.4F},
                          ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({widgets::em(38), 0});
  constexpr ImGuiWindowFlags kFlags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {widgets::em(2), widgets::em(1.6F)});
  if (ImGui::Begin("Welcome", nullptr, kFlags)) {
    {
      const widgets::FontScope strong(widgets::fonts().strong, 2.0F);
      widgets::text_colored(p.text, "KVLoupe");
    }
    widgets::text_wrapped(p.muted, "Which KVs each sparse-attention method keeps, and why.");
    ImGui::Dummy({0, widgets::em(0.5F)});
    if (ImGui::Button("Open a trace\u2026", {widgets::em(10), 0})) open_dialog();
    ImGui::SameLine();
    widgets::text_colored(p.muted, "Ctrl+O, or drop a .h5 file here");
    const std::vector<std::string> recent = recent_;
    if (!recent.empty()) {
      ImGui::SeparatorText("Recent");
      for (std::size_t i = 0; i < recent.size(); ++i) {
        const std::filesystem::path path(recent[i]);
        std::error_code ignored;
        const bool there = std::filesystem::exists(path, ignored);
        ImGui::BeginDisabled(!there);
        if (ImGui::Selectable(fmt::format("{}##{}", path.filename().string(), i).c_str()))
          workspace_.open(recent[i]);
        ImGui::EndDisabled();
        ImGui::SameLine(widgets::em(13));
        widgets::text_colored(
            p.faint,
            widgets::elided(there ? path.parent_path().string() : "missing", widgets::em(20)));
      }
    }
    ImGui::SeparatorText("No trace yet?");
    const widgets::FontScope mono(widgets::fonts().mono, 0.92F);
    widgets::text_wrapped(p.muted, "./kvloupe.sh demo");
  }
  ImGui::End();
  ImGui::PopStyleVar();
}

}  // namespace kvloupe::shell
