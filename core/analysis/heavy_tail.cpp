#include "core/analysis/heavy_tail.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kvloupe::analysis {
namespace {

constexpr std::int64_t kKeysAtOnce = 4096;

at::Tensor unit_rows(const at::Tensor& rows) {
  const at::Tensor values = rows.to(at::kFloat);
  return values / values.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12);
}

// visit(key, scores, count) for each past key but position 0: its scores by the queries that see it, of
// which `queries` holds unit rows.
template <typename Visit>
void for_each_key(const selection::Cell& cell, const at::Tensor& queries, std::int64_t kv_head,
                  const WorkContext& context, const Visit& visit) {
  for (std::int64_t first = 1; first < cell.past_len; first += kKeysAtOnce) {
    context.cancel.throw_if_cancelled();
    const std::int64_t count = std::min(kKeysAtOnce, cell.past_len - first);
    // A key's scores lie side by side.
    const at::Tensor scores =
        at::mm(unit_rows(cell.k[kv_head].narrow(0, first, count)), queries.t()).cpu().contiguous();
    const float* row = scores.const_data_ptr<float>();
    for (std::int64_t key = first; key < first + count; ++key, row += cell.chunk_len) {
      // The chunk's first rows see a past key as long as its window does.
      std::int64_t rows = cell.chunk_len;
      while (rows > 0 && cell.softmax.first_visible(cell.past_len + rows - 1) > key) --rows;
      visit(key, row, rows);
    }
  }
}

double mean_of(const float* scores, std::int64_t count) {
  return std::accumulate(scores, scores + count, 0.0) / static_cast<double>(count);
}

void measure_scores(const selection::Cell& cell, int q_head, const WorkContext& context,
                    HeavyTail& tail) {
  if (cell.chunk_len < 2) return;
  const at::Tensor queries = unit_rows(cell.q[q_head]);
  const std::int64_t kv_head = q_head / cell.gqa_group_size();
  tail.largest_score.assign(static_cast<std::size_t>(cell.past_len),
                            -std::numeric_limits<double>::infinity());
  tail.mean_score = tail.largest_score;
  ScoreDeviations& result = tail.deviations;
  double squares = 0, fourths = 0, lowest = 0, highest = 0;
  for_each_key(cell, queries, kv_head, context,
               [&](std::int64_t key, const float* scores, std::int64_t count) {
                 if (count == 0) return;  // the layer's window has moved on
                 const auto index = static_cast<std::size_t>(key);
                 const double mean = tail.mean_score[index] = mean_of(scores, count);
                 tail.largest_score[index] = *std::max_element(scores, scores + count);
                 for (std::int64_t t = 0; t < count; ++t) {
                   const double d = scores[t] - mean;
                   squares += d * d;
                   fourths += d * d * d * d;
                   lowest = std::min(lowest, d);
                   highest = std::max(highest, d);
                 }
                 result.count += count;
               });
  if (!(squares > 0)) return;
  const auto count = static_cast<double>(result.count);
  const double sigma = result.sigma = std::sqrt(squares / count);
  result.excess_kurtosis = count * fourths / (squares * squares) - 3;
  result.lowest = lowest / sigma;
  result.highest = highest / sigma;
  const auto bin_of = [&](double d) {
    return static_cast<std::int64_t>(std::floor(d / (ScoreDeviations::kBinWidth * sigma)));
  };
  result.first_bin = bin_of(lowest);
  result.bins.assign(static_cast<std::size_t>(bin_of(highest) - result.first_bin + 1), 0);
  std::int64_t above = 0;
  for_each_key(cell, queries, kv_head, context,
               [&](std::int64_t key, const float* scores, std::int64_t seen) {
                 const double mean = tail.mean_score[static_cast<std::size_t>(key)];
                 for (std::int64_t t = 0; t < seen; ++t) {
                   const double d = scores[t] - mean;
                   ++result.bins[static_cast<std::size_t>(bin_of(d) - result.first_bin)];
                   if (d > 3 * sigma) ++above;
                 }
               });
  result.above_3_sigma = static_cast<double>(above) / count;
}

}  // namespace

HeavyTail heavy_tail(const session::TraceSession& session, int layer, int chunk, int q_head,
                     const Matrix& rows, const WorkContext& context) {
  const trace::ChunkInfo& span = session.info().chunks.at(static_cast<std::size_t>(chunk));
  KVLOUPE_CHECK(rows.rows == span.length && rows.cols == span.end());
  HeavyTail result;
  const selection::Cell cell = session::load_cell(session, layer, chunk, span);
  result.relevance =
      selection::on_host<double>(selection::query_relevance(cell.q.narrow(0, q_head, 1)));
  result.query_mass.assign(static_cast<std::size_t>(span.length), 0);
  result.key_mass.assign(static_cast<std::size_t>(span.begin), 0);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    context.cancel.throw_if_cancelled();
    for (std::int64_t key = 0; key < span.begin; ++key) {
      const double p = rows.at(r, key);
      result.key_mass[static_cast<std::size_t>(key)] += p;
      if (key > 0) result.query_mass[static_cast<std::size_t>(r)] += p;
    }
  }
  measure_scores(cell, q_head, context, result);
  return result;
}

}  // namespace kvloupe::analysis
