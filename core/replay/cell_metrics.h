// What a selection keeps of one cell's attention: the definitions are those of replay.h and
// "compare". Private to core/analysis: needs Torch.
#pragma once

#include "core/replay/replay.h"
#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace kvloupe::replay {

// M[row, j]: sum of dense p over the row's query heads and the chunk's queries, [rows, kv_len].
at::Tensor row_mass(const selection::Cell& cell, const selection::RowLayout& layout);
// Of one row alone, [kv_len], bit for bit the same.
at::Tensor mass_of_row(const selection::Cell& cell, const selection::RowLayout& layout,
                       std::int64_t row);

// M of one row over its candidates [first, first + count), as the measure of any number of sets. The
// row may be a part of the chunk's queries.
class RowTruth {
 public:
  // `mass`, of all `num_visible` keys, is borrowed.
  RowTruth(const float* mass, std::int64_t first_candidate, std::int64_t num_candidates,
           std::int64_t num_visible, trace::Phase phase);
  RowMetrics metrics(const std::vector<std::int32_t>& selected);
  // The same in absolute terms: what the set receives, what the best as many would, what all do.
  struct Sums {
    double kept = 0, best = 0, whole = 0;
  };
  Sums sums(const std::vector<std::int32_t>& selected);
  // RowMetrics::span_gap.
  double span_gap(const std::vector<std::int32_t>& selected, const trace::KeySet& span);
  bool is_finite() const { return std::isfinite(whole_); }

 private:
  struct Best {
    std::vector<std::uint8_t> marks;  // 1 for the candidates among the `count` of largest M
    double mass = 0;                  // their M
  };
  const Best& best(std::int64_t count);
  double share_of_best(std::int64_t count, const std::vector<std::int32_t>& selected);

  std::int64_t first_candidate_;
  const float* mass_;  // of the first candidate on
  std::int64_t num_candidates_;
  trace::Phase phase_;
  double whole_ = 0;
  double beyond_ = 0;  // M of the keys that are seen and are no candidates
  bool sees_more_ = false;
  std::map<std::int64_t, Best> best_;  // by count: most methods keep equally many
};

// What depends on a cell alone and not on the method: computed on its device when first asked for, then
// on the host, and shared by all methods that are measured on it. `cell` is borrowed.
class CellTruth {
 public:
  CellTruth(const selection::Cell& cell, const Wanted& wanted) : cell_(cell), wanted_(wanted) {}

  // Both throw Error{Input} where products of queries and keys are beyond fp32.
  // ||O - O^|| / ||O|| of each query head; `sparse` is O^ [num_q_heads, m, head_dim].
  std::vector<double> output_errors(const at::Tensor& sparse);
  RowTruth& row(const selection::RowLayout& layout, std::size_t row, std::int64_t num_candidates);
  // What the row's set is worth; where masks are read, what they let through. All of it where every
  // key is kept. Throws as selection::masks_of() too.
  RowMetrics metrics(const selection::RowLayout& layout, const trace::CellRecord& record,
                     std::size_t row);
  // Of a query head whose query blocks each attend to the blocks of their own mask: the past pairs
  // that are let through, and the best choice of as many keys for each query block.
  RowTruth::Sums sums_of_masks(const trace::BlockMasks& masks, std::int64_t q_head);
  // ||S - S^||_F / ||S||_F of each query head over the chunk's rows and the keys that they see;
  // S^ are the scores of `pruned` [num_q_heads, m, head_dim]. fp64. A softcap is part of a score.
  std::vector<double> score_errors(const at::Tensor& pruned);

 private:
  const at::Tensor& dense_output();
  const at::Tensor& mass(const selection::RowLayout& layout);
  const at::Tensor& mass_by_query_block(const trace::BlockGrid& grid);
  std::vector<double> score_energy(const at::Tensor& queries);
  double shaped_score_error(const at::Tensor& pruned, std::int64_t head) const;

  const selection::Cell& cell_;
  Wanted wanted_;
  at::Tensor output_;
  std::map<std::pair<trace::RowAxis, int>, at::Tensor> mass_;
  std::map<std::int64_t, at::Tensor> block_mass_;  // by block size: [num_q_heads, Q_b, P]
  std::map<std::tuple<trace::RowAxis, int, std::size_t, std::int64_t>, RowTruth> rows_;
  std::vector<at::Tensor> past_moments_;  // per KV head: sum over past keys of k k^T, fp64
  std::vector<double> dense_energy_;
};

}  // namespace kvloupe::replay
