// What a method is worth on a trace, averaged as `kvloupe compare` does: over its own cells, or over
// those that it shares with other methods.
#pragma once

#include "core/replay/compare.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

// The numbers of all cells that were measured.
class MethodAverages {
 public:
  // `result` names the method, and its cells have entered `cells`. `knows_forced` is false where keys
  // kept by rule were not recorded.
  MethodAverages(replay::Averager cells, const replay::ReplayResult& result, bool knows_forced);

  // Means of scope "all" over the cells of `among` (null: all) in which the method is not dense.
  replay::CompareRow means(trace::Phase phase, const replay::Places* among = nullptr) const;
  // Where the method is not dense; empty: it chooses nowhere.
  std::optional<replay::Places> places(trace::Phase phase) const { return cells_.places(phase); }
  std::int64_t all_cells(trace::Phase phase) const { return cells_.all_cells(phase); }
  bool leaks() const { return method_.basis && method_.basis->leakage; }
  std::uint64_t bytes() const { return sizeof(*this) + cells_.bytes(); }

 private:
  replay::Averager cells_;
  replay::ReplayResult method_;  // without cells
  bool knows_forced_;
};

// Selected anew on `layers`; `spec` is resolved. `span`: keys that are watched (span_kept). Throws
// what replay() throws.
MethodAverages average_anew(const session::TraceSession& session, const selection::MethodSpec& spec,
                            const std::vector<int>& layers,
                            const std::optional<replay::KeySpan>& span, const WorkContext& context,
                            const std::string& device = "cpu");
// What a run of the trace recorded, also of a method that this version does not know. Keys kept by
// rule are empty where the run names none: earlier versions did not record them.
MethodAverages average_recorded(const session::TraceSession& session, int run,
                                const std::vector<int>& layers,
                                const std::optional<replay::KeySpan>& span,
                                const WorkContext& context);

}  // namespace kvloupe::analysis
