// What each budget keeps, and the smallest one that is enough. Averages are those of `compare`: over
// the cells of a phase that are not dense, so a larger budget may average fewer cells.
#pragma once

#include "core/device/default_device.h"
#include "core/replay/compare.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::analysis {

// What a sweep draws.
inline constexpr std::array kSweepNumbers{replay::Number::MassRecall, replay::Number::TopkOverlap,
                                          replay::Number::OutputError, replay::Number::SpanKept};

// The targets: a share of mass or of the top keys at least, an error at most, of a span's keys a part or
// all of them.
struct SweepTarget {
  double share = 0, error = 0, span = 0;
};
inline constexpr std::array<SweepTarget, 3> kSweepTargets{
    {{0.9, 0.1, 0.5}, {0.95, 0.05, 0.9}, {0.99, 0.01, 1}}};
double goal_of(replay::Number number, const SweepTarget& target);
bool reaches(replay::Number number, double value, const SweepTarget& target);

// Which cells are averaged.
struct SweepScope {
  std::vector<int> layers;
  std::optional<int> kv_head;  // empty: all
  std::string device = device::kDefault;
  replay::Counted counted = {};                // of those, by chunk, and the keys watched there
  trace::Phase phase = trace::Phase::Prefill;  // of the chunks averaged
};

// A method with one budget.
struct SweepPoint {
  std::string spec;              // canonical
  std::int64_t budget = 0;       // tokens asked for; 0: the method has no budget
  replay::Numbers numbers;       // means
  std::int64_t cells = 0;        // averaged; 0: nothing above is known
  std::int64_t dense_cells = 0;  // left out because all keys fit the budget
  bool leakage = false;          // the basis was fitted on text of this trace

  double value(replay::Number number) const;  // NaN: not known
};

struct SweepPass {
  std::vector<SweepPoint> points;  // in the order of the specs that the trace can serve
  std::vector<replay::UnavailableMethod> unavailable;
};
// All specs (resolved) in one pass over the layers, on the stored Q and K. Throws the first error
// when none can be served.
SweepPass sweep_pass(const session::TraceSession& session,
                     const std::vector<selection::MethodSpec>& specs, const SweepScope& scope,
                     const WorkContext& context);
// A recorded run as a point, known method or not; `budget` stays 0.
SweepPoint sweep_point_of_run(const session::TraceSession& session, int run,
                              const SweepScope& scope, const WorkContext& context);

// The keys before the last chunk of the phase among these (none: among all): a budget that holds them all leaves
// nothing to select.
std::int64_t longest_past(const trace::TraceInfo& info, const std::vector<int>& chunks = {},
                          trace::Phase phase = trace::Phase::Prefill);
// 16, 32, ... below `past`; it begins at a lower power of 2 where `past` is short.
std::vector<std::int64_t> coarse_budgets(std::int64_t past);
// What lies halfway (on a log axis) between the coarse ones, and the largest below `past`.
std::vector<std::int64_t> finer_budgets(std::int64_t past);

// Where a curve comes to reach a target for good: every point from `at` on reaches it, the one
// before, `below`, does not (0: there is none). Curves may reach it earlier and fall again.
struct SweepBracket {
  std::int64_t below = 0, at = 0;
};
// `points` by ascending budget. Nothing where the last one does not reach the target.
std::optional<SweepBracket> reached_from(const std::vector<SweepPoint>& points,
                                         replay::Number number, const SweepTarget& target);

}  // namespace kvloupe::analysis
