// What a lane method (AQUA and its kin) does to one cell: which lanes the queries use, what norm a
// vector loses with the lanes that are cut, and what the scores lose.
// Information retention loss (AQUA, section 6.2): L(v, v^, I) = | ||v|| - ||v^[I]|| | / ||v||, 0 for
// a zero vector, where v^ = v P and I are the lanes kept.
#pragma once

#include "core/replay/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::analysis {

// How the kept lanes of a vector are chosen.
enum class LaneChoice {
  Magnitude,   // each vector's own largest lanes
  Leading,     // the first lanes of the basis: static slicing
  QueryLanes,  // of a key: the largest lanes of the query that scores it, as AQUA does online
};
const char* name_of(LaneChoice choice);  // "magnitude", "leading", "query_lanes"

struct LossCurve {
  bool of_keys = true;
  int q_head = -1;  // whose queries; with QueryLanes whose queries choose; -1: keys on their own
  LaneChoice choice = LaneChoice::Magnitude;
  std::vector<double> loss;  // mean over the vectors, for each LaneReport::kept
};

// The curves against one basis, of one KV head and the query heads of its group.
struct BasisLoss {
  bool matched = false;                   // fitted on this very trace
  std::optional<replay::BasisNote> note;  // unset when there is no such basis
  std::string missing;                    // then: why, in a sentence
  std::vector<LossCurve> curves;
};

// How far the largest lanes of a vector are leading directions of the basis (AQUA, appendix A.6):
// rho(v, K, K') = |S_mag(v, K) and {first K' directions}| / K.
struct LaneOverlap {
  bool of_keys = true;  // else of the queries of all heads of the group
  // Whether the lanes are those of v^ = v P, as the method chooses them; else of v as stored, as the
  // appendix has it, whose indices and the directions' are of different bases.
  bool rotated = true;
  int largest = 0, leading = 0;      // K, K'
  std::vector<std::int64_t> counts;  // [K + 1] vectors by how many of their K largest lanes lead

  double mean() const;
};

struct LaneReport {
  std::string method;  // canonical SPEC of the lanes shown
  std::string twin;    // the other choice of as many lanes: static_slicing, or aqua for that one
  replay::BasisNote basis;  // of `method`
  // The method's basis cannot be had: a sentence that says so; `method` is on basis=self instead.
  std::string basis_missing;
  int layer = 0;
  int chunk = 0;
  int kv_head = 0;
  trace::ChunkInfo span;
  int head_dim = 0;
  int num_q_heads = 0;
  int q_heads_per_kv_head = 1;
  int stored_lanes = 0;    // head_dim less the lanes that are dropped before caching (aqua_memory)
  double slice_ratio = 0;  // S of aqua_memory
  bool slices_values = false;
  double effective_ratio = 1;  // (1 - S) * dim_ratio
  int kept_lanes = 0;          // k: lanes in each dot product

  std::vector<std::int32_t> counts;  // [num_q_heads, head_dim] rows of the chunk that used the lane
  // [num_q_heads] ||S - S^||_F / ||S||_F over the rows' visible keys, before softmax
  std::vector<double> score_error, twin_score_error;

  std::vector<int> kept;  // lanes kept, the x axis of the curves, ascending to head_dim
  std::vector<BasisLoss> bases;
  std::vector<LaneOverlap> overlaps;  // in the method's basis; K and K' an eighth to three quarters

  double use_of(int q_head, int lane) const;  // share of the chunk's rows
  const LossCurve* find(const BasisLoss& in, bool of_keys, LaneChoice choice, int q_head) const;
  // Mean over the heads of the group of the curves of queries, or of keys under query lanes.
  std::vector<double> group_mean(const BasisLoss& in, bool of_keys, LaneChoice choice) const;
  // Position of kept_lanes in `kept`.
  std::size_t kept_index() const;
};

// Lengths from which pruning saves multiplications: dense i*d against d^2 + i*k for one projection
// (of the query), 2d^2 + i*k with the key's as well. Unset when no length is enough (k = d).
struct BreakEven {
  std::optional<double> one_projection, two_projections;
};
BreakEven break_even(int head_dim, int kept_lanes);

// Shares saved by storing d' of d lanes: of the keys, and of the KV cache (where values are
// sliced alike, of all of it).
struct LaneMemory {
  double of_keys = 0, of_kv_cache = 0;
};
LaneMemory lane_memory(int head_dim, int stored_lanes, bool slices_values);

// `spec`: resolved, of a method that prunes lanes.
LaneReport lane_report(const session::TraceSession& session, const selection::MethodSpec& spec,
                       int layer, int chunk, int kv_head, const WorkContext& context);

inline double LaneOverlap::mean() const {
  double sum = 0, vectors = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += static_cast<double>(i) * static_cast<double>(counts[i]);
    vectors += static_cast<double>(counts[i]);
  }
  return vectors > 0 ? sum / (vectors * largest) : 0;
}

inline const char* name_of(LaneChoice choice) {
  switch (choice) {
    case LaneChoice::Magnitude: return "magnitude";
    case LaneChoice::Leading: return "leading";
    case LaneChoice::QueryLanes: return "query_lanes";
  }
  return "";
}

inline double LaneReport::use_of(int q_head, int lane) const {
  return static_cast<double>(counts[static_cast<std::size_t>(q_head * head_dim + lane)]) /
         span.length;
}

inline const LossCurve* LaneReport::find(const BasisLoss& in, bool of_keys, LaneChoice choice,
                                         int q_head) const {
  for (const LossCurve& curve : in.curves)
    if (curve.of_keys == of_keys && curve.choice == choice && curve.q_head == q_head) return &curve;
  return nullptr;
}

inline std::vector<double> LaneReport::group_mean(const BasisLoss& in, bool of_keys,
                                                  LaneChoice choice) const {
  std::vector<double> mean(kept.size(), 0);
  int heads = 0;
  for (const LossCurve& curve : in.curves) {
    if (curve.of_keys != of_keys || curve.choice != choice || curve.q_head < 0) continue;
    ++heads;
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += curve.loss[i];
  }
  for (double& value : mean) value /= std::max(1, heads);
  return mean;
}

inline std::size_t LaneReport::kept_index() const {
  return static_cast<std::size_t>(std::lower_bound(kept.begin(), kept.end(), kept_lanes) -
                                  kept.begin());
}

inline BreakEven break_even(int head_dim, int kept_lanes) {
  if (kept_lanes >= head_dim) return {};
  const double d = head_dim;
  const double one = d * d / (d - kept_lanes);
  return {one, 2 * one};
}

inline LaneMemory lane_memory(int head_dim, int stored_lanes, bool slices_values) {
  const double cut = 1.0 - static_cast<double>(stored_lanes) / head_dim;
  return {cut, slices_values ? cut : cut / 2};
}

}  // namespace kvloupe::analysis
