#include "app/shell/saved/session_file.h"

#include "app/shell/saved/state_files.h"
#include "app/shell/saved/view_state_json.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kMostWindows = 16;
constexpr std::chrono::seconds kLongestChoice{1};
constexpr std::size_t kMostTraces = 64;
// A trace that ends the program while it is opened must not do so at every start.
constexpr int kMostOpenings = 2;

// A file that may be taken: its lock is ours.
struct Free {
  fs::path path;
  FileLock lock;
  WindowSession session;
  std::string problem;
  fs::file_time_type saved;
};

// Earlier versions kept the path alone.
state::ViewState opened_in(const ordered_json& json) {
  state::ViewState opened = state_of_json(json);
  if (const auto path = bytes_of_json(json)) opened.trace = *path;
  return opened;
}

// Earlier versions had them as "traces".
std::vector<state::ViewState> tabs_in(const ordered_json& json) {
  std::vector<state::ViewState> tabs;
  const auto list = json.contains("tabs") ? json.find("tabs") : json.find("traces");
  if (list == json.end() || !list->is_array()) return tabs;
  for (const ordered_json& entry : *list) {
    state::ViewState tab = opened_in(entry);
    if (!tab.trace.empty() && tabs.size() < kMostTraces) tabs.push_back(std::move(tab));
  }
  return tabs;
}

template <typename Number>
Number number_in(const ordered_json& json, const char* name, Number most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return 0;
  return static_cast<Number>(std::min<std::uint64_t>(found->get<std::uint64_t>(), most));
}

WindowSession read(const fs::path& path) {
  const ordered_json json = read_small_json(path);
  WindowSession session;
  session.ended = true;
  if (json.is_null()) return session;
  if (!json.is_object())
    throw input_error(path.string() + " is not used", "it holds no session",
                      "it will be replaced; keep a copy if you want to look into it");
  session.tabs = tabs_in(json);
  session.active = number_in<std::size_t>(json, "active", kMostTraces);
  if (session.active >= session.tabs.size()) session.active = 0;
  if (const auto results = json.find("results"); results != json.end())
    session.results = opened_in(*results);
  if (const auto locks = json.find("locks"); locks != json.end() && locks->is_object())
    for (const auto& [view, words] : locks->items()) {
      const state::ViewState lock = state_of_json(words);
      if (!lock.trace.empty() && session.locks.size() < kMostTraces) session.locks[view] = lock;
    }
  session.openings = number_in<int>(json, "openings", kMostOpenings);
  const auto ended = json.find("ended");
  session.ended = ended != json.end() && *ended == true;
  return session;
}

std::vector<Free> free_files(const fs::path& folder, bool& others_run) {
  std::vector<Free> files;
  for (int i = 1; i <= kMostWindows; ++i) {
    FileLock lock(folder / fmt::format("session-{}.lock", i));
    if (!lock.held()) {
      others_run = true;
      continue;
    }
    Free file{folder / fmt::format("session-{}.json", i), std::move(lock), {}, {}, {}};
    std::error_code none;
    file.saved = fs::last_write_time(file.path, none);
    file.session.ended = true;
    try {
      file.session = read(file.path);
    } catch (const Error& error) {
      file.problem = error.what();
    }
    files.push_back(std::move(file));
    if (!fs::exists(files.back().path, none)) break;  // they are taken from the first on
  }
  return files;
}

// The newest that `fits`; nothing where none does.
template <typename Fits>
Free* newest(std::vector<Free>& files, const Fits& fits) {
  Free* found = nullptr;
  for (Free& file : files)
    if (fits(file.session) && (found == nullptr || file.saved > found->saved)) found = &file;
  return found;
}

}  // namespace

SessionFile::SessionFile(bool restore) {
  // Windows that start together choose in turn: what one looks at counts as taken for the others.
  const FileLock choosing(paths::state_dir() / "sessions.lock", kLongestChoice);
  bool others_run = false;
  std::vector<Free> files = free_files(paths::state_dir(), others_run);
  const auto killed = [](const WindowSession& s) { return !s.ended && !s.is_empty(); };
  Free* chosen = restore ? newest(files, killed) : nullptr;
  if (restore && chosen == nullptr && !others_run)
    chosen = newest(files, [](const WindowSession& s) { return !s.is_empty(); });
  const bool goes_on = chosen != nullptr;
  // Else one with nothing to lose.
  for (Free& file : files)
    if (chosen == nullptr && !killed(file.session)) chosen = &file;
  if (chosen == nullptr) {
    problem_ = fmt::format(
        "what is open here will not be remembered; {} other windows have sessions; close some",
        kMostWindows);
    return;
  }
  path_ = chosen->path;
  lock_.emplace(std::move(chosen->lock));
  problem_ = chosen->problem;
  if (!goes_on) return;
  if (chosen->session.openings < kMostOpenings)
    restored_ = std::move(chosen->session);
  else
    problem_ =
        "the last session is not opened again; the program ended twice while it was opened; open "
        "its traces one by one (File, Recent)";
}

void SessionFile::save(const WindowSession& session) const {
  if (path_.empty()) return;
  ordered_json tabs = ordered_json::array();
  for (const state::ViewState& tab : session.tabs) tabs.push_back(json_of_state(tab));
  ordered_json locks = ordered_json::object();
  for (const auto& [view, words] : session.locks) locks[view] = json_of_state(words);
  write_small_json(path_, {{"tabs", tabs},
                           {"active", session.active},
                           {"results", json_of_state(session.results)},
                           {"locks", locks},
                           {"openings", session.openings},
                           {"ended", session.ended}});
}

}  // namespace kvloupe::shell
