#include "core/selection/blocks/block_selector.h"

#include "core/base/error.h"
#include "core/selection/ranking.h"
#include "core/selection/spec/method.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvloupe::selection {
namespace {

using Positions = std::vector<std::int32_t>;

bool votes(const BlockChoice& choice, std::int64_t query_block) {
  return choice.abstains.empty() || choice.abstains[static_cast<std::size_t>(query_block)] == 0;
}

void append_range(std::int64_t begin, std::int64_t end, Positions& positions) {
  for (std::int64_t position = begin; position < end; ++position)
    positions.push_back(static_cast<std::int32_t>(position));
}

// The past tokens of the block that straddles the chunk's begin, kept by rule: those of the window.
void append_straddling(const BlockGrid& grid, std::int64_t first_candidate, Positions& positions) {
  append_range(std::max(first_candidate, grid.past_len - grid.straddling_tokens()), grid.past_len,
               positions);
}

// Clears what a window hides: whole blocks from query blocks, keys from the chunk.
void hide(const SoftmaxForm& softmax, BlockChoice& choice) {
  if (softmax.window == 0) return;
  for (std::int64_t i = 0; i < choice.grid.num_query_blocks(); ++i) {
    const std::int64_t hidden = first_block(choice.grid, softmax, i);
    for (std::int64_t head = 0; head < choice.mask.num_q_heads(); ++head) {
      std::fill_n(choice.mask.row(head, i), hidden, std::uint8_t{0});
      std::fill_n(choice.forced.row(head, i), hidden, std::uint8_t{0});
      std::fill_n(choice.scores.row(head, i), hidden, 0.0F);
    }
  }
  const std::int64_t first = softmax.first_visible(choice.grid.past_len);
  for (auto* heads : {&choice.past_keys, &choice.forced_keys})
    for (Positions& keys : *heads)
      std::erase_if(keys, [&](std::int32_t position) { return position < first; });
}

trace::BlockMasks masks_of(BlockChoice&& choice) {
  trace::BlockMasks masks;
  masks.grid = choice.grid;
  masks.num_q_heads = static_cast<int>(choice.mask.num_q_heads());
  masks.kept = std::move(choice.mask).values();
  masks.forced = std::move(choice.forced).values();
  if (std::count(choice.abstains.begin(), choice.abstains.end(), 1) > 0)
    masks.abstains = std::move(choice.abstains);
  return masks;
}

// What any of the query heads [first, first + count) keeps, and the straddling tokens.
Positions union_of_keys(const std::vector<Positions>& keys, const BlockGrid& grid,
                        std::int64_t first_candidate, std::int64_t first, std::int64_t count) {
  Positions all;
  append_straddling(grid, first_candidate, all);
  for (std::int64_t head = first; head < first + count; ++head) {
    const Positions& own = keys[static_cast<std::size_t>(head)];
    Positions merged;
    std::set_union(all.begin(), all.end(), own.begin(), own.end(), std::back_inserter(merged));
    all = std::move(merged);
  }
  return all;
}

// The past blocks that are ranked: those that no window hides, from `first` on.
struct RankedBlocks {
  std::int64_t first = 0;
  std::vector<float> means;          // of the scores over the heads and the query blocks that vote
  std::vector<std::uint8_t> forced;  // any of them keeps the block by rule
};

RankedBlocks rank_blocks(const BlockChoice& choice, std::int64_t first_candidate,
                         std::int64_t first_head, std::int64_t heads) {
  const std::int64_t past_blocks = choice.grid.num_past_blocks();
  RankedBlocks blocks;
  blocks.first = std::min(past_blocks, first_candidate / choice.grid.block_size);
  std::vector<double> sums(static_cast<std::size_t>(past_blocks), 0.0);
  double num_rows = 0;
  for (std::int64_t head = first_head; head < first_head + heads; ++head)
    for (std::int64_t i = 0; i < choice.grid.num_query_blocks(); ++i) {
      if (!votes(choice, i)) continue;
      const float* row = choice.scores.row(head, i);
      for (std::int64_t j = 0; j < past_blocks; ++j) sums[j] += static_cast<double>(row[j]);
      ++num_rows;
    }
  const std::vector<std::uint8_t> kept = union_of(choice, first_head, heads);
  for (std::int64_t j = blocks.first; j < past_blocks; ++j) {
    blocks.means.push_back(static_cast<float>(sums[j] / num_rows));
    blocks.forced.push_back(kept[j] == 2);
  }
  return blocks;
}

// The best `count` of them, by rule first, among all past blocks.
std::vector<std::uint8_t> best_blocks(const RankedBlocks& blocks, std::int64_t count) {
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(blocks.first) + blocks.means.size(), 0);
  for (const std::int32_t i : keep_best(blocks.means, count, blocks.forced).indices)
    kept[blocks.first + i] = blocks.forced[i] != 0 ? 2 : 1;
  return kept;
}

RowEvidence evidence_of(const RankedBlocks& blocks, const BlockGrid& grid,
                        std::int64_t first_candidate, std::int64_t count) {
  RowEvidence evidence;
  for (std::size_t i = 0; i < blocks.means.size(); ++i) {
    const std::int64_t block = blocks.first + static_cast<std::int64_t>(i);
    evidence.begin.push_back(
        static_cast<std::int32_t>(std::max(first_candidate, grid.key_begin(block))));
    evidence.end.push_back(static_cast<std::int32_t>(grid.key_end(block)));
  }
  evidence.scores.assign(blocks.means.begin(), blocks.means.end());
  evidence.forced = blocks.forced;
  evidence.num_kept = count;
  return evidence;
}

// Attention needs a key for every query: its own block, whatever the method keeps.
void keep_diagonal(BlockChoice& choice) {
  for (std::int64_t head = 0; head < choice.mask.num_q_heads(); ++head)
    for (std::int64_t i = 0; i < choice.grid.num_query_blocks(); ++i) {
      const std::int64_t own = choice.grid.block_of_query_block(i);
      choice.mask.row(head, i)[own] = choice.forced.row(head, i)[own] = 1;
    }
}

class BlockSelector final : public Selector {
 public:
  BlockSelector(MethodSpec spec, RowLayout layout, std::unique_ptr<BlockMasker> masker)
      : spec_(std::move(spec)), layout_(layout), masker_(std::move(masker)) {}

  CellSelection select(const Cell& cell) override {
    CellSelection result;
    result.first_candidate = cell.first_candidate();
    result.num_candidates = cell.past_len - result.first_candidate;
    if (spec_.has_budget()) result.budget_tokens = spec_.budget(result.num_candidates);
    const std::int64_t num_rows = cell.num_q_heads() / layout_.q_heads_per_row;
    if (result.num_candidates == 0)
      result.dense_reason = DenseReason::EmptyPast;
    else if (cell.phase == trace::Phase::Decode || cell.layer < spec_.traits().dense_layers)
      result.dense_reason = DenseReason::MethodRule;
    if (result.dense_reason) {
      SelectedRow all;
      append_range(result.first_candidate, cell.past_len, all.positions);
      result.rows.assign(static_cast<std::size_t>(num_rows), all);
      return result;
    }
    BlockChoice choice = masker_->choose(cell);
    hide(cell.softmax, choice);
    result.reads_masks = spec_.traits().native_masks;
    if (result.reads_masks) keep_diagonal(choice);
    for (std::int64_t row = 0; row < num_rows; ++row)
      result.rows.push_back(lowered(choice, result.first_candidate, row * layout_.q_heads_per_row,
                                    result.budget_tokens));
    result.block_scores = std::move(choice.scores);
    result.block_thresholds = std::move(choice.thresholds);
    result.blocks = masks_of(std::move(choice));
    return result;
  }

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    return masker_->sampled_rows(cell);
  }

  // Of lowering=budget: the others compare, they do not rank.
  std::vector<RowEvidence> evidence(const Cell& cell) override {
    if (!spec_.has_budget() || cell.phase == trace::Phase::Decode) return {};
    const std::int64_t first = cell.first_candidate(), heads = layout_.q_heads_per_row;
    const std::int64_t budget = spec_.budget(cell.past_len - first);
    if (cell.past_len == first) return {};
    BlockChoice choice = masker_->choose(cell);
    hide(cell.softmax, choice);
    std::vector<RowEvidence> rows;
    for (std::int64_t head = 0; head < cell.num_q_heads(); head += heads)
      rows.push_back(evidence_of(rank_blocks(choice, first, head, heads), choice.grid, first,
                                 budget / choice.grid.block_size));
    return rows;
  }

 private:
  SelectedRow lowered(const BlockChoice& choice, std::int64_t first_candidate,
                      std::int64_t first_head, std::optional<std::int64_t> budget) const {
    const std::int64_t heads = layout_.q_heads_per_row;
    const BlockGrid& grid = choice.grid;
    if (spec_.traits().native_masks)
      return row_of_blocks(grid, union_of(choice, first_head, heads, Voters::All), first_candidate);
    if (budget)
      return row_of_blocks(grid,
                           best_blocks(rank_blocks(choice, first_candidate, first_head, heads),
                                       *budget / grid.block_size),
                           first_candidate);
    if (choice.past_keys.empty())
      return row_of_blocks(grid, union_of(choice, first_head, heads), first_candidate);
    SelectedRow row;
    row.positions = union_of_keys(choice.past_keys, grid, first_candidate, first_head, heads);
    row.forced = union_of_keys(choice.forced_keys, grid, first_candidate, first_head, heads);
    return row;
  }

  MethodSpec spec_;
  RowLayout layout_;
  std::unique_ptr<BlockMasker> masker_;
};

}  // namespace

std::vector<std::uint8_t> union_of(const BlockChoice& choice, std::int64_t first,
                                   std::int64_t count, Voters voters) {
  const std::int64_t past_blocks = choice.grid.num_past_blocks();
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(past_blocks), 0);
  for (std::int64_t head = first; head < first + count; ++head)
    for (std::int64_t i = 0; i < choice.grid.num_query_blocks(); ++i) {
      if (voters == Voters::Voting && !votes(choice, i)) continue;
      const std::uint8_t* mask = choice.mask.row(head, i);
      const std::uint8_t* forced = choice.forced.row(head, i);
      for (std::int64_t j = 0; j < past_blocks; ++j) {
        if (mask[j] == 0) continue;
        kept[j] = std::max<std::uint8_t>(kept[j], forced[j] != 0 ? 2 : 1);
      }
    }
  return kept;
}

SelectedRow row_of_blocks(const BlockGrid& grid, std::span<const std::uint8_t> kept,
                          std::int64_t first_candidate) {
  KVLOUPE_CHECK(static_cast<std::int64_t>(kept.size()) == grid.num_past_blocks());
  SelectedRow row;
  for (std::size_t j = 0; j < kept.size(); ++j) {
    if (kept[j] == 0) continue;
    const auto block = static_cast<std::int64_t>(j);
    const std::int64_t begin = std::max(first_candidate, grid.key_begin(block));
    append_range(begin, grid.key_end(block), row.positions);
    if (kept[j] == 2) append_range(begin, grid.key_end(block), row.forced);
  }
  append_straddling(grid, first_candidate, row.positions);
  append_straddling(grid, first_candidate, row.forced);
  return row;
}

std::unique_ptr<Selector> make_block_selector(const MethodSpec& spec, RowLayout layout,
                                              std::unique_ptr<BlockMasker> masker) {
  return std::make_unique<BlockSelector>(spec, layout, std::move(masker));
}

std::unique_ptr<Selector> make_block_selector(const Setup& setup,
                                              std::unique_ptr<BlockMasker> masker) {
  const RowLayout layout = setup.ablation == Ablation::HeadsApart
                               ? RowLayout{trace::RowAxis::QHead, 1}
                               : row_layout(setup.spec, setup.shape);
  return make_block_selector(setup.spec, layout, std::move(masker));
}

}  // namespace kvloupe::selection
