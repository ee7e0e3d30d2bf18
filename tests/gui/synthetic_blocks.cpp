// Blocks and received attention of the made-up source; see synthetic_source.h.
#include "tests/gui/synthetic_source.h"

#include <algorithm>
#include <utility>

namespace kvloupe::test {

// Some blocks of a head by score, block 0 and its own by rule; rows are the unions.
void SyntheticSource::add_blocks(replay::ReplayCell& cell, replay::ReplayResult& result) const {
  result.block_size = 32;
  cell.dense_reason.reset();
  auto& masks = cell.blocks.emplace();
  masks.grid = trace::block_grid(cell.span, result.block_size);
  masks.num_q_heads = options_.num_q_heads;
  const std::int64_t blocks = masks.grid.num_key_blocks();
  masks.kept.assign(masks.index(options_.num_q_heads, 0, 0), 0);
  masks.forced = masks.kept;
  for (int head = 0; head < options_.num_q_heads; ++head)
    for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i)
      for (std::int64_t j = 0; j <= masks.grid.block_of_query_block(i); ++j) {
        const bool own = j == masks.grid.block_of_query_block(i);
        masks.kept[masks.index(head, i, j)] = own || j == 0 || (j + i + head) % 9 == 0;
        masks.forced[masks.index(head, i, j)] = own || j == 0;
      }
  const int group = info_.model.gqa_group_size();
  for (std::size_t row = 0; row < cell.rows.size(); ++row) {
    std::vector<std::uint8_t> kept(static_cast<std::size_t>(blocks), 0);
    for (int head = static_cast<int>(row) * group; head < static_cast<int>(row + 1) * group; ++head)
      for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i)
        for (std::int64_t j = 0; j < blocks; ++j)
          kept[static_cast<std::size_t>(j)] |= masks.kept[masks.index(head, i, j)];
    cell.rows[row].positions.clear();
    for (std::int32_t key = 0; key < cell.span.begin; ++key)
      if (kept[static_cast<std::size_t>(key / result.block_size)] != 0)
        cell.rows[row].positions.push_back(key);
  }
}

analysis::ReceivedRankings SyntheticSource::received_rankings(
    int layer, int first_q_head, int num_q_heads, std::int32_t query_begin, std::int32_t query_end,
    std::int32_t num_keys, const WorkContext& context) const {
  obey(context);
  std::vector<float> mean, max;
  for (std::int32_t key = 0; key < num_keys; ++key) {
    double sum = 0, most = 0;
    for (std::int32_t query = query_begin; query < query_end; ++query) {
      const double p = attention(layer, first_q_head, query, key);
      sum += p;
      most = std::max(most, p);
    }
    mean.push_back(static_cast<float>(sum / (query_end - query_begin)));
    max.push_back(static_cast<float>(most));
  }
  analysis::ReceivedRankings rankings = analysis::rank_received(std::move(mean), std::move(max));
  rankings.layer = layer;
  rankings.first_q_head = first_q_head;
  rankings.num_q_heads = num_q_heads;
  rankings.query_begin = query_begin;
  rankings.query_end = query_end;
  return rankings;
}

}  // namespace kvloupe::test
