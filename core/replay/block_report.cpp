#include "core/replay/block_report.h"

#include "core/base/error.h"

#include <algorithm>

namespace kvloupe::replay {
namespace {

using trace::BlockGrid;

struct Pairs {
  double past = 0, all = 0;
  Pairs& operator+=(const Pairs& other) {
    past += other.past;
    all += other.all;
    return *this;
  }
};

// Causal pairs of a query block's rows with a key block.
Pairs pairs_of(const BlockGrid& grid, std::int64_t query_block, std::int64_t block) {
  const std::int64_t rows = grid.row_end(query_block) - grid.row_begin(query_block);
  const std::int64_t begin = grid.key_begin(block), end = grid.key_end(block);
  Pairs pairs;
  pairs.past = static_cast<double>(rows * (std::clamp(grid.past_len, begin, end) - begin));
  pairs.all = pairs.past;
  if (end <= grid.past_len) return pairs;
  // Of the chunk's own keys, row i sees those up to itself.
  const std::int64_t own_begin = std::max(begin, grid.past_len) - grid.past_len;
  const std::int64_t own_end = end - grid.past_len;
  for (std::int64_t i = grid.row_begin(query_block); i < grid.row_end(query_block); ++i)
    pairs.all += static_cast<double>(std::clamp(i + 1, own_begin, own_end) - own_begin);
  return pairs;
}

// pairs_of of every (query block, key block), and of whole columns.
class PairTable {
 public:
  explicit PairTable(const BlockGrid& grid) : grid_(grid) {
    const std::int64_t blocks = grid.num_key_blocks();
    columns_.resize(static_cast<std::size_t>(blocks));
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
      for (std::int64_t j = 0; j < blocks; ++j) {
        cells_.push_back(pairs_of(grid, i, j));
        columns_[static_cast<std::size_t>(j)] += cells_.back();
      }
  }
  const Pairs& at(std::int64_t query_block, std::int64_t block) const {
    return cells_[static_cast<std::size_t>(query_block * grid_.num_key_blocks() + block)];
  }
  const Pairs& column(std::int64_t block) const {
    return columns_[static_cast<std::size_t>(block)];
  }

 private:
  BlockGrid grid_;
  std::vector<Pairs> cells_, columns_;
};

PairShares shares(const BlockGrid& grid, const Pairs& pairs) {
  const auto m = static_cast<double>(grid.chunk_len), past = static_cast<double>(grid.past_len);
  PairShares result;
  if (grid.past_len > 0) result.past = pairs.past / (m * past);
  result.causal = pairs.all / (m * past + m * (m + 1) / 2);
  result.rectangle = pairs.all / (m * (past + m));
  return result;
}

void add(PairShares& sum, const PairShares& part, double weight) {
  sum.past += weight * part.past;
  sum.causal += weight * part.causal;
  sum.rectangle += weight * part.rectangle;
}

void add(StageDensity& sum, const StageDensity& part, double weight) {
  add(sum.kept, part.kept, weight);
  add(sum.forced, part.forced, weight);
}

// What a union over some heads says of each key block: 0, 1 kept, 2 kept and forced by any.
std::vector<std::uint8_t> united(const BlockMasks& masks, std::int64_t first, std::int64_t count) {
  const BlockGrid& grid = masks.grid;
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(grid.num_key_blocks()), 0);
  for (std::int64_t head = first; head < first + count; ++head)
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      if (!masks.votes(i)) continue;
      for (std::int64_t j = 0; j < grid.num_key_blocks(); ++j) {
        const std::size_t at = masks.index(head, i, j);
        if (masks.kept[at] == 0) continue;
        const bool by_rule = !masks.forced.empty() && masks.forced[at] != 0;
        auto& block = kept[static_cast<std::size_t>(j)];
        block = std::max<std::uint8_t>(block, by_rule ? 2 : 1);
      }
    }
  return kept;
}

BlockState state_of(const BlockGrid& grid, std::int64_t block, std::uint8_t kept) {
  if (kept == 0) return BlockState::Dropped;
  if (block < grid.num_past_blocks()) return kept == 2 ? BlockState::Forced : BlockState::Kept;
  return block == grid.num_past_blocks() && grid.straddling_tokens() > 0 ? BlockState::Straddling
                                                                         : BlockState::Current;
}

StageDensity density_of_union(const PairTable& pairs, const BlockGrid& grid,
                              const std::vector<std::uint8_t>& kept) {
  Pairs all, forced;
  for (std::int64_t j = 0; j < grid.num_key_blocks(); ++j) {
    const std::uint8_t value = kept[static_cast<std::size_t>(j)];
    if (value != 0) all += pairs.column(j);
    if (value == 2) forced += pairs.column(j);
  }
  return {shares(grid, all), shares(grid, forced)};
}

StageDensity native_density(const PairTable& pairs, const BlockMasks& masks, std::int64_t head) {
  Pairs all, forced;
  for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i)
    for (std::int64_t j = 0; j < masks.grid.num_key_blocks(); ++j) {
      const std::size_t at = masks.index(head, i, j);
      if (masks.kept[at] == 0) continue;
      all += pairs.at(i, j);
      if (!masks.forced.empty() && masks.forced[at] != 0) forced += pairs.at(i, j);
    }
  return {shares(masks.grid, all), shares(masks.grid, forced)};
}

void add_mask_states(const BlockMasks& masks, std::int64_t head, BlockReport& report) {
  const BlockGrid& grid = masks.grid;
  for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
    for (std::int64_t j = 0; j < grid.num_key_blocks(); ++j) {
      const std::size_t at = masks.index(head, i, j);
      const bool by_rule = !masks.forced.empty() && masks.forced[at] != 0;
      const auto kept = static_cast<std::uint8_t>(masks.kept[at] == 0 ? 0 : by_rule ? 2 : 1);
      report.mask.push_back(j > grid.block_of_query_block(i) ? BlockState::Future
                                                             : state_of(grid, j, kept));
    }
}

// The set that is read: its blocks, and of what is kept by rule all whole blocks and the straddling
// tokens.
void add_table(const std::vector<std::uint8_t>& group, std::span<const std::int32_t> selected,
               BlockReport& report) {
  const BlockGrid& grid = report.grid;
  report.pages = trace::block_table(grid, selected);
  report.table.assign(static_cast<std::size_t>(grid.num_key_blocks()), BlockState::Dropped);
  std::int64_t forced = grid.straddling_tokens();
  for (const std::int32_t block : report.pages) {
    const bool by_rule = group[static_cast<std::size_t>(block)] == 2;
    report.table[static_cast<std::size_t>(block)] =
        state_of(grid, block, static_cast<std::uint8_t>(by_rule ? 2 : 1));
    if (by_rule && block < grid.num_past_blocks()) forced += grid.block_size;
  }
  const auto kept_past = static_cast<std::int64_t>(
      std::lower_bound(selected.begin(), selected.end(), grid.past_len) - selected.begin());
  report.read.kept = shares_of_set(grid, kept_past);
  // Attention inside the chunk is open by rule.
  report.read.forced = shares_of_set(grid, std::min(forced, kept_past));
}

}  // namespace

PairShares shares_of_set(const BlockGrid& grid, std::int64_t kept_past) {
  const auto m = static_cast<double>(grid.chunk_len);
  const double past = m * static_cast<double>(kept_past);
  return shares(grid, {past, past + m * (m + 1) / 2});
}

PairShares native_shares(const BlockMasks& masks, int first, int count) {
  const PairTable pairs(masks.grid);
  PairShares mean;
  for (int head = first; head < first + count; ++head)
    add(mean, native_density(pairs, masks, head).kept, 1.0 / count);
  return mean;
}

BlockReport block_report(const BlockMasks& masks, std::span<const std::int32_t> selected,
                         int first_q_head, int q_heads_per_row, int gqa_group_size) {
  KVLOUPE_CHECK(first_q_head >= 0 && first_q_head + q_heads_per_row <= masks.num_q_heads);
  const BlockGrid& grid = masks.grid;
  const PairTable pairs(grid);
  BlockReport report;
  report.grid = grid;
  report.knows_forced = !masks.forced.empty();
  const double weight = 1.0 / q_heads_per_row;
  for (int head = first_q_head; head < first_q_head + q_heads_per_row; ++head) {
    report.q_heads.push_back(head);
    add_mask_states(masks, head, report);
    add(report.native, native_density(pairs, masks, head), weight);
    const auto kept = united(masks, head, 1);
    for (std::int64_t j = 0; j < grid.num_key_blocks(); ++j)
      report.query_union.push_back(state_of(grid, j, kept[static_cast<std::size_t>(j)]));
    add(report.after_query_union, density_of_union(pairs, grid, kept), weight);
  }
  const auto group = united(masks, first_q_head, q_heads_per_row);
  for (std::int64_t j = 0; j < grid.num_key_blocks(); ++j)
    report.group_union.push_back(state_of(grid, j, group[static_cast<std::size_t>(j)]));
  report.after_group_union = density_of_union(pairs, grid, group);
  if (q_heads_per_row < gqa_group_size) {
    const int first = first_q_head / gqa_group_size * gqa_group_size;
    report.whole_group = density_of_union(pairs, grid, united(masks, first, gqa_group_size));
  }
  add_table(group, selected, report);
  return report;
}

}  // namespace kvloupe::replay
