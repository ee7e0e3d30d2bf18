// Open traces and the linked selection; the analyses are in workspace_results.cpp.
#include "app/state/workspace.h"

#include "app/state/token_text.h"
#include "app/state/workspace_shared.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace kvloupe::state {

Workspace::Workspace(std::uint64_t memory_limit, Opener opener)
    : memory_limit_(memory_limit),
      opener_(std::move(opener)),
      shared_(std::make_shared<Shared>()),
      replays_(jobs_),
      kv_maps_(jobs_),
      verdicts_(jobs_, 64),
      fates_(jobs_),
      geometries_(jobs_, 64),
      overviews_(jobs_, 64),
      rows_(jobs_, 16),
      maps_(jobs_, 8),
      summaries_(jobs_, 256),
      lane_reports_(jobs_, 32),
      rankings_(jobs_, 32),
      page_reports_(jobs_, 64),
      unavailable_(jobs_),
      opened_(jobs_) {}

Workspace::~Workspace() { jobs_.cancel_all(); }

// --- traces
// ------------------------------------------------------------------------------------------

void Workspace::open(const std::string& path, std::optional<GotoTarget> position) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  for (const auto& tab : tabs_)
    if (tab->path == absolute && tab->state != ResultState::Error) {
      active_ = tab->id;
      if (position && tab->state == ResultState::Ready) apply_goto(tab->selection, *tab, *position);
      return;
    }
  std::erase_if(tabs_, [&](const auto& tab) { return tab->path == absolute; });
  // Keep the place when a second trace is opened, where it exists there too.
  std::optional<Selection> like;
  if (const TraceTab* previous = ready()) like = previous->selection;
  const int id = next_id_++;
  tabs_.push_back(std::make_unique<TraceTab>());
  tabs_.back()->id = id;
  tabs_.back()->path = absolute;
  active_ = id;
  jobs_.submit<OpenedTrace>(
      Lane::TraceIo, fmt::format("open {}", id),
      fmt::format("Opening {}", std::filesystem::path(absolute).filename().string()),
      [opener = opener_, absolute, limit = memory_limit_](const WorkContext&) {
        auto opened = std::make_shared<OpenedTrace>();
        opened->source = opener(absolute, limit);
        for (const std::string& token : opened->source->token_texts()) {
          opened->text.push_back(readable_text(token));
          opened->token_label.push_back(readable_token(token));
        }
        return opened;
      },
      [this, id, like, position](std::shared_ptr<const OpenedTrace> opened) {
        if (TraceTab* tab = find(id)) show_opened(*tab, *opened, like, position);
      },
      [this, id](const Error& error) {
        if (TraceTab* tab = find(id)) {
          tab->state = ResultState::Error;
          tab->error = error.what();
        }
      });
}

void Workspace::show_opened(TraceTab& tab, const OpenedTrace& opened,
                            const std::optional<Selection>& like,
                            const std::optional<GotoTarget>& position) {
  tab.source = opened.source;
  tab.text = opened.text;
  tab.token_label = opened.token_label;
  const trace::TraceInfo& info = tab.source->info();
  if (info.chunks.empty() || info.layers.empty()) {
    tab.state = ResultState::Error;
    tab.error =
        fmt::format("{} cannot be shown; it holds no finished chunk; capture it again", tab.path);
    return;
  }
  tab.state = ResultState::Ready;
  tab.selection = initial_selection(tab, like ? &*like : nullptr);
  try {
    if (position) apply_goto(tab.selection, tab, *position);
  } catch (const Error& error) {
    if (on_message) on_message(error.what(), true);
  }
  for (const std::string& warning : info.warnings)
    if (on_message) on_message(warning, false);
  if (on_opened) on_opened(tab);
}

void Workspace::close_active() {
  const auto found =
      std::find_if(tabs_.begin(), tabs_.end(), [&](const auto& tab) { return tab->id == active_; });
  if (found == tabs_.end()) return;
  jobs_.cancel_all();
  const auto next = tabs_.erase(found);
  active_ = tabs_.empty() ? -1 : (next == tabs_.end() ? tabs_.back() : *next)->id;
  stop_latency();
  replays_.clear();
  kv_maps_.clear();
  verdicts_.clear();
  fates_.clear();
  geometries_.clear();
  overviews_.clear();
  rows_.clear();
  maps_.clear();
  summaries_.clear();
  lane_reports_.clear();
  rankings_.clear();
  page_reports_.clear();
  unavailable_.clear();
}

void Workspace::reload_active() {
  const TraceTab* tab = active();
  if (tab == nullptr) return;
  const std::string path = tab->path;
  const Selection place = tab->selection;
  GotoTarget target;
  if (tab->state == ResultState::Ready) {
    target.layer = place.layer;
    target.q_head = place.q_head;
    target.chunk = place.chunk;
  }
  close_active();
  open(path, target);
}

void Workspace::activate(int tab_id) {
  if (find(tab_id) != nullptr) active_ = tab_id;
}

TraceTab* Workspace::find(int tab_id) {
  for (const auto& tab : tabs_)
    if (tab->id == tab_id) return tab.get();
  return nullptr;
}

const TraceTab* Workspace::active() const {
  for (const auto& tab : tabs_)
    if (tab->id == active_) return tab.get();
  return nullptr;
}

const TraceTab* Workspace::ready() const {
  const TraceTab* tab = active();
  return tab != nullptr && tab->state == ResultState::Ready ? tab : nullptr;
}

TraceTab* Workspace::mutable_ready() {
  TraceTab* tab = find(active_);
  return tab != nullptr && tab->state == ResultState::Ready ? tab : nullptr;
}

// --- selection
// ---------------------------------------------------------------------------------------

const Selection& Workspace::selection() const {
  static const Selection none;
  const TraceTab* tab = ready();
  return tab != nullptr ? tab->selection : none;
}

void Workspace::clamp(Selection& selection, const TraceTab& tab) const {
  const trace::TraceInfo& info = tab.source->info();
  selection.chunk = std::clamp(selection.chunk, 0, static_cast<int>(info.chunks.size()) - 1);
  if (!info.has_layer(selection.layer)) {
    const auto nearest =
        std::min_element(info.layers.begin(), info.layers.end(), [&](int a, int b) {
          return std::abs(a - selection.layer) < std::abs(b - selection.layer);
        });
    selection.layer = *nearest;
  }
  selection.q_head = std::clamp(selection.q_head, 0, info.model.num_q_heads - 1);
  if (selection.query >= 0) {
    const trace::ChunkInfo& chunk = info.chunks[static_cast<std::size_t>(selection.chunk)];
    if (selection.query < chunk.begin || selection.query >= chunk.end()) selection.query = -1;
  }
  if (selection.has_keys()) {
    selection.key_begin = std::clamp(selection.key_begin, 0, info.num_tokens - 1);
    selection.key_end = std::clamp(selection.key_end, selection.key_begin + 1, info.num_tokens);
  }
}

Selection Workspace::initial_selection(const TraceTab& tab, const Selection* like) const {
  const trace::TraceInfo& info = tab.source->info();
  Selection selection;
  if (like != nullptr) selection = *like;
  selection.key_begin = selection.key_end = selection.query = -1;
  if (like == nullptr) {
    // The last prefill chunk asks the question: the most telling place to begin.
    for (std::size_t c = 0; c < info.chunks.size(); ++c)
      if (info.chunks[c].phase == trace::Phase::Prefill) selection.chunk = static_cast<int>(c);
    selection.layer = info.layers[info.layers.size() / 2];
  }
  for (const Slot slot : kSlots) {
    const auto index = static_cast<std::size_t>(slot);
    MethodChoice& choice = selection.method[index];
    if (like != nullptr && !choice.empty()) {
      choice = choice_from_spec(choice.spec, tab);
    } else if (index < info.runs.size()) {
      choice = {info.runs[index].method, info.runs[index].id};
    } else if (slot == Slot::A) {
      choice = choice_from_spec(default_spec(info.num_tokens), tab);
    } else {
      choice = choice_from_spec("oracle:" + default_spec(info.num_tokens).substr(6), tab);
    }
  }
  clamp(selection, tab);
  return selection;
}

std::string Workspace::default_spec(std::int32_t num_tokens) {
  return fmt::format("quoka:budget_tokens={}", std::max(16, num_tokens / 8));
}

void Workspace::change(const std::string& kind, const std::function<void(Selection&)>& how) {
  TraceTab* tab = mutable_ready();
  if (tab == nullptr) return;
  Selection next = tab->selection;
  how(next);
  clamp(next, *tab);
  if (next == tab->selection) return;
  tab->history.push(tab->selection, kind);
  tab->selection = next;
}

void Workspace::set_chunk(int chunk) {
  change("chunk", [&](Selection& s) { s.chunk = chunk; });
}
void Workspace::step_chunk(int by) { set_chunk(selection().chunk + by); }

void Workspace::set_layer(int layer) {
  change("layer", [&](Selection& s) { s.layer = layer; });
}

void Workspace::step_layer(int by) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return;
  const auto& layers = tab->source->info().layers;
  const auto at = std::find(layers.begin(), layers.end(), selection().layer) - layers.begin();
  set_layer(layers[static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(at + by, 0, static_cast<std::ptrdiff_t>(layers.size()) - 1))]);
}

void Workspace::set_q_head(int q_head) {
  change("head", [&](Selection& s) { s.q_head = q_head; });
}

void Workspace::set_key_span(std::int32_t begin, std::int32_t end) {
  change("keys", [&](Selection& s) {
    s.key_begin = begin;
    s.key_end = end;
  });
}

void Workspace::apply_goto(Selection& selection, const TraceTab& tab,
                           const GotoTarget& target) const {
  const trace::TraceInfo& info = tab.source->info();
  const auto refuse = [&](const std::string& what, int value, const std::string& has) {
    throw input_error(fmt::format("{} {} cannot be shown", what, value),
                      fmt::format("this trace has {}", has),
                      fmt::format("choose another {}; kvloupe info lists them", what));
  };
  if (target.layer && !info.has_layer(*target.layer))
    refuse("layer", *target.layer,
           fmt::format(
               "the layers {} to {}{}", info.layers.front(), info.layers.back(),
               static_cast<int>(info.layers.size()) == info.layers.back() - info.layers.front() + 1
                   ? ""
                   : " with gaps"));
  if (target.chunk && *target.chunk >= static_cast<int>(info.chunks.size()))
    refuse("chunk", *target.chunk, fmt::format("the chunks 0 to {}", info.chunks.size() - 1));
  if (target.q_head && *target.q_head >= info.model.num_q_heads)
    refuse("query head", *target.q_head,
           fmt::format("the query heads 0 to {}", info.model.num_q_heads - 1));
  if (target.kv_head && *target.kv_head >= info.model.num_kv_heads)
    refuse("KV head", *target.kv_head,
           fmt::format("the KV heads 0 to {}", info.model.num_kv_heads - 1));
  for (const auto& token : {target.query, target.key})
    if (token && *token >= info.num_tokens)
      refuse("token", *token, fmt::format("the tokens 0 to {}", info.num_tokens - 1));

  if (target.layer) selection.layer = *target.layer;
  if (target.kv_head) selection.q_head = *target.kv_head * info.model.gqa_group_size();
  if (target.q_head) selection.q_head = *target.q_head;
  if (target.query) selection.chunk = info.chunk_of_token(*target.query);
  if (target.chunk) selection.chunk = *target.chunk;
  if (target.query) selection.query = *target.query;
  if (target.window) selection.window = *target.window;
  if (target.key) {
    selection.key_begin = *target.key;
    selection.key_end = *target.key + 1;
  }
  clamp(selection, tab);
}

void Workspace::go_to(const GotoTarget& target) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return;
  Selection next = tab->selection;
  apply_goto(next, *tab, target);
  change("", [&](Selection& s) { s = next; });
}

bool Workspace::back() {
  TraceTab* tab = mutable_ready();
  if (tab == nullptr) return false;
  const auto target = tab->history.back(tab->selection);
  if (target) tab->selection = *target;
  return target.has_value();
}

bool Workspace::forward() {
  TraceTab* tab = mutable_ready();
  if (tab == nullptr) return false;
  const auto target = tab->history.forward(tab->selection);
  if (target) tab->selection = *target;
  return target.has_value();
}

bool Workspace::can_go_back() const { return ready() != nullptr && ready()->history.can_go_back(); }
bool Workspace::can_go_forward() const {
  return ready() != nullptr && ready()->history.can_go_forward();
}

MethodChoice Workspace::choice_from_spec(const std::string& spec, const TraceTab& tab) const {
  const std::string canonical =
      selection::MethodSpec::parse(spec).resolved(tab.source->shape()).canonical();
  for (const trace::RunInfo& run : tab.source->info().runs)
    if (run.method == canonical) return {canonical, run.id};
  return {canonical, -1};
}

void Workspace::set_method(Slot slot, const std::string& spec) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return;
  const MethodChoice choice = choice_from_spec(spec, *tab);
  change(fmt::format("method {}", static_cast<int>(slot)),
         [&](Selection& s) { s.method[static_cast<std::size_t>(slot)] = choice; });
}

void Workspace::set_run(Slot slot, int run) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return;
  for (const trace::RunInfo& info : tab->source->info().runs)
    if (info.id == run)
      change(fmt::format("method {}", static_cast<int>(slot)), [&](Selection& s) {
        s.method[static_cast<std::size_t>(slot)] = {info.method, info.id};
      });
}

void Workspace::swap_methods() {
  change("swap", [](Selection& s) { std::swap(s.method[0], s.method[1]); });
}

// --- derived
// -----------------------------------------------------------------------------------------

const trace::TraceInfo& Workspace::info() const {
  const TraceTab* tab = ready();
  KVLOUPE_CHECK(tab != nullptr);
  return tab->source->info();
}

const trace::ChunkInfo& Workspace::chunk() const {
  return info().chunks[static_cast<std::size_t>(selection().chunk)];
}

int Workspace::kv_head() const { return selection().q_head / info().model.gqa_group_size(); }

int Workspace::row_of(const replay::ReplayResult& replay) const {
  return selection().q_head / std::max(1, replay.q_heads_per_row);
}

std::string Workspace::trace_name() const {
  const TraceTab* tab = active();
  return tab != nullptr ? std::filesystem::path(tab->path).filename().string() : std::string();
}

std::optional<trace::TokenSpan> Workspace::watched_span() const {
  const TraceTab* tab = ready();
  if (tab == nullptr) return std::nullopt;
  const Selection& s = tab->selection;
  if (s.has_keys()) {
    const std::string name = s.key_end == s.key_begin + 1
                                 ? fmt::format("key {}", s.key_begin)
                                 : fmt::format("keys {} to {}", s.key_begin, s.key_end - 1);
    return trace::TokenSpan{name, s.key_begin, s.key_end};
  }
  // "needle" itself before its parts ("needle_key" and the like).
  const trace::TokenSpan* found = nullptr;
  for (const trace::TokenSpan& span : tab->source->info().spans)
    if (span.name.rfind("needle", 0) == 0 &&
        (found == nullptr || span.end - span.begin > found->end - found->begin))
      found = &span;
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

int Workspace::publish() { return jobs_.publish(); }

}  // namespace kvloupe::state
