#include "core/analysis/received_rankings.h"

#include "core/analysis/attention_map.h"
#include "core/selection/ranking.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::analysis {
namespace {

// Queries of one head whose attention is held at a time.
constexpr std::int32_t kQueriesPerTile = 64;

std::vector<std::int32_t> ranks_of(const std::vector<float>& values) {
  const auto order = selection::ranked(values, static_cast<std::int64_t>(values.size()));
  std::vector<std::int32_t> ranks(values.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    ranks[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  return ranks;
}

}  // namespace

ReceivedRankings rank_received(std::vector<float> mean, std::vector<float> max) {
  ReceivedRankings result;
  result.top = static_cast<std::int64_t>(
      std::ceil(ReceivedRankings::kTopShare * static_cast<double>(mean.size()) - 1e-9));
  result.mean_rank = ranks_of(mean);
  result.max_rank = ranks_of(max);
  for (std::size_t j = 0; j < mean.size(); ++j)
    result.kind.push_back(std::isnan(mean[j])                ? KeyKind::Broken
                          : result.mean_rank[j] < result.top ? KeyKind::Global
                          : result.max_rank[j] < result.top  ? KeyKind::QuerySpecific
                                                             : KeyKind::Other);
  result.mean = std::move(mean);
  result.max = std::move(max);
  return result;
}

ReceivedRankings received_rankings(const session::TraceSession& session, int layer,
                                   int first_q_head, int num_q_heads, std::int32_t query_begin,
                                   std::int32_t query_end, std::int32_t num_keys,
                                   const WorkContext& context) {
  std::vector<double> sums(static_cast<std::size_t>(num_keys), 0.0);
  std::vector<float> max(static_cast<std::size_t>(num_keys), 0.0F);
  for (int head = first_q_head; head < first_q_head + num_q_heads; ++head)
    for (std::int32_t begin = query_begin; begin < query_end; begin += kQueriesPerTile) {
      context.cancel.throw_if_cancelled();
      const Matrix rows = attention_rows(session, layer, head, begin,
                                         std::min(query_end, begin + kQueriesPerTile), context);
      const std::int64_t keys = std::min<std::int64_t>(num_keys, rows.cols);
      for (std::int64_t r = 0; r < rows.rows; ++r)
        for (std::int64_t j = 0; j < std::min(keys, begin + r + 1); ++j) {
          const float p = rows.at(r, j);
          sums[static_cast<std::size_t>(j)] += static_cast<double>(p);
          float& largest = max[static_cast<std::size_t>(j)];
          if (std::isnan(p) || p > largest) largest = p;  // a NaN stays
        }
    }
  const double rows = static_cast<double>(query_end - query_begin) * num_q_heads;
  std::vector<float> mean;
  for (const double sum : sums) mean.push_back(static_cast<float>(sum / rows));
  ReceivedRankings result = rank_received(std::move(mean), std::move(max));
  result.layer = layer;
  result.first_q_head = first_q_head;
  result.num_q_heads = num_q_heads;
  result.query_begin = query_begin;
  result.query_end = query_end;
  return result;
}

}  // namespace kvloupe::analysis
