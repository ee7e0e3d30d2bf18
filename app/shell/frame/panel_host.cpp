#include "app/shell/frame/panel_host.h"

#include "app/shell/frame/dock_layout.h"
#include "app/shell/frame/dock_tree.h"
#include "app/shell/frame/frame_guard.h"
#include "app/state/method_views.h"
#include "app/widgets/figure.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>

namespace kvloupe::shell {

using state::Perspective;
using state::PlacedView;
using state::Spot;

namespace {

// Over the tab or the title of a view.
void about_ui(const state::ViewInfo& view) {
  std::string text = view.summary;
  if (!view.metrics.empty())
    text += fmt::format("\nits numbers: {}, \u201C{}\u201D", state::kMetricsFile, view.metrics);
  widgets::tooltip("%s", text.c_str());
}

// A window in focus is the tab in front; its tab may still be out of sight, where there are many.
void scroll_to_tab(const ImGuiWindow& window) {
  ImGuiTabBar* tabs = window.DockNode != nullptr ? window.DockNode->TabBar : nullptr;
  if (tabs == nullptr) return;
  if (ImGuiTabItem* tab = ImGui::TabBarFindTabByID(tabs, window.TabId))
    ImGui::TabBarQueueFocus(tabs, tab);
}

// What a low window has no room for below another view stands behind its tab.
Spot spot_of(const PlacedView& placed, const Perspective& perspective, WindowForm form) {
  const bool beside = placed.spot == Spot::Beside || placed.spot == Spot::BesideBelow;
  const Spot spot = beside && form.narrow ? placed.narrow : placed.spot;
  if (!form.low) return spot;
  if (perspective.wide || spot == Spot::Below) return Spot::Large;
  return spot == Spot::BesideBelow ? Spot::Beside : spot;
}

}  // namespace

PanelHost::PanelHost(state::Workspace& workspace, Messages& messages, WindowSteps& steps)
    : workspace_(workspace),
      messages_(messages),
      steps_(steps),
      shown_(&state::perspectives().front()) {
  for (const state::ViewInfo& view : state::views()) add_source(view.id, view.title, &view, {});
}

void PanelHost::add_window(const std::string& name, std::function<void()> draw) {
  add_source(name, name, nullptr, std::move(draw));
}

PanelHost::Source& PanelHost::add_source(const std::string& id, const std::string& title,
                                         const state::ViewInfo* view, std::function<void()> draw) {
  Source source{id, title, view, nullptr, std::move(draw), ViewLock(id, view)};
  if (view != nullptr) source.panel = panels::make_panel(view->id);
  for (const Perspective& perspective : state::perspectives()) {
    Window window;
    window.source = sources_.size();
    window.perspective = &perspective;
    window.key = fmt::format("{}@{}", source.id, perspective.id);
    window.name = window_name(source.title, source.id, perspective);
    windows_.push_back(std::move(window));
  }
  sources_.push_back(std::move(source));
  return sources_.back();
}

void PanelHost::draw(const figure::GuiContext& gui) {
  follow_selection();
  start_search();
  const bool anything = !workspace_.traces.tabs().empty() || workspace_.results.is_open();
  if (fills() && anything) return filled_ui(gui);
  layout_ui();
  for (Window& window : windows_) window.visible = false;
  if (!anything) return;
  front_own_views();
  std::vector<Window*> closed;
  for (Window* window : windows_of(*shown_)) {
    if (!is_open(*window)) continue;
    window_ui(*window, gui);
    if (!is_open(*window)) closed.push_back(window);
  }
  if (!closed.empty()) note_closed(closed);
}

// Those of the table first, in its order: new tabs stand in the order in which they are drawn.
std::vector<PanelHost::Window*> PanelHost::windows_of(const Perspective& perspective) {
  std::vector<Window*> windows;
  for (const PlacedView& placed : perspective.views)
    if (Window* window = find(placed.id, perspective)) windows.push_back(window);
  for (Window& window : windows_)
    if (window.perspective == &perspective &&
        perspective.find(sources_[window.source].id) == nullptr)
      windows.push_back(&window);
  return windows;
}

// The workspace belongs to what the trace's tab shows. Without a trace the last one stays, or that of results.
void PanelHost::follow_selection() {
  if (workspace_.has_trace() && !waiting_.empty()) show(std::exchange(waiting_, ""));
  shown_ = &now();
}

const Perspective& PanelHost::now() const {
  const bool results = workspace_.results.is_open();
  if (!workspace_.has_trace() && results) return state::results_perspective();
  const Perspective& chosen = workspace_.has_trace()
                                  ? state::perspective_or_first(workspace_.selection().perspective)
                                  : *shown_;
  return chosen.of_results && !results ? state::perspectives().front() : chosen;
}

void PanelHost::layout_ui() {
  const bool first = std::find(laid_out_.begin(), laid_out_.end(), shown_) == laid_out_.end();
  const bool unknown = first && needs_layout(*shown_);
  if (reset_layout_)
    for (Window& window : windows_)
      if (window.perspective == shown_) window.chosen.reset();
  if (reset_layout_ || unknown)
    build_layout(TornOffViews::DockAgain);
  else if (!docks_again_.empty())
    build_layout(TornOffViews::Stay);
  else
    follow_room(!first);
  reset_layout_ = false;
  docks_again_.clear();
  take_chosen_layout();
  if (to_build_ && to_build_->perspective == shown_->id) build(*std::exchange(to_build_, {}));
  dock_beside_ui();
  order_tabs();
  submit_dock_spaces(shown_);  // also while nothing is open
  if (!first) return;
  laid_out_.push_back(shown_);
  // In a layout that was kept the tab in front is the one that was left there.
  if (!unknown) own_views_ = state::own_views(workspace_);
}

std::vector<DockedView> PanelHost::views_of_first_layout(WindowForm form, bool only_open) {
  std::vector<DockedView> views;
  for (const PlacedView& placed : shown_->views)
    if (const Window* window = find(placed.id, *shown_);
        !only_open || (is_open(*window) && !is_torn_off(window->name)))
      views.push_back({placed.id, spot_of(placed, *shown_, form)});
  return views;
}

// A window of another form is laid out anew, unless somebody arranged it.
void PanelHost::follow_room(bool has_windows) {
  // The bars come and go with what is shown, a frame later than it: for that alone nothing moves.
  const Perspective* shown =
      workspace_.has_trace() || workspace_.results.is_open() ? shown_ : nullptr;
  const bool settled = shown != nullptr && shown == shown_before_ && has_windows;
  shown_before_ = shown;
  const Room now = room_of_docks();
  Room& before = rooms_.try_emplace(shown_, last_room_of_docks(*shown_)).first->second;
  if (!settled) return;
  if (!is_other_room(before, now)) {
    std::vector<TornOff> torn_off = torn_off_of(*shown_, now);
    // Whole pixels are no other share: it would drift while the window is dragged smaller.
    if (std::vector<TornOff>& known = torn_off_[shown_]; !float_alike(known, torn_off))
      known = std::move(torn_off);
    return;
  }
  fit_torn_off(*shown_, torn_off_.try_emplace(shown_, torn_off_of(*shown_, before)).first->second);
  const DockTree first = first_docks(*shown_, views_of_first_layout(window_form(), true));
  const DockTree docks = docks_of(*shown_, before);
  if (!lie_alike(docks, first) && is_first_layout(docks)) return build_layout(TornOffViews::Stay);
  fit_docks(*shown_, before, now);
  before = now;
}

// Nobody arranged it: it lies as a window of some form has it at first.
bool PanelHost::is_first_layout(const DockTree& docks) {
  for (const bool narrow : {false, true})
    for (const bool low : {false, true})
      if (lie_alike(docks, first_docks(*shown_, views_of_first_layout({narrow, low}, true))))
        return true;
  return false;
}

void PanelHost::build_docks(const DockTree& docks) {
  shell::build_docks(*shown_, docks);
  rooms_[shown_] = room_of_docks();
  for (Window& window : windows_)
    if (window.perspective == shown_) window.last_dock = 0;
}

void PanelHost::build_layout(TornOffViews torn_off) {
  std::vector<DockedView> views = views_of_first_layout(window_form(), false);
  if (torn_off == TornOffViews::Stay)
    std::erase_if(views, [&](const DockedView& view) {
      return view.id != docks_again_ && is_torn_off(find(view.id, *shown_)->name);
    });
  for (const Spot spot : {Spot::Below, Spot::BesideBelow, Spot::Beside, Spot::Large}) {
    Window* front = nullptr;  // the first, or the one that was asked for
    for (const DockedView& view : views) {
      Window* window = view.spot == spot ? find(view.id, *shown_) : nullptr;
      if (window == nullptr || !is_open(*window)) continue;
      if (front == nullptr || window->frames_to_focus > 0) front = window;
    }
    if (front != nullptr) front->frames_to_focus = kFramesToFocus;
  }
  build_docks(first_docks(*shown_, views));
}

// Of another method its own views are the first tabs, and the first of them is in front.
void PanelHost::front_own_views() {
  std::vector<std::string> own = state::own_views(workspace_);
  if (own.empty() || shown_->find(own.front()) == nullptr || own == own_views_) return;
  own_views_ = std::move(own);
  frames_to_order_ = kFramesToFocus;
  // What the user asked for comes first.
  for (const Window* window : windows_of(*shown_))
    if (window->frames_to_focus > 0) return;
  if (Window* window = find(own_views_.front(), *shown_); is_open(*window))
    window->frames_to_focus = kFramesToFocus;
}

void PanelHost::order_tabs() {
  if (frames_to_order_ == 0 || --frames_to_order_ > 0) return;
  for (auto own = own_views_.rbegin(); own != own_views_.rend(); ++own)
    if (const Window* window = find(*own, *shown_)) make_first_tab(window->name);
}

bool PanelHost::is_open(const Window& window) const {
  if (window.chosen) return *window.chosen;
  const std::string& id = sources_[window.source].id;
  const PlacedView* placed = window.perspective->find(id);
  return placed != nullptr && placed->open && state::concerns(id, workspace_);
}

bool PanelHost::draw_guarded(Window& window, const std::function<void()>& draw) {
  const state::Selection& s = workspace_.selection();
  const std::string key =
      s.place.empty() ? "" : s.place.cell_key() + workspace_.method(s.shown).key();
  if (!window.problem.empty() && window.problem_key == key) return false;
  window.problem = guarded(draw);
  window.problem_key = key;
  if (window.problem.empty()) return true;
  messages_.say_once(fmt::format("{}: {}", sources_[window.source].title, window.problem), true);
  return false;
}

void PanelHost::window_ui(Window& window, const figure::GuiContext& gui) {
  Source& source = sources_[window.source];
  const bool focus = window.frames_to_focus > 0 && --window.frames_to_focus == 0;
  if (focus) bring_to_front(window.name);
  ImGui::SetNextWindowSize({widgets::em(40), widgets::em(26)}, ImGuiCond_FirstUseEver);
  dock_if_homeless(*window.perspective, window.name);
  keep_inside(window.name);
  // Docked, it lies on the cleared frame, which has its colour already.
  ImGui::PushStyleColor(ImGuiCol_WindowBg,
                        widgets::with_alpha(gui.palette().panel, window.docked ? 0 : 1));
  bool open = true;
  // All windows of a workspace appear at once when it is shown: the tabs in front stay there.
  window.visible = ImGui::Begin(window.name.c_str(), &open,
                                ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::PopStyleColor();
  window.docked = ImGui::IsWindowDocked() && !is_torn_off(window.name);
  if (window.docked) window.last_dock = dock_of(window.name);
  if (focus) scroll_to_tab(*ImGui::GetCurrentWindow());
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) {
    if (source.view != nullptr) about_ui(*source.view);
    if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) fill(source.id);
  }
  state::Sight* sight = source.lock.look_up(workspace_.traces);
  if (ImGui::BeginPopupContextItem()) {
    menu_ui(window);
    if (context_menu) as_seen(source.id, context_menu);
    ImGui::EndPopup();
  }
  if (window.visible) contents_ui(window, sight, gui);
  ImGui::End();
  if (!open) choose(window, false);
}

void PanelHost::as_seen(const std::string& id,
                        const std::function<void(const state::ViewInfo&)>& act) {
  Source* source = source_of(id);
  if (source == nullptr || source->view == nullptr) return;
  std::optional<state::Cursor::Through> through;
  if (state::Sight* sight = source->lock.look_up(workspace_.traces))
    through.emplace(workspace_.cursor, *sight);
  act(*source->view);
}

void PanelHost::contents_ui(Window& window, state::Sight* sight, const figure::GuiContext& gui) {
  Source& source = sources_[window.source];
  if (source.lock.line_ui(workspace_, gui.palette())) return unlock(source.id);
  if (source.lock.in_the_way()) {
    const std::string trace = source.lock.words()->trace;
    const ViewLock::Wish wish = source.lock.obstacle_ui(gui.palette());
    if (wish == ViewLock::Wish::Unlock) unlock(source.id);
    if (wish == ViewLock::Wish::OpenTrace) workspace_.traces.open(trace);
    return;
  }
  {
    std::optional<state::Cursor::Through> through;
    if (sight != nullptr) through.emplace(workspace_.cursor, *sight);
    panels::DrawContext context{workspace_, gui.palette()};
    const int asked = widgets::tooltips_asked();
    const auto draw = [&] { source.view != nullptr ? source.panel->draw(context) : source.draw(); };
    if (!draw_guarded(window, draw) && widgets::failed_ui(gui.palette(), window.problem))
      window.problem.clear();
    point_in(source.id, widgets::tooltips_asked() != asked);
  }
  if (source.lock.was_changed()) change_lock(source.id, source.lock.changed());
}

// What the mouse points at in the window just drawn: what its view says; else what its tooltip says; else
// the view alone.
void PanelHost::point_in(const std::string& source, bool explained) {
  state::Pointer& pointer = workspace_.pointer;
  if (!pointer.now()) {
    if (!ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) return;
    pointer.at(state::Pointed());
  }
  state::Pointed& pointed = *pointer.now();
  if (!pointed.view.empty()) return;  // of another window
  pointed.view = source;
  const state::ViewInfo* view = source_of(source)->view;
  if (view != nullptr && !view->shows_results && workspace_.has_trace())
    pointed.shown = workspace_.place();
  if (explained && pointed.words.empty()) pointed.words = widgets::tooltip_words();
}

PanelHost::Window* PanelHost::find(const std::string& id, const Perspective& perspective) {
  for (Window& window : windows_)
    if (window.perspective == &perspective && sources_[window.source].id == id) return &window;
  return nullptr;
}

const PanelHost::Window* PanelHost::find(const std::string& id,
                                         const Perspective& perspective) const {
  return const_cast<PanelHost*>(this)->find(id, perspective);
}

void PanelHost::show(const std::string& id) {
  if (!workspace_.has_trace() && !(now().of_results && now().find(id) != nullptr)) {
    waiting_ = id;
    return;
  }
  const Window* here = find(id, now());
  const bool lies_here = here != nullptr && (now().find(id) != nullptr || is_open(*here));
  const Perspective& home = lies_here ? now() : state::home_of(id);
  if (!lies_here) workspace_.cursor.set_perspective(home.id);
  if (Window* window = find(id, home)) bring_up(*window);
}

void PanelHost::open_here(const std::string& id, const std::string& beside) {
  Window* window = find(id, now());
  if (window == nullptr) return;
  const bool opens = !is_open(*window);
  const Window* other = find(beside, now());
  if (other != nullptr && opens) {
    opened_beside_ = window->name;
    beside_ = other->name;
  }
  bring_up(*window);
  if (opens) push_opened({window->key});
}

void PanelHost::search(const std::string& id) {
  show(id);
  to_search_ = id;
}

// Each tab that comes to the front takes the keyboard, so the search comes after all of them.
void PanelHost::start_search() {
  if (to_search_.empty()) return;
  if (!fills())
    for (const Window* window : windows_of(*shown_))
      if (is_open(*window) && window->frames_to_focus > 0) return;
  const Source* source = source_of(std::exchange(to_search_, {}));
  if (source != nullptr && source->panel) source->panel->start_search();
}

// What is as at first is no choice.
void PanelHost::choose(Window& window, bool open) {
  window.chosen.reset();
  if (is_open(window) != open) window.chosen = open;
}

void PanelHost::bring_up(Window& window) {
  choose(window, true);
  window.frames_to_focus = kFramesToFocus;
  if (fills()) fill(sources_[window.source].id);
}

bool PanelHost::is_open(const std::string& id) const {
  const Window* window = find(id, now());
  return window != nullptr && is_open(*window);
}

bool PanelHost::visible(const std::string& id) const {
  const Window* window = find(id, *shown_);
  return window != nullptr && window->visible;
}

std::string PanelHost::window_of(const std::string& id) const { return window_of_view(id, now()); }

std::vector<std::string> PanelHost::chosen(bool open) const {
  std::vector<std::string> keys;
  for (const Window& window : windows_)
    if (window.chosen == open) keys.push_back(window.key);
  return keys;
}

void PanelHost::set_open(const std::vector<std::string>& ids, bool is_open) {
  for (const std::string& one : ids) source_of(one.substr(0, one.find('@')));
  for (Window& window : windows_) {
    const std::string& id = sources_[window.source].id;
    const bool listed = window.perspective->find(id) != nullptr;
    const bool anywhere = is_open ? window.perspective == &state::home_of(id) : listed;
    for (const std::string& one : ids)
      if (one == window.key || (one == id && anywhere)) window.chosen = is_open;
  }
}

void PanelHost::forget() {
  for (Source& source : sources_) {
    if (source.view != nullptr) source.panel = panels::make_panel(source.view->id);
    source.lock.let_go();
  }
}

}  // namespace kvloupe::shell
