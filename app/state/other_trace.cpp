#include "app/state/other_trace.h"

#include "app/state/shown_methods.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <filesystem>

namespace kvloupe::state {
namespace {

struct Found {
  const TraceTab* tab = nullptr;
  std::string why;  // of none
  bool coming = false;
};

Found find_other(const Workspace& workspace) {
  const std::vector<const TraceTab*> tabs = other_tabs(workspace);
  const std::string& path = workspace.selection().other_trace;
  const TraceTab* here = workspace.traces.active();
  if (path.empty() || (here != nullptr && path == here->path)) {
    for (const TraceTab* tab : tabs)
      if (tab->state == ResultState::Ready) return {tab, {}, false};
    if (!tabs.empty()) return {nullptr, fmt::format("Opening {}", tabs.front()->name), true};
    return {nullptr, "Open a second trace to see it here: File, Open, or drop it on the window.",
            false};
  }
  for (const TraceTab* tab : tabs) {
    if (tab->path != path) continue;
    if (tab->state == ResultState::Ready) return {tab, {}, false};
    return {nullptr, fmt::format("Opening {}", tab->name), true};
  }
  return {nullptr,
          fmt::format("{} is not open: open it, or choose another trace.",
                      printable(std::filesystem::path(path).filename().string())),
          false};
}

std::string shape_of(const trace::ModelInfo& model) {
  return fmt::format("{} layers, {} query heads and {} KV heads", model.num_layers,
                     model.num_q_heads, model.num_kv_heads);
}

std::string why_no_such_head(const OpenTrace& other, const Place& place) {
  const std::string here = shape_of(place.info().model), there = shape_of(other.info().model);
  if (here != there)
    return fmt::format("{} has {}, this trace {}: choose another trace of the same model.",
                       other.name, there, here);
  if (!other.info().has_layer(place.layer))
    return fmt::format("{} does not hold layer {}: go to a layer that both hold.", other.name,
                       place.layer);
  return "";
}

int chunk_size(const trace::TraceInfo& info) { return info.chunks.front().length; }

std::string note_of(const OpenTrace& other, const Place& place, const AlignedTraces& aligned) {
  std::string note;
  const auto add = [&](const std::string& sentence) {
    note += (note.empty() ? "" : " ") + sentence;
  };
  const trace::TraceInfo &here = place.info(), &there = other.info();
  if (!trace::same_model(here.model, there.model))
    add(here.model.name == there.model.name
            ? "The models are of different files."
            : fmt::format("{} is of another model, {}.", other.name, printable(there.model.name)));
  if (here.model.kv_heads != there.model.kv_heads)
    add("The recordings have other KV heads of the model: equal numbers are not the same head.");
  if (!aligned.same_prompt())
    add(fmt::format(
        "The prompts share {} tokens, of {} here and {} there, and are matched by them.",
        format_count(aligned.keys().count), format_count(here.num_tokens),
        format_count(there.num_tokens)));
  if (chunk_size(here) != chunk_size(there))
    add(fmt::format("Chunks are of {} tokens here and of {} there: their rows are other queries.",
                    chunk_size(here), chunk_size(there)));
  return note;
}

// The partners of the place's query and keys, or none.
void move_tokens(const Place& from, const AlignedTraces& aligned, Place& to) {
  const replay::KeyPairs& pairs = aligned.keys();
  const auto partners_of = [&](const trace::KeySet& tokens) {
    std::vector<std::int32_t> partners;
    for (const std::int32_t token : tokens.positions_in(0, tokens.bound()))
      if (const std::int32_t partner = pairs.in_b(token); partner >= 0) partners.push_back(partner);
    return trace::KeySet::of(partners);
  };
  if (from.query >= 0) to.query = pairs.in_b(from.query);
  to.queries = partners_of(from.queries);
  if (!from.has_keys()) return;
  to.keys = partners_of(from.keys);
  to.watches_nothing = to.keys.empty();
}

// Chunks named by their numbers are those that hold the same tokens.
NumberScope moved_scope(NumberScope scope, const AlignedTraces& aligned, const OpenTrace& other) {
  if (scope.kind == NumberScope::Kind::Range) {
    scope.first = aligned.chunk_in_b(scope.first);
    scope.last = aligned.chunk_in_b(scope.last);
    if (scope.first < 0 || scope.last < scope.first) scope = {};
  }
  if (scope.kind == NumberScope::Kind::Question && replay::question_of(other.info()) == nullptr)
    scope = {};
  return scope;
}

}  // namespace

std::vector<const TraceTab*> other_tabs(const Workspace& workspace) {
  std::vector<const TraceTab*> tabs;
  for (const auto& tab : workspace.traces.tabs())
    if (tab.get() != workspace.traces.active() && tab->state != ResultState::Error)
      tabs.push_back(tab.get());
  return tabs;
}

TracePtr other_trace(const Workspace& workspace) {
  std::string ignored;
  return other_trace(workspace, ignored);
}

TracePtr other_trace(const Workspace& workspace, std::string& why) {
  const Found found = find_other(workspace);
  why = found.why;
  return found.tab != nullptr ? found.tab->selection.place.trace : nullptr;
}

MethodChoice choice_in(const MethodChoice& choice, const OpenTrace& other, std::string& why) {
  try {
    MethodChoice there = choice_in(choice, other);
    if (there.empty())
      why = fmt::format(
          "{} has no run of {}, which this version cannot select anew: choose another method.",
          other.name, choice.id());
    return there;
  } catch (const Error& error) {
    why = error.what();
    return {};
  }
}

std::string why_not_beside(const OpenTrace& other, const Place& place) {
  if (!trace::same_model(other.info().model, place.info().model)) return "it is of another model";
  return other.info().has_layer(place.layer)
             ? ""
             : fmt::format("it does not hold layer {}", place.layer);
}

bool draws_other_trace(const std::string& option, const std::string& choice) {
  return option == kShow ? choice == name_of(Show::Traces) : option == "beside" && choice != "none";
}

std::optional<std::pair<std::string, std::string>> way_to_other_trace(const ViewInfo& view) {
  for (const ViewOption& option : view.options)
    for (const std::string& choice : option.choices)
      if (draws_other_trace(option.name, choice)) return std::pair{option.name, choice};
  return std::nullopt;
}

OtherPlace other_place(Workspace& workspace, const MethodChoice& method, Alike alike) {
  OtherPlace other;
  const Found found = find_other(workspace);
  other.why = found.why;
  other.coming = found.coming;
  if (found.tab == nullptr) return other;
  const Place& here = workspace.place();
  const TracePtr& trace = found.tab->selection.place.trace;
  if (alike == Alike::Heads) other.why = why_no_such_head(*trace, here);
  if (!other.why.empty()) return other;
  if (!method.empty()) other.method = choice_in(method, *trace, other.why);
  if (!other.why.empty()) return other;
  const auto aligned = workspace.ask(AlignedTracesQuestion{here.trace, trace});
  other.coming = aligned.state == ResultState::Loading;
  if (!aligned) {
    other.why = other.coming ? "Matching the tokens of the two traces" : problem_of(aligned);
    return other;
  }
  const int chunk = aligned->chunk_in_b(here.chunk);
  if (chunk < 0) {
    other.why = fmt::format("No token of {} is in {}: go to another chunk.",
                            chunk_name(here.info(), here.chunk), trace->name);
    return other;
  }
  other.aligned = aligned.answer;
  other.numbers = moved_scope(workspace.selection().numbers, *aligned, *trace);
  other.note = note_of(*trace, here, *aligned);
  other.place = here;
  other.place.trace = trace;
  other.place.chunk = chunk;
  move_tokens(here, *aligned, other.place);
  clamp(other.place);
  return other;
}

}  // namespace kvloupe::state
