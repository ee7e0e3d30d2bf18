// SampleAttention, SparQ, Loki and TidalDecode, one query and one key at a time.
#include "tests/selection/oracle_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::selection::testing {
namespace {

// A query's logits with every key of [0, T), not masked.
using Logits = std::vector<double>;

Logits exact_logits(const Sequence& s, int head, int query, int total) {
  Logits logits;
  for (int key = 0; key < total; ++key)
    logits.push_back(s.scale() *
                     dot(as_row(s.query(head, query), s.shape.head_dim),
                         as_row(s.key(head / s.gqa_group_size(), key), s.shape.head_dim)));
  return logits;
}

// C[g]: the channels of largest sum of |q| over the group and the chunk, the lower of equal ones.
std::vector<int> sparq_channels(const Sequence& s, const trace::ChunkInfo& span, int kv_head,
                                std::int64_t count) {
  const int group = s.gqa_group_size();
  std::vector<double> sums(static_cast<std::size_t>(s.shape.head_dim), 0.0);
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int query = span.begin; query < span.end(); ++query)
      for (int i = 0; i < s.shape.head_dim; ++i)
        sums[i] += std::abs(static_cast<double>(s.query(head, query)[i]));
  std::vector<int> order = range(0, s.shape.head_dim);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return sums[a] > sums[b]; });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

Logits sparq_logits(const Sequence& s, const std::vector<int>& channels, int head, int query,
                    int total) {
  const float* q = s.query(head, query);
  double all = 0, chosen = 0;
  for (int i = 0; i < s.shape.head_dim; ++i) all += std::abs(static_cast<double>(q[i]));
  for (const int i : channels) chosen += std::abs(static_cast<double>(q[i]));
  const double tau = std::sqrt(s.shape.head_dim * chosen / all);
  Logits logits;
  for (int key = 0; key < total; ++key) {
    double sum = 0;
    for (const int i : channels)
      sum +=
          static_cast<double>(q[i]) * static_cast<double>(s.key(head / s.gqa_group_size(), key)[i]);
    logits.push_back(tau > 0 ? sum / tau : 0.0);
  }
  return logits;
}

// Lanes of a vector along the first `count` directions of a KV head.
Row lanes_of(const Sequence& s, const float* values, int kv_head, std::int64_t count) {
  const int dim = s.shape.head_dim;
  const std::vector<float>& vectors = s.basis.layers.at(s.shape.layer).vectors;
  Row lanes;
  for (std::int64_t lane = 0; lane < count; ++lane) {
    double sum = 0;
    for (int i = 0; i < dim; ++i)
      sum += static_cast<double>(values[i]) *
             static_cast<double>(vectors[(kv_head * dim + i) * dim + lane]);
    lanes.push_back(sum);
  }
  return lanes;
}

Logits loki_logits(const Sequence& s, std::int64_t count, int head, int query, int total) {
  const int kv_head = head / s.gqa_group_size();
  const Row q = lanes_of(s, s.query(head, query), kv_head, count);
  Logits logits;
  for (int key = 0; key < total; ++key)
    logits.push_back(s.scale() * dot(q, lanes_of(s, s.key(kv_head, key), kv_head, count)));
  return logits;
}

// Softmax of the keys up to the query's own position; 0 after it.
std::vector<double> causal_softmax(const Logits& logits, int query) {
  const double largest = *std::max_element(logits.begin(), logits.begin() + query + 1);
  std::vector<double> p(logits.size(), 0.0);
  double total = 0;
  for (int key = 0; key <= query; ++key) total += p[key] = std::exp(logits[key] - largest);
  for (double& value : p) value /= total;
  return p;
}

// The layer that chose what `layer` uses (contract, section 3).
int choosing_layer(const MethodSpec& spec, int layer) {
  const auto first = spec.integer("first_layer"), correction = spec.integer("correction_layer");
  return static_cast<int>(correction > first && layer >= correction ? correction : first);
}

}  // namespace

bool has_logit_values(const MethodSpec& spec) {
  for (const char* id : {"sample_attention", "sparq", "loki", "tidal_decode"})
    if (spec.id() == id) return true;
  return false;
}

bool has_probabilities(const MethodSpec& spec) {
  return spec.id() == "sample_attention" || (spec.has("agg") && spec.text("agg") == "prob_mean");
}

std::vector<double> logit_values(const Sequence& sequence, const MethodSpec& spec,
                                 const trace::ChunkInfo& span, int kv_head) {
  const int group = sequence.gqa_group_size();
  const bool sampled = spec.id() == "sample_attention";
  Sequence s = sequence;
  if (spec.id() == "tidal_decode") {
    const int layer = choosing_layer(spec, s.shape.layer);
    if (layer != s.shape.layer) s = in_layer(s, layer);
  }
  std::vector<int> channels;
  if (spec.id() == "sparq")
    channels = sparq_channels(s, span, kv_head, spec.integer("num_channels"));
  std::vector<int> queries = range(span.begin, span.end());
  if (sampled && spec.integer("num_queries") < span.length) {
    const int count = static_cast<int>(spec.integer("num_queries"));
    queries.clear();
    for (int i = 0; i < count; ++i)
      queries.push_back(span.begin + (2 * i + 1) * span.length / (2 * count));
  }
  std::vector<double> scores(static_cast<std::size_t>(span.end()), 0.0);
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (const int query : queries) {
      Logits z;
      if (spec.id() == "sparq")
        z = sparq_logits(s, channels, head, query, span.end());
      else if (spec.id() == "loki")
        z = loki_logits(s, spec.integer("num_channels"), head, query, span.end());
      else
        z = exact_logits(s, head, query, span.end());
      if (has_probabilities(spec)) z = causal_softmax(z, query);
      const double share = 1.0 / (group * static_cast<double>(queries.size()));
      for (std::size_t key = 0; key < scores.size(); ++key) scores[key] += z[key] * share;
    }
  return scores;
}

}  // namespace kvloupe::selection::testing
