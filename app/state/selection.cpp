// See selection.h.
#include "app/state/selection.h"

#include "app/state/number_chunks.h"
#include "app/state/perspectives.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/selection/spec/default_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace kvloupe::state {
namespace {

// A run that the other slot does not show; where there is none, what may be selected anew.
MethodChoice first_choice(Slot slot, const MethodChoice& other, const OpenTrace& trace) {
  // Another SPEC before the same one run otherwise.
  for (const bool other_spec : {true, false})
    for (const trace::RunInfo& run : trace.info().runs)
      if (run.id != other.run && (!other_spec || run.method != other.text))
        return choice_of_run(run, trace);
  return choice_of_spec(slot == Slot::A
                            ? default_spec(trace.info().num_tokens)
                            : fmt::format("oracle:budget_tokens={}",
                                          selection::default_budget(trace.info().num_tokens)),
                        trace);
}

[[noreturn]] void refuse(const std::string& what, int value, const std::string& has) {
  throw input_error(fmt::format("{} {} cannot be shown", what, value),
                    fmt::format("this trace has {}", has),
                    fmt::format("choose another {}; kvloupe info lists them", what));
}

// "the layers 0, 4 to 6"; of many ranges the first ones.
std::string words_of_layers(const std::vector<int>& layers) {
  constexpr int kMostRanges = 8;
  std::string words;
  int ranges = 0;
  for (std::size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    if (++ranges > kMostRanges) return fmt::format("the layers {} and others", words);
    do ++end;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1);
    words += fmt::format("{}{}", words.empty() ? "" : ", ", layers[begin]);
    if (end - begin > 1) words += fmt::format(" to {}", layers[end - 1]);
  }
  return fmt::format("the layer{} {}", layers.size() == 1 ? "" : "s", words);
}

void check(const GotoTarget& target, const trace::TraceInfo& info) {
  if (target.layer && !info.has_layer(*target.layer))
    refuse("layer", *target.layer, words_of_layers(info.layers));
  const auto below = [](const char* what, const char* plural, const std::optional<int>& value,
                        std::int64_t count) {
    if (value && *value >= count)
      refuse(what, *value, fmt::format("the {} 0 to {}", plural, count - 1));
  };
  below("chunk", "chunks", target.chunk, static_cast<std::int64_t>(info.chunks.size()));
  below("query head", "query heads", target.q_head, info.model.num_q_heads);
  below("KV head", "KV heads", target.kv_head, info.model.num_kv_heads);
  below("token", "tokens", target.query, info.num_tokens);
  for (const auto* tokens : {&target.queries, &target.keys}) {
    if (!*tokens) continue;
    below("token", "tokens", (*tokens)->first(), info.num_tokens);
    below("token", "tokens", (*tokens)->bound() - 1, info.num_tokens);
  }
}

const trace::TokenSpan& named_span(const std::string& name, const trace::TraceInfo& info) {
  std::string names;
  for (const trace::TokenSpan& span : info.spans) {
    if (span.name == name && span.begin < span.end) return span;
    names += (names.empty() ? "" : ", ") + printable(span.name);
  }
  throw input_error(fmt::format("the span {} is not in the trace", printable(name)),
                    names.empty() ? "it has none" : "it has " + names,
                    "name one of these, or positions such as span=1536-1551");
}

}  // namespace

GotoTarget target_of(const Place& place) {
  GotoTarget target;
  target.layer = place.layer;
  target.q_head = place.q_head;
  target.chunk = place.chunk;
  if (place.query >= 0) target.query = place.query;
  if (!place.queries.empty()) target.queries = place.queries;
  if (place.window > 0) target.window = place.window;
  if (place.watches_nothing) target.span = kNoSpan;
  if (place.has_keys()) target.keys = place.keys;
  return target;
}

std::string goto_text(const Place& place) { return goto_text(target_of(place)); }

void apply_goto(Place& place, const GotoTarget& target) {
  const trace::TraceInfo& info = place.info();
  check(target, info);
  if (target.layer) place.layer = *target.layer;
  if (target.kv_head) place.q_head = *target.kv_head * info.model.gqa_group_size();
  if (target.q_head) place.q_head = *target.q_head;
  if (target.query && target.queries && !target.queries->contains(*target.query))
    throw input_error(fmt::format("query {} cannot be the one of several", *target.query),
                      "it is not among the queries " + target.queries->text(),
                      "name one of these, or leave query out");
  // Of several queries the first of the chunk is the one, unless it is named.
  std::optional<int> query = target.query;
  if (!query && target.queries) query = target.queries->first();
  if (query) place.chunk = info.chunk_of_token(*query);
  if (target.chunk) place.chunk = *target.chunk;
  if (query) place.query = *query;
  if (target.queries) place.queries = *target.queries;
  if (target.window) place.window = *target.window;
  if (target.keys) {
    place.keys = *target.keys;
    place.watches_nothing = false;
  }
  if (target.span && *target.span == kNoSpan) {
    place.keys = {};
    place.watches_nothing = true;
  } else if (target.span) {
    place.watches_nothing = false;
    const trace::TokenSpan& span = named_span(*target.span, info);
    place.keys = {span.begin, span.end};
  }
  clamp(place);
}

void clamp(Place& place) {
  const trace::TraceInfo& info = place.info();
  place.chunk = std::clamp(place.chunk, 0, static_cast<int>(info.chunks.size()) - 1);
  if (!info.has_layer(place.layer))
    place.layer = *std::min_element(info.layers.begin(), info.layers.end(), [&](int a, int b) {
      return std::abs(a - place.layer) < std::abs(b - place.layer);
    });
  place.q_head = std::clamp(place.q_head, 0, info.model.num_q_heads - 1);
  const trace::ChunkInfo& chunk = place.chunk_info();
  // Queries picked together stay until another one is chosen; in another chunk the first of them there is the one.
  place.queries = trace::KeySet::of(place.queries.ranges_in(0, info.num_tokens));
  if (place.query < chunk.begin || place.query >= chunk.end()) {
    const auto here = place.queries.positions_in(chunk.begin, chunk.end());
    place.query = here.empty() ? -1 : here.front();
  }
  if (place.queries.size() < 2 || (place.query >= 0 && !place.queries.contains(place.query)))
    place.queries = {};
  if (place.has_keys()) {
    // What lies behind the text's end becomes its last token.
    if (place.keys.first() >= info.num_tokens)
      place.keys = {info.num_tokens - 1, info.num_tokens};
    else if (place.keys.bound() > info.num_tokens)
      place.keys = trace::KeySet::of(place.keys.ranges_in(0, info.num_tokens));
    place.watches_nothing = false;
  }
}

// Methods as this reading of the trace has them, in place of those that it lacks others, and a place that it has.
void fit(Selection& selection, const OpenTrace& trace) {
  for (const Slot slot : kSlots) selection.choice(slot) = choice_in(selection.choice(slot), trace);
  for (const Slot slot : kSlots)
    if (selection.choice(slot).empty())
      selection.choice(slot) = first_choice(slot, selection.choice(other_than(slot)), trace);
  try {
    check_scope(selection.numbers, trace.info());
  } catch (const Error&) {
    selection.numbers = {};
  }
  for (MethodChoice& choice : selection.more) choice = choice_in(choice, trace);
  std::erase_if(selection.more, [](const MethodChoice& choice) { return choice.empty(); });
  clamp(selection.place);
}

Selection initial_selection(const TracePtr& trace, const Selection* like) {
  const trace::TraceInfo& info = trace->info();
  Selection selection;
  if (like != nullptr) selection = *like;
  Place& place = selection.place;
  const bool same_file = like != nullptr && like->place.trace->path == trace->path;
  place.trace = trace;
  if (!same_file) {
    place.keys = {};
    place.query = -1;
    place.queries = {};
    place.watches_nothing = false;
    // Who opens a trace wants to see it.
    if (selection.perspective == results_perspective().id)
      selection.perspective = perspectives().front().id;
  }
  if (like == nullptr) {
    // The last prefill chunk asks the question: the most telling place to begin.
    const std::vector<int> chunks = info.chunks_with_queries();
    if (!chunks.empty()) place.chunk = chunks.back();
    for (const int c : chunks)
      if (info.chunks[static_cast<std::size_t>(c)].phase == trace::Phase::Prefill) place.chunk = c;
    place.layer = info.layers[info.layers.size() / 2];
  }
  // A trace opens with its own runs: what was tried on another one is none of them.
  if (!same_file && !info.runs.empty())
    for (const Slot slot : kSlots)
      if (!choice_in(selection.choice(slot), *trace).recorded()) selection.choice(slot) = {};
  fit(selection, *trace);
  return selection;
}

void SelectionHistory::push(const Selection& before, const std::string& kind) {
  future_.clear();
  if (!past_.empty() && kind == last_kind_ && !kind.empty()) return;
  last_kind_ = kind;
  past_.push_back(before);
  if (past_.size() > kDepth) past_.erase(past_.begin());
}

void SelectionHistory::move_to(const TracePtr& trace) {
  const auto moved = [&](Selection& step) {
    step.place.trace = trace;
    try {
      fit(step, *trace);
      return true;
    } catch (const Error&) {  // a method that another model under the same name cannot have
      return false;
    }
  };
  for (std::vector<Selection>* steps : {&past_, &future_})
    std::erase_if(*steps, [&](Selection& step) { return !moved(step); });
}

bool SelectionHistory::step(std::vector<Selection>& from, std::vector<Selection>& to,
                            Selection& now) {
  if (from.empty()) return false;
  to.push_back(std::move(now));
  now = std::move(from.back());
  from.pop_back();
  last_kind_.clear();
  return true;
}

}  // namespace kvloupe::state
