// What a lane method (AQUA and its kin) does to one cell: which lanes the queries use, what norm a
// vector loses with the lanes that are cut, and what the scores lose.
// Information retention loss (AQUA, section 6.2): L(v, v^, I) = | ||v|| - ||v^[I]|| | / ||v||, 0 for
// a zero vector, where v^ = v P and I are the lanes kept.
#pragma once

#include "core/replay/replay.h"

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
  int kept_lanes = 0;      // k: lanes in each dot product

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

// Shares saved by storing d' of d lanes: of the keys, and of the KV cache (values stay whole).
struct LaneMemory {
  double of_keys = 0, of_kv_cache = 0;
};
LaneMemory lane_memory(int head_dim, int stored_lanes);

// `spec`: resolved, of a method that prunes lanes.
LaneReport lane_report(const session::TraceSession& session, const selection::MethodSpec& spec,
                       int layer, int chunk, int kv_head, const WorkContext& context);

}  // namespace kvloupe::analysis
