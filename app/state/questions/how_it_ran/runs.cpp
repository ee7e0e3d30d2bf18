#include "app/state/questions/how_it_ran/runs.h"

#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

// Empty if the trace can serve the method with its defaults.
std::string why_unavailable(const Place& place, const std::string& id, const WorkContext& context) {
  try {
    const auto spec = selection::MethodSpec::parse(id).resolved(place.trace->shape());
    const selection::BasisMaker& bases = place.trace->session->bases();
    if (bases.is_due && bases.is_due(spec, place.info().model)) return {};  // made when it is asked
    const replay::ReplayRequest request{spec, {}, {}, {}, false, false};
    const auto error = engine().why_unavailable(*place.trace->session, request, context);
    return error ? error->what() : std::string();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled) throw;
    return error.what();  // it needs a parameter that has no default
  }
}

}  // namespace

std::string RunSummaryQuestion::title() const {
  return fmt::format("Summing up {} in layer {}", method.id(), place.layer);
}

RunSummaryQuestion::Answer RunSummaryQuestion::work(Steps& steps) const {
  const auto run = steps.need(MeasuredRunQuestion{place, method});
  const replay::Counted counted = counted_in(chunks, std::nullopt, place.info());
  const char* const phase =
      chunks.phase(place.info(), trace::Phase::Prefill) == trace::Phase::Prefill ? "prefill"
                                                                                 : "decode";
  for (replay::CompareRow& row : replay::summarise(*run, *place.trace->session, counted))
    if (row.scope == "all" && row.phase == phase) return std::move(row);
  return {};
}

UnavailableQuestion::Answer UnavailableQuestion::work(Steps& steps) const {
  Answer reasons;
  for (const selection::MethodInfo& method : selection::catalogue()) {
    const std::string why = why_unavailable(place, method.id, steps.context);
    if (!why.empty()) reasons[method.id] = why;
  }
  return reasons;
}

}  // namespace kvloupe::state
