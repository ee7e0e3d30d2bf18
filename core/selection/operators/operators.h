// The narrow waist between methods and devices: what methods do to queries and keys, as operators of
// Torch (TORCH_LIBRARY kvloupe) that take and return tensors on the cell's device. The CPU runs the
// fused kernels (cpu_forms.h), every other device the tensor algebra of generic_forms.h unless it has
// a kernel of its own under the same name. On the CPU what a key scores depends on that key and the
// query rows alone (kernels.h).
// G KV heads, H query heads, a group's together; D = head_dim. Keys are [G, T, D] and contiguous inside a
// head. Queries, keys and rows of the cache are of any type in attention/number_types.h, one of them or
// several, which changes no result: their numbers are widened to fp32. All else is fp32 unless said
// otherwise. Errors: Error{Internal} for shapes that contradict each other.
#pragma once

#include "core/selection/operators/kernels.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::selection {

// The ranking rule (ranking.h) on every row of scores [R, n]. Equal on all devices, bit for bit.
struct KeptRows {
  at::Tensor indices;  // int32 [R, min(budget, n)], ascending
  at::Tensor forced;   // int64 [R] how many of them are forced
  at::Tensor ties;     // int64 [R] ties_at_cut
};
// `forced`: undefined, or uint8 [n], the same in all rows.
KeptRows keep_best_rows(const at::Tensor& scores, std::int64_t budget,
                        const at::Tensor& forced = {});
// int32 [R, min(count, n)], best first. Scores may be fp64: rounded to fp32 they rank.
at::Tensor ranked_rows(const at::Tensor& scores, std::int64_t count);

// S_q (QuoKA, Algorithm 1): minus the cosine of each row of q [H, m, D] to the mean row of its head.
// fp64 [H, m].
at::Tensor query_relevance(const at::Tensor& q);

// Scores keys against a few rows that stand for the chunk (QuoKA, Algorithm 1). Which rows those are
// is what QuoKA and its ablation differ in.
enum class KeyMetric { Cosine, Dot };
enum class QueryReduce { Max, Mean };
enum class GroupReduce {
  RowsFirst,    // slot r of the group is the mean of its heads' slot r; then reduce over the slots
  ScoresFirst,  // reduce over each head's rows; then the mean over the heads
};
struct CosineScoring {
  KeyMetric metric = KeyMetric::Cosine;
  QueryReduce query_reduce = QueryReduce::Max;
  GroupReduce group_reduce = GroupReduce::RowsFirst;
};
inline constexpr double kCosineEpsilon = 1e-6;
// chosen int32 [H, slots]: rows of q. Returns [G, num_candidates].
at::Tensor score_keys(const at::Tensor& q, const at::Tensor& k, const at::Tensor& chosen,
                      std::int64_t num_candidates, const CosineScoring& options);

// KeyDiff: minus the cosine of the first num_scored keys to the mean of all normalised keys.
// [G, num_scored].
at::Tensor difference_scores(const at::Tensor& k, std::int64_t num_scored);

// <row, key>: rows [N, W], N a multiple of G, those of a KV head together; keys [G, T, W]. [N, T].
at::Tensor key_products(const at::Tensor& rows, const at::Tensor& keys);

// Sets of query rows beside how far each row sees into a list of keys.
struct RowSets {
  at::Tensor queries;                 // [N, R, W], N a multiple of G
  std::vector<std::int64_t> visible;  // [R] row r sees the first visible[r] keys, maybe none, less
  std::vector<std::int64_t> first;    // [R] those before first[r]; empty: from key 0 on
  std::vector<float> sinks;           // [N, R] logit of the sink; empty: none
  double scale = 1;
  double softcap = 0;
};
// Softmax over the keys of each row, then the sum or the largest over the rows of each set. [N, T].
at::Tensor reduce_probabilities(const RowSets& sets, const at::Tensor& keys, ColumnReduce reduce);
// One softmax over the rows and keys of a set together, summed over its rows: sum of exp(z - max z),
// not divided by their total. A sink is not asked for. fp64 [N, T].
at::Tensor joint_softmax_sums(const RowSets& sets, const at::Tensor& keys);
// The softmax of reduce_probabilities for consecutive rows (each sees one key more than the one
// before), summed over the rows by key and by distance: slashes[n, o] = sum of p[r, visible[r]-1-o].
struct ColumnsAndSlashes {
  at::Tensor columns, slashes;  // [N, T]
};
ColumnsAndSlashes columns_and_slashes(const RowSets& sets, const at::Tensor& keys);

// Largest, then smallest value of every channel in each page of page_size rows, the first page less
// its first `cut` rows (pages.h). rows [G, n, D]; [G, pages, 2, D] in the type of the rows.
at::Tensor page_bounds(const at::Tensor& rows, std::int64_t page_size, std::int64_t cut = 0);
// The largest over the rows of q [H, m, D] of Quest's bound on what a key of the page can score.
// bounds [G, pages, 2, D]; [H, pages].
at::Tensor page_scores(const at::Tensor& q, const at::Tensor& bounds);
// The mean of each block of rows, in the same grid, summed in fp64. [G, blocks, D].
at::Tensor block_means(const at::Tensor& rows, std::int64_t block_size, std::int64_t cut = 0);

// rows [N, n, D] times the first `width` columns of directions [G, D, D]; [N, n, width].
at::Tensor rotate_rows(const at::Tensor& rows, const at::Tensor& directions, std::int64_t width);
// Each row of rotated [H, m, L] cut down to its `kept` lanes of largest magnitude, equal ones by lane.
struct LargestLanes {
  at::Tensor values;  // [H, m, kept]
  at::Tensor lanes;   // int32 [H, m, kept], ascending
  at::Tensor counts;  // int32 [H, L] rows that keep the lane
};
LargestLanes largest_lanes(const at::Tensor& rotated, std::int64_t kept);

// Keys by lane: tiles [G, tiles, W, kLaneTileKeys] (attention/lane_products.h).
// Writes rows [G, n, W] to the places [place, place + n).
void store_lanes(const at::Tensor& tiles, const at::Tensor& rows, std::int64_t place);
// The lanes int32 [G, w] of the keys at [first, first + count): [G, count, w].
at::Tensor load_lanes(const at::Tensor& tiles, const at::Tensor& lanes, std::int64_t first,
                      std::int64_t count);
// sum over the channels int32 [G, w], ascending, of rows [G, W] times those of the same keys: only
// these are read. [G, count]. Where W is a multiple of 32 the CPU's bits are those of key_products()
// with rows that are zero in all other channels.
at::Tensor channel_products(const at::Tensor& rows, const at::Tensor& channels,
                            const at::Tensor& tiles, std::int64_t first, std::int64_t count);

// pooled [G', n, W] times weights [N, W, hidden], N a multiple of G': [N, n, hidden]. What a row gives
// does not depend on the others beside it.
at::Tensor gate_rows(const at::Tensor& pooled, const at::Tensor& weights);

}  // namespace kvloupe::selection
