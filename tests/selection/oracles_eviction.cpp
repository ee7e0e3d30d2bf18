// The oracles of the methods that evict.
#include "tests/selection/oracle_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace kvloupe::selection::testing {
namespace {

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

// Alive before the chunk, and the chunk.
std::vector<std::int32_t> pool_after(const Sequence& s, int chunk, const History& alive) {
  std::vector<std::int32_t> pool = alive[static_cast<std::size_t>(chunk)];
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  for (int position = span.begin; position < span.end(); ++position) pool.push_back(position);
  return pool;
}

// Every query since the beginning votes with the keys that it could see, decoded ones included;
// with start=decode these alone.
void set_h2o(const Sequence& s, const MethodSpec& spec, int chunk, int kv_head,
             const History& alive, std::int64_t budget, Scores& result) {
  std::map<std::int32_t, double> mass;
  for (int c = 0; c <= chunk; ++c) {
    const auto pool = pool_after(s, c, alive);
    const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(c)];
    if (spec.text("start") == "decode" && span.phase == trace::Phase::Prefill) continue;
    for (int query = span.begin; query < span.end(); ++query)
      for (int member = 0; member < s.gqa_group_size(); ++member) {
        const auto p = softmax_row(s, kv_head * s.gqa_group_size() + member, query, pool);
        for (std::size_t j = 0; j < pool.size(); ++j) mass[pool[j]] += p[j] / s.gqa_group_size();
      }
  }
  const int seen = s.chunks[static_cast<std::size_t>(chunk)].end();
  const bool by_age = spec.text("normalise") == "by_age";
  const auto recent =
      static_cast<std::int64_t>(static_cast<double>(budget) * spec.real("recent_ratio") + 1e-9);
  const auto count = static_cast<std::int64_t>(result.pool.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t position = result.pool[static_cast<std::size_t>(i)];
    result.values[static_cast<std::size_t>(i)] =
        recent == budget ? static_cast<double>(i)
                         : mass[position] / (by_age ? static_cast<double>(seen - position) : 1.0);
    if (i >= count - recent) result.forced.push_back(position);
  }
  result.probabilities = true;
}

void set_tova(const Sequence& s, const MethodSpec& spec, const trace::ChunkInfo& span, int kv_head,
              Scores& result) {
  const bool own = spec.flag("per_kv_head");
  const int begin = own ? kv_head * s.gqa_group_size() : 0;
  const int end = own ? begin + s.gqa_group_size() : s.shape.num_q_heads;
  for (int head = begin; head < end; ++head) {
    const auto p = softmax_row(s, head, span.end() - 1, result.pool);
    for (std::size_t j = 0; j < p.size(); ++j) result.values[j] += p[j] / (end - begin);
  }
  if (spec.flag("force_last")) result.forced = {span.end() - 1};
  result.probabilities = true;
}

void set_infinipot(const Sequence& s, const MethodSpec& spec, int chunk, int kv_head,
                   std::int64_t budget, Scores& result) {
  const std::vector<std::int32_t>& pool = result.pool;
  std::vector<std::int32_t> by_novelty = pool;
  std::stable_sort(by_novelty.begin(), by_novelty.end(),
                   [&](std::int32_t a, std::int32_t b) { return s.novelty[a] > s.novelty[b]; });
  const auto novel =
      static_cast<std::int64_t>(spec.real("novelty_ratio") * static_cast<double>(budget) + 1e-9);
  if (novel == budget) {
    for (std::size_t i = 0; i < pool.size(); ++i) result.values[i] = s.novelty[pool[i]];
  } else {
    result.forced.assign(by_novelty.begin(),
                         by_novelty.begin() + std::min<std::ptrdiff_t>(novel, std::ssize(pool)));
    for (int member = 0; member < s.gqa_group_size(); ++member)
      for (int row = 0; row < kProbeLength; ++row) {
        const int head = kv_head * s.gqa_group_size() + member;
        const auto query = probe_query(s, chunk, head, row);
        const auto p = softmax_of(s, Row(query.begin(), query.end()), kv_head, pool, pool.back());
        for (std::size_t j = 0; j < p.size(); ++j) result.values[j] += p[j] / s.gqa_group_size();
      }
  }
  result.probabilities = true;
}

}  // namespace

std::vector<double> softmax_of(const Sequence& s, const Row& query, int kv_head,
                               const std::vector<std::int32_t>& keys, int last) {
  std::vector<double> p(keys.size(), 0.0);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (keys[j] > last) continue;
    p[j] = s.scale() * dot(query, as_row(s.key(kv_head, keys[j]), s.shape.head_dim));
    largest = std::max(largest, p[j]);
  }
  double total = 0;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    p[j] = keys[j] > last ? 0.0 : std::exp(p[j] - largest);
    total += p[j];
  }
  for (double& value : p) value /= total;
  return p;
}

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

Scores eviction_scores(const Sequence& s, const MethodSpec& spec, int chunk, int kv_head,
                       const History& alive, std::int64_t budget) {
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  Scores result;
  result.pool = pool_after(s, chunk, alive);
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
  if (spec.id() == "h2o") set_h2o(s, spec, chunk, kv_head, alive, budget, result);
  if (spec.id() == "tova") set_tova(s, spec, span, kv_head, result);
  if (spec.id() == "infinipot") set_infinipot(s, spec, chunk, kv_head, budget, result);
  return result;
}

}  // namespace kvloupe::selection::testing
