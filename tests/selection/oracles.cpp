#include "tests/selection/oracle_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace kvloupe::selection::testing {
namespace {

std::vector<double> oracle_values(const Sequence& s, const MethodSpec& spec,
                                  const trace::ChunkInfo& span, int kv_head) {
  const auto keys = range(0, span.end());
  std::vector<double> score(keys.size(), 0.0);
  for (int head = kv_head * s.gqa_group_size(); head < (kv_head + 1) * s.gqa_group_size(); ++head)
    for (int query = span.begin; query < span.end(); ++query) {
      const auto p = softmax_row(s, head, query, keys);
      for (std::size_t j = 0; j < keys.size(); ++j)
        score[j] = spec.text("reduce") == "max" ? std::max(score[j], p[j]) : score[j] + p[j];
    }
  return score;
}

std::vector<int> best_rows(const std::vector<double>& values, std::int64_t count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  order.resize(static_cast<std::size_t>(std::min<std::int64_t>(count, order.size())));
  return order;
}

// S_q of every row of the chunk.
std::vector<double> relevance(const Sequence& s, const trace::ChunkInfo& span, int head) {
  Row mean(static_cast<std::size_t>(s.shape.head_dim), 0.0);
  for (int query = span.begin; query < span.end(); ++query)
    for (int i = 0; i < s.shape.head_dim; ++i)
      mean[i] += static_cast<double>(s.query(head, query)[i]) / span.length;
  std::vector<double> result;
  for (int query = span.begin; query < span.end(); ++query)
    result.push_back(-cosine(mean, as_row(s.query(head, query), s.shape.head_dim), 1e-6));
  return result;
}

// Chunk rows that stand for each head of the group.
std::vector<std::vector<int>> chosen_rows(const Sequence& s, const MethodSpec& spec,
                                          const trace::ChunkInfo& span, int kv_head) {
  const int group = s.gqa_group_size();
  const double ratio = spec.has("query_ratio") ? spec.real("query_ratio") : 0;
  std::int64_t count = spec.integer("num_queries");
  if (ratio > 0) count = std::max(1, static_cast<int>(std::floor(ratio * span.length + 1e-9)));
  std::vector<std::vector<int>> rows;
  for (int member = 0; member < group; ++member) {
    std::vector<int> own;
    if (count >= span.length) {
      for (int i = 0; i < span.length; ++i) own.push_back(i);
    } else if (spec.id() == "uniform_queries") {
      for (std::int64_t i = 0; i < count; ++i)
        own.push_back(static_cast<int>((2 * i + 1) * span.length / (2 * count)));
    } else {
      std::vector<double> score = relevance(s, span, kv_head * group + member);
      if (spec.text("group_query_mode") == "shared_tokens") {
        std::fill(score.begin(), score.end(), 0.0);
        for (int other = 0; other < group; ++other) {
          const auto one = relevance(s, span, kv_head * group + other);
          for (std::size_t i = 0; i < score.size(); ++i) score[i] += one[i] / group;
        }
      }
      own = best_rows(score, count);
    }
    rows.push_back(own);
  }
  return rows;
}

std::vector<double> query_key_values(const Sequence& s, const MethodSpec& spec,
                                     const trace::ChunkInfo& span, int kv_head) {
  const bool quoka = spec.id() == "quoka";
  const bool use_dot = quoka && spec.text("metric") == "dot";
  const bool use_mean = quoka && spec.text("query_reduce") == "mean";
  const bool late = quoka && spec.text("group_query_mode") == "post_agg";
  const int group = s.gqa_group_size();
  const int dim = s.shape.head_dim;
  const auto rows = chosen_rows(s, spec, span, kv_head);
  const std::size_t slots = rows.front().size();
  const auto unit = [&](const float* values) {
    Row row = as_row(values, dim);
    const double norm = use_dot ? 1.0 : std::max(length(row), 1e-6);
    for (double& value : row) value /= norm;
    return row;
  };
  std::vector<double> scores;
  for (int key = 0; key < span.end(); ++key) {
    const Row k = unit(s.key(kv_head, key));
    // products[member][slot]
    std::vector<std::vector<double>> products;
    for (int member = 0; member < group; ++member) {
      products.emplace_back();
      for (const int row : rows[member])
        products.back().push_back(
            dot(unit(s.query(kv_head * group + member, span.begin + row)), k));
    }
    const auto reduce = [&](const std::vector<double>& values) {
      return use_mean ? std::accumulate(values.begin(), values.end(), 0.0) /
                            static_cast<double>(values.size())
                      : *std::max_element(values.begin(), values.end());
    };
    double score = 0;
    if (late) {
      for (const auto& member : products) score += reduce(member) / group;
    } else {
      // The dot product is linear: the mean row's product is the mean of the products.
      std::vector<double> mean(slots, 0.0);
      for (const auto& member : products)
        for (std::size_t slot = 0; slot < slots; ++slot) mean[slot] += member[slot] / group;
      score = reduce(mean);
    }
    scores.push_back(score);
  }
  return scores;
}

}  // namespace

Scores visibility_scores(const Sequence& s, const MethodSpec& spec, int chunk, int kv_head,
                         int num_candidates) {
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  const auto all = range(0, span.end());
  Scores result;
  result.pool = range(0, num_candidates);
  result.probabilities = spec.id() == "oracle" || spec.id() == "snapkv";
  if (spec.id() == "oracle") result.values = oracle_values(s, spec, span, kv_head);
  if (spec.id() == "quoka" || spec.id() == "uniform_queries")
    result.values = query_key_values(s, spec, span, kv_head);
  if (has_logit_values(spec)) {
    result.values = logit_values(s, spec, span, kv_head);
    result.probabilities = has_probabilities(spec);
  }
  if (spec.id() == "snapkv")
    result.values =
        snapkv_values(s, spec, span, kv_head, all, static_cast<std::size_t>(span.begin));
  if (spec.id() == "keydiff") result.values = keydiff_values(s, kv_head, all);
  if (spec.id() == "sliding_window") result.values.assign(all.begin(), all.end());
  result.values.resize(result.pool.size());
  return result;
}

std::string defect(const Scores& scores, const std::vector<std::int32_t>& selected,
                   std::int64_t budget) {
  const std::set<std::int32_t> kept(selected.begin(), selected.end());
  const std::set<std::int32_t> forced(scores.forced.begin(), scores.forced.end());
  const auto wanted = std::min<std::int64_t>(budget, static_cast<std::int64_t>(scores.pool.size()));
  if (static_cast<std::int64_t>(kept.size()) != wanted)
    return fmt::format("{} kept, {} wanted", kept.size(), wanted);
  const bool all_forced = static_cast<std::int64_t>(forced.size()) >= wanted;
  double lowest = std::numeric_limits<double>::infinity();
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < scores.pool.size(); ++i) {
    const bool is_kept = kept.count(scores.pool[i]) != 0;
    const bool is_forced = forced.count(scores.pool[i]) != 0;
    if (is_forced && !is_kept && !all_forced) return fmt::format("{} is forced", scores.pool[i]);
    if (is_kept && !(is_forced && !all_forced)) lowest = std::min(lowest, scores.values[i]);
    sum += scores.values[i];
    squares += scores.values[i] * scores.values[i];
  }
  const double n = static_cast<double>(scores.pool.size());
  const double spread = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
  const double size = scores.probabilities ? std::abs(lowest) : std::max(std::abs(lowest), spread);
  for (std::size_t u = 0; u < scores.pool.size(); ++u) {
    if (kept.count(scores.pool[u]) != 0) continue;
    if (scores.values[u] > lowest + 1e-5 * size)
      return fmt::format("{} scores {} above the cut {}", scores.pool[u], scores.values[u], lowest);
    for (std::size_t s = u + 1; s < scores.pool.size(); ++s)
      if (kept.count(scores.pool[s]) != 0 && scores.values[s] == scores.values[u] &&
          (all_forced || forced.count(scores.pool[s]) == 0))
        return fmt::format("{} kept before its equal {}", scores.pool[s], scores.pool[u]);
  }
  return {};
}

}  // namespace kvloupe::selection::testing
