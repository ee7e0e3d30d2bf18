// When a method's sets on another device are those of the CPU: sums in another order move scores in their
// last bits, so that a key whose score lies at the cut may be kept on one of them alone. Such cells are
// counted.
#pragma once

#include "core/selection/evidence.h"
#include "tests/selection/sequences.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::selection::testing {

using Keys = std::vector<std::int32_t>;  // or blocks, ascending

inline Keys in_one_alone(const Keys& a, const Keys& b) {
  Keys keys;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(keys));
  return keys;
}

inline double deviation_of(const std::vector<double>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  double mean = 0, squares = 0;
  for (const double number : numbers) mean += number / count;
  for (const double number : numbers) squares += (number - mean) * (number - mean) / count;
  return std::sqrt(squares);
}

// By unit, whether its score lies at the cut: to 1e-5 of the cut for sums of probabilities, which are
// never negative; for cosines and logits to 1e-5 of their standard deviation, where that is larger.
inline std::vector<bool> units_at(std::optional<double> cut, const RowEvidence& by) {
  std::vector<bool> lies(by.scores.size());
  if (!cut) return lies;
  std::vector<double> scores;
  for (const double score : by.scores)
    if (std::isfinite(score)) scores.push_back(score);
  double scale = std::abs(*cut);
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return score < 0; }))
    scale = std::max(scale, deviation_of(scores));
  for (std::size_t unit = 0; unit < lies.size(); ++unit)
    lies[unit] = !by.is_forced(static_cast<std::int64_t>(unit)) &&
                 std::abs(by.scores[unit] - *cut) <= 1e-5 * scale;
  return lies;
}

// All that is kept on one device alone lies there.
inline bool differ_at(std::optional<double> cut, const RowEvidence& by, const Keys& got,
                      const Keys& want) {
  const std::vector<bool> lies = units_at(cut, by);
  const Keys keys = in_one_alone(got, want);
  return std::all_of(keys.begin(), keys.end(), [&](std::int32_t key) {
    const std::optional<std::int64_t> unit = by.unit_of(key);
    return unit && lies[static_cast<std::size_t>(*unit)];
  });
}

// What a method decided by on the CPU, by chunk and row.
struct Reasons {
  std::vector<std::vector<RowEvidence>> selected, evicted;
};

inline Reasons reasons_of(const Sequence& sequence, const std::string& spec) {
  const auto selector = selector_for(sequence, spec);
  selector->keep_evidence();
  const auto resolved = MethodSpec::parse(spec).resolved(sequence.model());
  const std::optional<int> source = source_layer(resolved, sequence.model(), sequence.shape.layer);
  const Sequence below = source ? in_layer(sequence, *source) : Sequence{};
  const bool evicts = resolved.traits().evicts();
  Reasons reasons;
  for (int chunk = 0; chunk < static_cast<int>(sequence.chunks.size()); ++chunk) {
    std::vector<RowEvidence> selected;
    // A set that is reused was decided in its own layer.
    if (source) {
      const Cell cell = cell_of(below, chunk);
      selector->select(cell);
      selected = selector->evidence(cell);
    }
    const Cell cell = cell_of(sequence, chunk);
    selector->select(cell);
    if (evicts && chunk > 0)
      selected = reasons.evicted.back();
    else if (!source)
      selected = selector->evidence(cell);
    selector->evict(cell);
    reasons.selected.push_back(std::move(selected));
    reasons.evicted.push_back(evicts ? selector->evidence(cell) : std::vector<RowEvidence>());
  }
  return reasons;
}

// A run against the CPU's.
class Comparison {
 public:
  // Without reasons nothing may differ.
  Comparison(const MethodRun& got, const MethodRun& want, std::optional<Reasons> reasons = {})
      : reasons_(std::move(reasons)) {
    if (!equal("chunks", got.cells.size(), want.cells.size())) return;
    for (; chunk_ < want.cells.size(); ++chunk_) {
      compare_cells(got.cells[chunk_], want.cells[chunk_]);
      compare_evicted(got.evicted[chunk_], want.evicted[chunk_]);
    }
    if (!equal("rows alive", got.alive.size(), want.alive.size())) return;
    for (std::size_t row = 0; row < want.alive.size(); ++row)
      if (parted_.count(row) == 0)
        equal(fmt::format("row {}, alive", row), got.alive[row], want.alive[row]);
  }

  const std::vector<std::string>& defects() const { return defects_; }
  // Cells, a chunk of the layer each, that differ at the cut alone.
  int cells_at_cut() const { return static_cast<int>(at_cut_.size()); }

 private:
  template <typename T>
  bool equal(const std::string& what, const T& got, const T& want) {
    if (got == want) return true;
    defects_.push_back(fmt::format("chunk {}, {}: {}, on the CPU {}", chunk_, what,
                                   ::testing::PrintToString(got), ::testing::PrintToString(want)));
    return false;
  }

  void compare_keys(const std::string& what, const Keys& got, const Keys& want,
                    const RowEvidence* by, std::optional<double> cut) {
    if (got == want) return;
    if (by != nullptr && differ_at(cut, *by, got, want))
      at_cut_.insert(chunk_);
    else
      equal(what, got, want);
  }

  void compare_cells(const CellSelection& got, const CellSelection& want) {
    equal("dense", got.dense_reason, want.dense_reason);
    equal("lanes", got.lane_counts, want.lane_counts);
    const Keys blocks = compare_masks(got, want);
    if (!equal("rows", got.rows.size(), want.rows.size())) return;
    for (std::size_t row = 0; row < want.rows.size(); ++row) {
      if (parted_.count(row) != 0) continue;
      // The union of masks differs where they do.
      const auto follows = [&](std::int32_t key) {
        return std::binary_search(blocks.begin(), blocks.end(),
                                  static_cast<std::int32_t>(key / want.blocks->grid.block_size));
      };
      const Keys keys = in_one_alone(got.rows[row].positions, want.rows[row].positions);
      if (blocks.empty() || !std::all_of(keys.begin(), keys.end(), follows))
        compare_rows(row, got.rows[row], want.rows[row]);
    }
  }

  void compare_rows(std::size_t row, const SelectedRow& got, const SelectedRow& want) {
    const RowEvidence* by = reason(&Reasons::selected, row);
    const std::string name = fmt::format("row {}", row);
    compare_keys(name, got.positions, want.positions, by, by ? by->cut() : std::nullopt);
    equal(name + ", by rule", got.forced, want.forced);
    const std::vector<bool> lie = by ? units_at(by->cut(), *by) : std::vector<bool>();
    if (std::abs(got.ties_at_cut - want.ties_at_cut) > std::count(lie.begin(), lie.end(), true))
      equal(name + ", ties", got.ties_at_cut, want.ties_at_cut);
  }

  // The blocks that are in one mask alone, ascending.
  Keys compare_masks(const CellSelection& got, const CellSelection& want) {
    if (!got.blocks || !want.blocks || got.blocks->kept == want.blocks->kept) return {};
    if (!reasons_ || got.blocks->kept.size() != want.blocks->kept.size()) {
      equal("blocks", got.blocks->kept, want.blocks->kept);
      return {};
    }
    std::set<std::int32_t> blocks;
    const std::int64_t query_blocks = want.blocks->grid.num_query_blocks();
    for (int head = 0; head < want.blocks->num_q_heads; ++head)
      for (std::int64_t i = 0; i < query_blocks; ++i) {
        const RowEvidence by = evidence_of_mask(want, head, i);
        const Keys mine = kept_blocks(*got.blocks, head, i),
                   theirs = kept_blocks(*want.blocks, head, i);
        compare_keys(
            fmt::format("head {}, query block {}", head, i), mine, theirs, &by,
            want.block_thresholds.empty()
                ? by.cut()
                : static_cast<double>(
                      want.block_thresholds[static_cast<std::size_t>(head * query_blocks + i)]));
        for (const std::int32_t block : in_one_alone(mine, theirs)) blocks.insert(block);
      }
    return {blocks.begin(), blocks.end()};
  }

  static Keys kept_blocks(const trace::BlockMasks& masks, int head, std::int64_t query_block) {
    Keys blocks;
    for (std::int64_t j = 0; j < masks.grid.num_key_blocks(); ++j)
      if (masks.kept[masks.index(head, query_block, j)] != 0)
        blocks.push_back(static_cast<std::int32_t>(j));
    return blocks;
  }

  static RowEvidence evidence_of_mask(const CellSelection& cell, int head,
                                      std::int64_t query_block) {
    if (cell.block_scores.empty()) return {};
    const auto num_blocks = static_cast<std::size_t>(cell.blocks->grid.num_key_blocks());
    const float* scores = cell.block_scores.row(head, query_block);
    RowEvidence by = evidence_of_keys(0, {scores, num_blocks}, 0);
    by.num_kept = static_cast<std::int64_t>(kept_blocks(*cell.blocks, head, query_block).size());
    for (std::size_t j = 0; j < num_blocks; ++j)
      by.forced.push_back(
          cell.blocks->forced[cell.blocks->index(head, query_block, static_cast<std::int64_t>(j))]);
    return by;
  }

  // What is evicted otherwise leaves other sets in all later chunks: they are not compared.
  void compare_evicted(const std::vector<Keys>& got, const std::vector<Keys>& want) {
    if (!equal("rows of evictions", got.size(), want.size())) return;
    for (std::size_t row = 0; row < want.size(); ++row) {
      if (parted_.count(row) != 0 || got[row] == want[row]) continue;
      const RowEvidence* by = reason(&Reasons::evicted, row);
      compare_keys(fmt::format("row {}, evicted", row), got[row], want[row], by,
                   by ? by->cut() : std::nullopt);
      parted_.insert(row);
    }
  }

  const RowEvidence* reason(std::vector<std::vector<RowEvidence>> Reasons::*which,
                            std::size_t row) const {
    if (!reasons_) return nullptr;
    const std::vector<RowEvidence>& rows = ((*reasons_).*which)[chunk_];
    return row < rows.size() ? &rows[row] : nullptr;
  }

  std::optional<Reasons> reasons_;
  std::size_t chunk_ = 0;
  std::vector<std::string> defects_;
  std::set<std::size_t> at_cut_, parted_;  // chunks; rows that an eviction left different
};

}  // namespace kvloupe::selection::testing
