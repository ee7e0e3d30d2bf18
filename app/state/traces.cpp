#include "app/state/traces.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/trace/results/results_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace kvloupe::state {

Traces::Traces(Answers& answers, MemoryAccountPtr memory, Opener opener)
    : answers_(answers), memory_(std::move(memory)), opener_(std::move(opener)) {}

void Traces::say(const std::string& text, bool is_error) const {
  if (on_message) on_message(text, is_error);
}

void TraceTab::remember_tried(const MethodChoice& method) {
  constexpr std::size_t kMostTried = 12;
  if (method.recorded() || method.empty()) return;
  std::erase(tried, method);
  tried.push_back(method);
  if (tried.size() > kMostTried) tried.erase(tried.begin());
}

// What cannot be shown is told once.
void Traces::show_wanted(TraceTab& tab, const ViewState& what, Unknown unknown) const {
  try {
    show(tab, what, unknown);
  } catch (const Error& error) {
    say(error.what(), true);
  }
}

void Traces::show_in_open(TraceTab& tab, const ViewState& what, Unknown unknown) {
  if (tab.state != ResultState::Ready) {
    tab.wanted.what = what;
    tab.wanted.unknown = unknown;
    return;
  }
  const Selection before = tab.selection;
  show_wanted(tab, what, unknown);
  if (what.numbers == NumberScope{}) tab.selection.numbers = before.numbers;
  if (tab.selection != before) tab.history.push(before, "");
  if (!what.other_trace.empty()) open_beside(what.other_trace);
}

void Traces::open(const std::string& path, std::optional<ViewState> what, Unknown unknown) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  for (const auto& tab : tabs_)
    if (tab->path == absolute) {
      active_ = tab->id;
      if (what) show_in_open(*tab, *what, unknown);
      return;
    }
  // The place is kept when a second trace is opened, where it exists there too.
  std::optional<Selection> like;
  if (const TraceTab* previous = ready()) like = previous->selection;
  TraceTab& tab = add_tab(absolute);
  active_ = tab.id;
  tab.wanted = {std::move(like), std::move(what), unknown};
  load(tab, false);
}

TraceTab& Traces::add_tab(const std::string& absolute) {
  tabs_.push_back(std::make_unique<TraceTab>());
  TraceTab& tab = *tabs_.back();
  tab.id = next_id_++;
  tab.path = absolute;
  tab.name = printable(std::filesystem::path(absolute).filename().string());
  return tab;
}

void Traces::open_beside(const std::string& path) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  for (const auto& tab : tabs_)
    if (tab->path == absolute) return;
  load(add_tab(absolute), false);
}

void Traces::load(const TraceTab& tab, bool has_grown) {
  answers_.jobs().submit<TracePtr>(
      Lane::TraceIo, fmt::format("open {}", tab.id), fmt::format("Opening {}", tab.name),
      [opener = opener_, path = tab.path, memory = memory_](const WorkContext&) {
        try {
          return std::make_shared<const TracePtr>(opener(path, memory));
        } catch (const Error&) {
          if (!trace::is_results_file(path)) throw;
          return std::make_shared<const TracePtr>();
        }
      },
      [this, id = tab.id, has_grown](std::shared_ptr<const TracePtr> trace) {
        if (TraceTab* found = find(id)) opened(*found, *trace, has_grown);
      },
      [this, id = tab.id](const Error& error) {
        if (TraceTab* found = find(id)) failed(*found, error);
      });
}

void Traces::opened(TraceTab& tab, const TracePtr& trace, bool has_grown) {
  if (trace == nullptr) {
    const std::string path = tab.path;
    remove(tab);
    if (on_results) on_results(path);
    return;
  }
  if (tab.selection.place.trace) answers_.forget(tab.selection.place.trace->key());
  WantedView wanted = std::exchange(tab.wanted, {});
  const bool anew = tab.state == ResultState::Ready;
  if (anew) wanted.like = tab.selection;  // where one has got to meanwhile
  tab.state = ResultState::Ready;
  tab.recorded.clear();
  for (const trace::RunInfo& run : trace->info().runs)
    tab.recorded.push_back(choice_of_run(run, *trace));
  tab.selection = initial_selection(trace, wanted.like ? &*wanted.like : nullptr);
  tab.history.move_to(trace);
  if (has_grown && anew) keep_place(tab, *wanted.like);
  if (wanted.what) {
    show_wanted(tab, *wanted.what, wanted.unknown);
    if (!wanted.what->other_trace.empty()) open_beside(wanted.what->other_trace);
  }
  if (!has_grown)
    for (const std::string& warning : trace->info().warnings) say(warning, false);
  if (on_opened) on_opened(tab, !wanted.like && !wanted.what);
}

void Traces::keep_place(TraceTab& tab, const Selection& before) const {
  Place place = before.place;
  const bool at_end = place.chunk + 1 == static_cast<int>(place.info().chunks.size());
  place.trace = tab.selection.place.trace;
  if (at_end && place.query < 0) place.chunk = static_cast<int>(place.info().chunks.size()) - 1;
  clamp(place);
  tab.selection.place = place;
}

void Traces::failed(TraceTab& tab, const Error& error) {
  say(error.what(), true);
  if (tab.state == ResultState::Ready) return;  // read again in vain: what was there stays
  tab.state = ResultState::Error;
  tab.error = error.what();
  if (on_message) remove(tab);  // who hears of it needs no tab to say so
}

void Traces::rename_other(const std::string& from, const std::string& to) {
  for (const auto& tab : tabs_)
    if (tab->selection.other_trace == from) tab->selection.other_trace = to;
}

void Traces::remove(const TraceTab& tab) {
  rename_other(tab.path, "");  // what is closed is drawn beside nothing
  const auto found = std::find_if(tabs_.begin(), tabs_.end(),
                                  [&](const auto& entry) { return entry.get() == &tab; });
  const bool was_active = tab.id == active_;
  const auto next = tabs_.erase(found);
  if (!was_active) return;
  active_ = tabs_.empty() ? -1 : (next == tabs_.end() ? tabs_.back() : *next)->id;
}

void Traces::close(const TraceTab& tab) {
  answers_.stop_measuring();
  answers_.jobs().cancel(fmt::format("open {}", tab.id));
  if (tab.selection.place.trace) answers_.forget(tab.selection.place.trace->key());
  remove(tab);
}

void Traces::close_active() {
  if (const TraceTab* tab = active()) close(*tab);
}

void Traces::reload_active() {
  if (const TraceTab* tab = active()) load(*tab, false);
}

bool Traces::grown(const std::string& path, const std::string& path_now) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  const auto found = std::find_if(tabs_.begin(), tabs_.end(),
                                  [&](const auto& tab) { return tab->path == absolute; });
  if (found == tabs_.end()) return false;
  TraceTab& tab = **found;
  const std::string absolute_now = std::filesystem::absolute(path_now, ignored).string();
  // What lay under that name is no more.
  if (const TraceTab* replaced = find(absolute_now); replaced != nullptr && replaced != &tab) {
    if (replaced->id == active_) active_ = tab.id;
    close(*replaced);
  }
  tab.path = absolute_now;
  rename_other(absolute, tab.path);
  tab.name = printable(std::filesystem::path(tab.path).filename().string());
  load(tab, true);
  return true;
}

void Traces::activate(int tab_id) {
  if (find(tab_id) != nullptr) active_ = tab_id;
}

const TraceTab* Traces::find(const std::string& path) const {
  for (const auto& tab : tabs_)
    if (tab->path == path) return tab.get();
  return nullptr;
}

void Traces::take(const Traces& others) {
  for (const auto& tab : others.tabs_)
    if (tab->state == ResultState::Ready) tabs_.push_back(std::make_unique<TraceTab>(*tab));
  active_ = others.active_;
  next_id_ = others.next_id_;
  looked_at_ = others.looked_at_;
}

TraceTab* Traces::find(int tab_id) {
  for (const auto& tab : tabs_)
    if (tab->id == tab_id) return tab.get();
  return nullptr;
}

TraceTab* Traces::active() { return find(looked_at_ == kActive ? active_ : looked_at_); }
const TraceTab* Traces::active() const { return const_cast<Traces*>(this)->active(); }

TraceTab* Traces::ready() {
  TraceTab* tab = active();
  return tab != nullptr && tab->state == ResultState::Ready ? tab : nullptr;
}
const TraceTab* Traces::ready() const { return const_cast<Traces*>(this)->ready(); }

}  // namespace kvloupe::state
