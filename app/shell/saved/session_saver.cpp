#include "app/shell/saved/session_saver.h"

#include <imgui.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace kvloupe::shell {
namespace {

constexpr std::chrono::seconds kBetweenSaves{2};

}  // namespace

SessionSaver::SessionSaver(state::Workspace& workspace, Explorer& explorer,
                           const std::vector<std::string>& traces,
                           const std::optional<state::ViewState>& at)
    : workspace_(workspace),
      explorer_(explorer),
      file_(traces.empty()),
      saved_settings_(text_of(explorer.settings())),
      next_(std::chrono::steady_clock::now() + kBetweenSaves) {
  if (!file_.problem().empty()) explorer_.messages().say(file_.problem(), true);
  if (file_.restored()) restore(*file_.restored());
  for (const std::string& path : traces) workspace_.traces.open(path, at);
  explorer_.before_close = [this] { save_open_places(); };
  save_session();
}

SessionSaver::~SessionSaver() {
  explorer_.before_close = nullptr;
  ImGui::GetIO().WantSaveIniSettings = true;
  save_changes();
}

void SessionSaver::restore(const WindowSession& session) {
  saved_session_ = session;
  ++saved_session_->openings;
  saved_session_->ended = false;
  file_.save(*saved_session_);  // before a trace can do any harm
  for (const state::ViewState& tab : session.tabs) {
    state::ViewState path_alone;
    path_alone.trace = tab.trace;
    std::optional<state::ViewState> at;
    if (explorer_.settings().restore_places && tab != path_alone) at = tab;
    workspace_.traces.open(tab.trace, at, state::Unknown::PassOver);
  }
  if (!session.results.trace.empty())
    workspace_.results.open(session.results.trace, [what = session.results](const auto& results) {
      return state::sight_of(what, results);
    });
  explorer_.panels().set_locks(session.locks);
  if (session.active >= session.tabs.size()) return;
  for (const auto& tab : workspace_.traces.tabs())
    if (tab->path == session.tabs[session.active].trace) workspace_.traces.activate(tab->id);
}

bool SessionSaver::still_opening() const {
  if (workspace_.results.is_open() && workspace_.results.state() == state::ResultState::Loading)
    return true;
  const auto& tabs = workspace_.traces.tabs();
  return std::any_of(tabs.begin(), tabs.end(),
                     [](const auto& tab) { return tab->state == state::ResultState::Loading; });
}

void SessionSaver::tick() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kBetweenSaves;
  save_changes();
}

void SessionSaver::save_changes() {
  save_settings_and_layout();
  save_open_places();
  save_session();
}

void SessionSaver::save_settings_and_layout() {
  if (std::string settings = text_of(explorer_.settings()); settings != saved_settings_) {
    saved_settings_ = std::move(settings);
    background_.run([text = saved_settings_] { save_settings(text); });
  }
  ImGuiIO& io = ImGui::GetIO();
  if (!io.WantSaveIniSettings) return;
  io.WantSaveIniSettings = false;
  std::string layout = ImGui::SaveIniSettingsToMemory();
  if (layout == saved_layout_) return;
  saved_layout_ = layout;
  background_.run([text = std::move(layout)] { save_layout(text); });
}

void SessionSaver::save_open_places() {
  std::vector<state::ViewState> changed;
  for (const auto& tab : workspace_.traces.tabs()) {
    if (tab->state != state::ResultState::Ready) continue;
    state::ViewState place = state::state_of(*tab);
    state::ViewState& saved = saved_places_[tab->path];
    if (place == saved) continue;
    saved = place;
    changed.push_back(std::move(place));
  }
  if (changed.empty()) return;
  background_.run([places = std::move(changed)] { save_places(places); });
}

void SessionSaver::save_session() {
  WindowSession session;
  session.ended = ended_;
  session.locks = explorer_.panels().locks();
  session.results = state::state_of_results(workspace_);
  // What is shown of a file is not known before it is read.
  if (workspace_.results.state() == state::ResultState::Loading && saved_session_ &&
      saved_session_->results.trace == session.results.trace)
    session.results = saved_session_->results;
  for (const auto& tab : workspace_.traces.tabs()) {
    if (tab.get() == workspace_.traces.active()) session.active = session.tabs.size();
    session.tabs.push_back(state::state_of(*tab));
    // One that is recorded now has its own name at the next start.
    if (explorer_.capture().is_part(tab->path))
      session.tabs.back().trace = std::filesystem::path(tab->path).replace_extension().string();
  }
  // Until all of it has been on screen it counts as an attempt.
  if (!ended_ && still_opening() && saved_session_) session.openings = saved_session_->openings;
  if (session == saved_session_) return;
  saved_session_ = session;
  background_.run([this, session = std::move(session)] { file_.save(session); });
}

void SessionSaver::save_now() {
  save_changes();
  explorer_.notes().finish();
  explorer_.runs().finish();
  explorer_.layouts().finish();
  background_.finish();
}

}  // namespace kvloupe::shell
