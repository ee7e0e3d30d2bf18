// How the user arranges the panels: closes, doubles, locks, tears off, and chooses layouts.
#include "app/shell/frame/dock_layout.h"
#include "app/shell/frame/dock_tree.h"
#include "app/shell/frame/panel_host.h"
#include "app/state/sight.h"
#include "app/widgets/key_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace kvloupe::shell {

using state::Perspective;
using state::PlacedView;
using state::ViewState;

namespace {

constexpr std::size_t kMostClosings = 50;

// "kv_map" of "kv_map.show"
std::string owner_of(const std::string& option) { return option.substr(0, option.find('.')); }

}  // namespace

PanelHost::Source* PanelHost::find_source(const std::string& id) {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const Source& source) { return source.id == id; });
  return found != sources_.end() ? &*found : nullptr;
}

PanelHost::Source* PanelHost::source_of(const std::string& id) {
  if (Source* source = find_source(id)) return source;
  const std::string view = state::view_of(id);
  const state::ViewInfo* info = view != id ? state::find_view(view) : nullptr;
  if (info == nullptr) return nullptr;
  return &add_source(id, fmt::format("{} ({})", info->title, id.back()), info, {});
}

void PanelHost::open_keys(const std::vector<std::string>& keys) {
  const Window* first = nullptr;
  for (Window& window : windows_) {
    if (std::find(keys.begin(), keys.end(), window.key) == keys.end()) continue;
    if (first == nullptr) first = &window;
    bring_up(window);
  }
  if (first != nullptr) workspace_.cursor.set_perspective(first->perspective->id);
}

void PanelHost::close_keys(const std::vector<std::string>& keys) {
  for (Window& window : windows_)
    if (std::find(keys.begin(), keys.end(), window.key) != keys.end()) choose(window, false);
}

void PanelHost::push_opened(const std::vector<std::string>& keys) {
  steps_.push([this, keys] { close_keys(keys); }, [this, keys] { open_keys(keys); });
}

void PanelHost::note_closed(const std::vector<Window*>& closed) {
  std::vector<std::string> titles, keys;
  for (const Window* window : closed) {
    titles.push_back(sources_[window->source].title);
    keys.push_back(window->key);
  }
  messages_.say(fmt::format("Closed: {}. {} brings it back.", fmt::join(titles, ", "),
                            widgets::with_key("Undo", "undo")),
                false);
  note_closing({keys, {}});
  steps_.push([this, keys] { open_keys(keys); }, [this, keys] { close_keys(keys); });
}

void PanelHost::note_closed_trace(const ViewState& was) { note_closing({{}, was}); }

void PanelHost::note_closing(Closing closing) {
  closings_.push_back(std::move(closing));
  if (closings_.size() > kMostClosings) closings_.erase(closings_.begin());
}

bool PanelHost::is_undone(const Closing& closing) const {
  if (closing.trace) return workspace_.traces.find(closing.trace->trace) != nullptr;
  return std::none_of(windows_.begin(), windows_.end(), [&](const Window& window) {
    return !is_open(window) &&
           std::find(closing.keys.begin(), closing.keys.end(), window.key) != closing.keys.end();
  });
}

bool PanelHost::can_reopen() const {
  return std::any_of(closings_.begin(), closings_.end(),
                     [this](const Closing& closing) { return !is_undone(closing); });
}

void PanelHost::reopen() {
  std::erase_if(closings_, [this](const Closing& closing) { return is_undone(closing); });
  if (closings_.empty()) return;
  Closing closing = std::move(closings_.back());
  closings_.pop_back();
  if (closing.trace)
    return workspace_.traces.open(closing.trace->trace, *closing.trace, state::Unknown::PassOver);
  for (const Window& window : windows_)
    if (is_open(window)) std::erase(closing.keys, window.key);
  open_keys(closing.keys);
}

bool PanelHost::is_free(const std::string& id) const {
  return std::none_of(windows_.begin(), windows_.end(), [&](const Window& window) {
    return sources_[window.source].id == id && is_open(window);
  });
}

void PanelHost::duplicate(const std::string& id) {
  const Source* original = find_source(id);
  state::TraceTab* tab = workspace_.traces.ready();
  if (original == nullptr || original->view == nullptr || tab == nullptr) return;
  const state::ViewInfo& view = *original->view;
  int number = 2;
  while (number <= state::kMostCopies && !is_free(state::copy_id(view.id, number))) ++number;
  if (number > state::kMostCopies)
    return messages_.say(
        fmt::format("{} is open {} times; close one first.", view.title, state::kMostCopies),
        false);
  const std::string copy_id = state::copy_id(view.id, number);
  Source& copy = *source_of(copy_id);
  copy.panel = panels::make_panel(view.id);  // nothing of an earlier copy
  copy.lock.set(original->lock.words());
  auto& options = tab->selection.options;
  std::erase_if(options, [&](const auto& option) { return owner_of(option.first) == copy_id; });
  for (const auto& [name, value] : std::map(options))
    if (owner_of(name) == id) options[copy_id + name.substr(id.size())] = value;
  Window& window = *find(copy_id, *shown_);
  opened_beside_ = window.name;
  beside_ = window_of_view(id, *shown_);
  bring_up(window);
  push_opened({window.key});
}

void PanelHost::dock_beside_ui() {
  if (opened_beside_.empty()) return;
  dock_beside(beside_, opened_beside_);
  opened_beside_.clear();
}

void PanelHost::set_lock(const std::string& id, const std::optional<ViewState>& words) {
  if (Source* source = source_of(id); source != nullptr && source->view != nullptr)
    source->lock.set(words);
}

void PanelHost::change_lock(const std::string& id, const std::optional<ViewState>& words) {
  const Source* source = find_source(id);
  if (source == nullptr || source->view == nullptr || source->lock.words() == words) return;
  const std::optional<ViewState> before = source->lock.words();
  set_lock(id, words);
  steps_.push([this, id, before] { set_lock(id, before); },
              [this, id, words] { set_lock(id, words); });
}

void PanelHost::lock(const std::string& id) {
  const state::TraceTab* tab = workspace_.traces.ready();
  if (tab != nullptr) change_lock(id, state::lock_words(*tab, workspace_.selection()));
}

void PanelHost::unlock(const std::string& id) { change_lock(id, std::nullopt); }

bool PanelHost::is_locked(const std::string& id) const {
  return std::any_of(sources_.begin(), sources_.end(), [&](const Source& source) {
    return source.id == id && source.lock.words().has_value();
  });
}

std::map<std::string, ViewState> PanelHost::locks() const {
  std::map<std::string, ViewState> locks;
  for (const Source& source : sources_)
    if (source.lock.words()) locks[source.id] = *source.lock.words();
  return locks;
}

void PanelHost::set_locks(const std::map<std::string, ViewState>& locks) {
  for (const auto& [id, words] : locks) set_lock(id, words);
}

void PanelHost::tear_off(const std::string& id) {
  constexpr TornOff kMiddle{0.28F, 0.2F, 0.44F, 0.5F, {}};
  shell::tear_off({window_of_view(id, *shown_)}, kMiddle);
}

// It lies where it lay before. If that dock is gone, a workspace that nobody arranged is laid out anew with it; in any
// other it goes where dock_for() says.
void PanelHost::dock_again(const std::string& id) {
  Window* window = find(id, *shown_);
  if (window == nullptr) return;
  if (!dock_exists(*shown_, window->last_dock) && shown_->find(id) != nullptr &&
      is_first_layout(docks_of(*shown_, room_of_docks())))
    docks_again_ = id;
  else
    dock_in(dock_for(*window), window->name);
  bring_up(*window);
}

// Where it lay before; else where those lie that share its spot; else behind the large view.
unsigned PanelHost::dock_for(const Window& window) const {
  const Perspective& here = *window.perspective;
  if (dock_exists(here, window.last_dock)) return window.last_dock;
  if (const PlacedView* placed = here.find(state::view_of(sources_[window.source].id)))
    for (const PlacedView& other : here.views) {
      const std::string name = window_of_view(other.id, here);
      if (other.spot != placed->spot || name == window.name) continue;
      if (const unsigned dock = dock_of(name)) return dock;
    }
  return central_dock_of(here);
}

void PanelHost::menu_ui(Window& window) {
  const Source& source = sources_[window.source];
  const std::string id = source.id;
  // Of results all views show one choice.
  if (source.view != nullptr && !source.view->shows_results && workspace_.has_trace()) {
    if (ImGui::MenuItem("Duplicate")) duplicate(id);
    if (!source.lock.words() && ImGui::MenuItem("Lock here")) lock(id);
    if (source.lock.words() && ImGui::MenuItem("Unlock")) unlock(id);
  }
  const bool torn = is_torn_off(window.name);
  if (!torn && ImGui::MenuItem("Tear off")) tear_off(id);
  if (torn && ImGui::MenuItem("Dock again")) dock_again(id);
  if (ImGui::MenuItem("Close")) choose(window, false);
  if (source.view != nullptr) ImGui::Separator();
}

Layout PanelHost::layout() const {
  Layout layout;
  layout.perspective = shown_->id;
  layout.docks = docks_of(*shown_, last_room_of_docks(*shown_));
  layout.torn_off = torn_off_of(*shown_, room_of_docks());
  for (const std::string& view : views_in(layout)) {
    for (const Source& source : sources_)
      if (source.id == view && source.lock.words()) layout.locks[view] = *source.lock.words();
    for (const auto& [name, value] : workspace_.cursor.selection().options)
      if (owner_of(name) == view) layout.options[name] = value;
  }
  return layout;
}

// Now what is open, and when the workspace is drawn next where it lies.
void PanelHost::apply(const Layout& layout) {
  const std::vector<std::string> open = views_in(layout);
  for (const std::string& id : open) source_of(id);
  for (Window& window : windows_) {
    if (window.perspective->id != layout.perspective) continue;
    const std::string& id = sources_[window.source].id;
    choose(window, std::find(open.begin(), open.end(), id) != open.end());
  }
  for (const std::string& id : open) {
    const auto lock = layout.locks.find(id);
    set_lock(id, lock != layout.locks.end() ? std::optional(lock->second) : std::nullopt);
  }
  for (Source& source : sources_)
    if (is_free(source.id)) source.lock.set({});
  workspace_.cursor.set_perspective(layout.perspective);
  if (state::TraceTab* tab = workspace_.traces.ready()) {
    auto& options = tab->selection.options;
    std::erase_if(options, [&](const auto& option) {
      return std::find(open.begin(), open.end(), owner_of(option.first)) != open.end();
    });
    options.insert(layout.options.begin(), layout.options.end());
  }
  to_build_ = layout;
}

void PanelHost::build(const Layout& layout) {
  build_docks(layout.docks);
  std::vector<const DockTree*> docks{&layout.docks};
  for (std::size_t i = 0; i < docks.size(); ++i) {
    for (const DockTree& side : docks[i]->sides) docks.push_back(&side);
    if (docks[i]->front.empty()) continue;
    if (Window* front = find(docks[i]->front, *shown_)) front->frames_to_focus = kFramesToFocus;
  }
  for (const TornOff& torn : layout.torn_off) {
    std::vector<std::string> names;
    for (const std::string& view : torn.views) names.push_back(window_of_view(view, *shown_));
    shell::tear_off(names, torn);
  }
}

void PanelHost::choose_layout(const Layout& layout) {
  if (state::find_perspective(layout.perspective) == nullptr || !workspace_.has_trace()) return;
  // How another workspace lies is known only once it is on the screen.
  chosen_frames_ = layout.perspective == shown_->id ? 0 : kFramesToFocus;
  chosen_layout_ = layout;
  workspace_.cursor.set_perspective(layout.perspective);
}

void PanelHost::take_chosen_layout() {
  if (!chosen_layout_ || chosen_frames_-- > 0) return;
  const Layout chosen = *std::exchange(chosen_layout_, {});
  if (chosen.perspective != shown_->id) return;
  const Layout before = layout();
  apply(chosen);
  steps_.push([this, before] { apply(before); }, [this, chosen] { apply(chosen); });
}

void PanelHost::reset_layout() {
  const Layout before = layout();
  const auto reset = [this] {
    for (const Window& window : windows_)
      if (window.perspective == shown_ && is_open(window)) sources_[window.source].lock.set({});
    reset_layout_ = true;
  };
  reset();
  steps_.push([this, before] { apply(before); }, reset);
}

}  // namespace kvloupe::shell
