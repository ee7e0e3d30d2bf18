#include "tests/selection/oracles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Row = std::vector<double>;

Row as_row(const float* values, int dim) { return Row(values, values + dim); }

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double length(const Row& a) { return std::sqrt(dot(a, a)); }

double cosine(const Row& a, const Row& b, double eps) {
  return dot(a, b) / (std::max(length(a), eps) * std::max(length(b), eps));
}

std::vector<std::int32_t> range(int begin, int end) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

// p of one query over the given keys, causally.
std::vector<double> softmax_row(const Sequence& s, int head, int query,
                                const std::vector<std::int32_t>& keys) {
  const Row q = as_row(s.query(head, query), s.shape.head_dim);
  std::vector<double> p(keys.size(), 0.0);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (keys[j] > query) continue;
    p[j] = s.scale() * dot(q, as_row(s.key(head / s.gqa_group_size(), keys[j]), s.shape.head_dim));
    largest = std::max(largest, p[j]);
  }
  double total = 0;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    p[j] = keys[j] > query ? 0.0 : std::exp(p[j] - largest);
    total += p[j];
  }
  for (double& value : p) value /= total;
  return p;
}

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
  const std::int64_t count = spec.integer("num_queries");
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

std::vector<double> pooled(const std::vector<double>& values, int kernel, bool average) {
  const int count = static_cast<int>(values.size());
  std::vector<double> result;
  for (int i = 0; i < count; ++i) {
    double sum = 0;
    double largest = -std::numeric_limits<double>::infinity();
    for (int j = i - kernel / 2; j <= i + kernel / 2; ++j) {
      if (j < 0 || j >= count) continue;
      sum += values[j];
      largest = std::max(largest, values[j]);
    }
    result.push_back(average ? sum / kernel : largest);
  }
  return result;
}

// Votes of the chunk's last rows for the first `scored` of `keys`.
std::vector<double> snapkv_values(const Sequence& s, const MethodSpec& spec,
                                  const trace::ChunkInfo& span, int kv_head,
                                  const std::vector<std::int32_t>& keys, std::size_t scored) {
  const int window = static_cast<int>(std::min<std::int64_t>(spec.integer("window"), span.length));
  std::vector<double> score(scored, 0.0);
  for (int head = kv_head * s.gqa_group_size(); head < (kv_head + 1) * s.gqa_group_size(); ++head) {
    std::vector<double> votes(keys.size(), 0.0);
    for (int query = span.end() - window; query < span.end(); ++query) {
      const auto p = softmax_row(s, head, query, keys);
      for (std::size_t j = 0; j < keys.size(); ++j) votes[j] += p[j];
    }
    votes.resize(scored);
    const auto smooth =
        pooled(votes, static_cast<int>(spec.integer("kernel")), spec.text("pool") == "avg");
    for (std::size_t j = 0; j < scored; ++j) score[j] += smooth[j] / s.gqa_group_size();
  }
  return score;
}

std::vector<double> keydiff_values(const Sequence& s, int kv_head,
                                   const std::vector<std::int32_t>& keys) {
  const int dim = s.shape.head_dim;
  Row mean(static_cast<std::size_t>(dim), 0.0);
  for (const std::int32_t position : keys) {
    const Row k = as_row(s.key(kv_head, position), dim);
    const double norm = std::max(length(k), 1e-12);
    for (int i = 0; i < dim; ++i) mean[i] += k[i] / norm / static_cast<double>(keys.size());
  }
  std::vector<double> scores;
  for (const std::int32_t position : keys)
    scores.push_back(-cosine(mean, as_row(s.key(kv_head, position), dim), 1e-8));
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
  if (spec.id() == "snapkv")
    result.values =
        snapkv_values(s, spec, span, kv_head, all, static_cast<std::size_t>(span.begin));
  if (spec.id() == "keydiff") result.values = keydiff_values(s, kv_head, all);
  if (spec.id() == "sliding_window") result.values.assign(all.begin(), all.end());
  result.values.resize(result.pool.size());
  return result;
}

Scores eviction_scores(const Sequence& s, const MethodSpec& spec, int chunk, int kv_head,
                       const std::vector<std::int32_t>& alive, std::int64_t budget) {
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  Scores result;
  result.pool = alive;
  for (int position = span.begin; position < span.end(); ++position)
    result.pool.push_back(position);
  const std::size_t count = result.pool.size();
  result.values.assign(count, 0.0);
  if (spec.id() == "keydiff") result.values = keydiff_values(s, kv_head, result.pool);
  if (spec.id() == "streaming_llm") {
    const std::int64_t sinks = spec.integer("sink_tokens");
    for (std::size_t i = 0; i < count; ++i) {
      if (budget <= sinks)
        result.values[i] = -static_cast<double>(i);
      else
        result.values[i] = result.pool[i] < sinks ? 1e9 : result.pool[i];
    }
  }
  if (spec.id() == "snapkv") {
    result.probabilities = true;
    const auto window =
        static_cast<std::size_t>(std::min<std::int64_t>(spec.integer("window"), span.length));
    result.forced.assign(result.pool.end() - static_cast<std::ptrdiff_t>(window),
                         result.pool.end());
    if (budget <= static_cast<std::int64_t>(window)) {
      for (std::size_t i = 0; i < count; ++i) result.values[i] = static_cast<double>(i);
    } else {
      const auto votes = snapkv_values(s, spec, span, kv_head, result.pool, count - window);
      std::copy(votes.begin(), votes.end(), result.values.begin());
    }
  }
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
