#include "core/analysis/query_relevance.h"

#include "core/analysis/query_geometry.h"
#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::analysis {
namespace {

constexpr float kNoKey = std::numeric_limits<float>::quiet_NaN();

double cosine(const float* x, const float* y, std::int64_t dim) {
  double xy = 0, xx = 0, yy = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    xy += double{x[i]} * double{y[i]};
    xx += double{x[i]} * double{x[i]};
    yy += double{y[i]} * double{y[i]};
  }
  return xy / std::max(std::sqrt(xx * yy), 1e-12);
}

}  // namespace

QueryRelevance query_relevance_of(const selection::Cell& cell, int q_head) {
  QueryRelevance result;
  const at::Tensor relevance = selection::query_relevance(cell.q.narrow(0, q_head, 1));
  for (const double value : selection::on_host<double>(relevance)) {
    result.relevance.push_back(static_cast<float>(value));
  }
  const at::Tensor q = cell.q.narrow(0, q_head, 1);
  const at::Tensor k = cell.k.narrow(0, q_head / cell.gqa_group_size(), 1);
  const at::Tensor p = selection::attention_of_head(cell, q_head);
  const at::Tensor queries = q[0].contiguous(), keys = k[0].contiguous();
  const at::Tensor mean = queries.to(at::kDouble).mean(0).to(at::kFloat);
  const std::int64_t dim = keys.size(1);
  for (std::int64_t t = 0; t < cell.chunk_len; ++t) {
    // Keys that the row does not see have probability 0 here.
    const float* row = p.const_data_ptr<float>() + t * cell.kv_len();
    const float* end = row + cell.kv_len();
    const float* best = row + 1 == end ? end : std::max_element(row + 1, end);
    const bool none = best == end || *best <= 0;
    result.max_attention.push_back(none ? 0 : *best);
    const float* key = keys.const_data_ptr<float>() + (none ? 0 : best - row) * dim;
    const float* query = queries.const_data_ptr<float>() + t * dim;
    result.alpha.push_back(
        none ? kNoKey : static_cast<float>(cosine(mean.const_data_ptr<float>(), key, dim)));
    result.beta.push_back(none ? kNoKey : static_cast<float>(cosine(key, query, dim)));
  }
  return result;
}

std::vector<std::uint8_t> chosen_queries(const selection::Cell& cell, int q_head,
                                         const selection::MethodSpec& method,
                                         const selection::ModelShape& shape) {
  const selection::Traits& traits = method.traits();
  const bool rests = cell.phase == trace::Phase::Decode && !traits.acts_in_decode;
  if (!traits.samples_rows || rests) return {};
  // No method that samples rows needs a basis.
  const auto rows = selection::make_selector(method, shape)->sampled_rows(cell);
  if (rows.empty() || rows[static_cast<std::size_t>(q_head)].empty()) return {};
  std::vector<std::uint8_t> chosen(static_cast<std::size_t>(cell.chunk_len), 0);
  for (const std::int32_t row : rows[static_cast<std::size_t>(q_head)])
    chosen[static_cast<std::size_t>(row)] = 1;
  return chosen;
}

double pearson(const std::vector<float>& x, const std::vector<float>& y) {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  if (x.size() != y.size() || x.size() < 2) return kUndefined;
  const auto is_constant = [](const std::vector<float>& series) {
    return std::adjacent_find(series.begin(), series.end(), std::not_equal_to<>()) == series.end();
  };
  if (is_constant(x) || is_constant(y)) return kUndefined;
  const auto mean = [](const std::vector<float>& series) {
    double sum = 0;
    for (const float value : series) sum += static_cast<double>(value);
    return sum / static_cast<double>(series.size());
  };
  const double mean_x = mean(x), mean_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = static_cast<double>(x[i]) - mean_x, dy = static_cast<double>(y[i]) - mean_y;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

}  // namespace kvloupe::analysis
