// q, k, v against each other, and lse and key_mass against what q and k imply.
#include "core/base/error.h"
#include "core/trace/check/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::trace {
namespace {

// Stored values are exact; the rest is fp32 arithmetic over long sums.
constexpr double kTolerance = 1e-3;

struct HeadRows {
  std::vector<float> values;  // [T, head_dim]
  std::int64_t not_finite = 0;
};

std::vector<TokenRange> ranges_of(const TraceInfo& info, Stored what) {
  if (what == Stored::Q) return info.query_ranges();
  return {{0, info.num_tokens}};
}

// Zeros where no query is stored.
HeadRows read_head(const TraceReader& reader, Stored what, int layer, int head) {
  const auto& info = reader.info();
  HeadRows rows;
  rows.values.resize(static_cast<std::size_t>(info.num_tokens) * info.model.head_dim);
  for (const auto& [begin, end] : ranges_of(info, what))
    reader.read_rows(what, layer, head, begin, end,
                     rows.values.data() + static_cast<std::size_t>(begin) * info.model.head_dim);
  rows.not_finite = std::count_if(rows.values.begin(), rows.values.end(),
                                  [](float value) { return !std::isfinite(value); });
  return rows;
}

// The log-sum-exp of row t over the keys that it sees and the head's sink, in double, term by term.
double log_sum_exp(const SoftmaxForm& softmax, int q_head, std::size_t dim,
                   const std::vector<float>& q, const std::vector<float>& k, std::int32_t t) {
  std::vector<double> logits;
  if (!softmax.sink_logits.empty()) logits.push_back(double{softmax.sink_logits[q_head]});
  for (auto j = static_cast<std::size_t>(softmax.first_visible(t)); j <= std::size_t(t); ++j) {
    double dot = 0;
    for (std::size_t i = 0; i < dim; ++i) dot += double{q[t * dim + i]} * double{k[j * dim + i]};
    logits.push_back(softmax.logit(dot));
  }
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

// Of the stored queries the first, the last and two between.
std::vector<std::int32_t> sample_tokens(const TraceInfo& info) {
  std::vector<std::int32_t> stored;
  for (const auto& [begin, end] : info.query_ranges())
    for (std::int32_t t = begin; t < end; ++t) stored.push_back(t);
  if (stored.empty()) return {};
  const std::size_t third = stored.size() / 3;
  return {stored.front(), stored[third], stored[2 * third], stored.back()};
}

// A few rows of one query head.
void check_lse_rows(const TraceReader& reader, int layer, int q_head, const std::vector<float>& q,
                    const std::vector<float>& k, Validation& found) {
  const auto& info = reader.info();
  const std::int32_t tokens = info.num_tokens;
  const SoftmaxForm softmax = info.model.softmax_of(layer);
  std::vector<float> lse(tokens);
  reader.read_lse(layer, q_head, 0, tokens, lse.data());
  for (const std::int32_t t : sample_tokens(info)) {
    const double expected = log_sum_exp(softmax, q_head, info.model.head_dim, q, k, t);
    if (std::abs(lse[t] - expected) <= kTolerance * std::max(1.0, std::abs(expected))) continue;
    found.defects.push_back(
        fmt::format("lse of layer {}, query head {}, token {} is {:.6g} where q and k give {:.6g}",
                    layer, q_head, t, lse[t], expected));
    return;
  }
}

// Each of the chunk's queries spreads a mass of one, less a sink's share, over the keys that it
// sees.
void check_mass_chunk(const TraceReader& reader, int layer, int chunk_index,
                      const std::vector<float>& mass, const BrokenHeads& broken,
                      Validation& found) {
  const auto& info = reader.info();
  const ChunkInfo& chunk = info.chunks[chunk_index];
  const double queries = info.model.gqa_group_size() * double{static_cast<float>(chunk.length)};
  const double slack = kTolerance * queries;
  const SoftmaxForm softmax = info.model.softmax_of(layer);
  // Queries of the chunk that see key j: from itself on, as far as the window reaches.
  const auto seen_by = [&](std::int64_t j) {
    const std::int64_t first = std::max<std::int64_t>(j, chunk.begin);
    const std::int64_t end =
        softmax.window > 0 ? std::min<std::int64_t>(chunk.end(), j + softmax.window) : chunk.end();
    return static_cast<double>(std::max<std::int64_t>(0, end - first));
  };
  for (int head = 0; head < info.model.num_kv_heads; ++head) {
    if (broken.contains(head)) continue;
    const float* row = mass.data() + static_cast<std::size_t>(head) * chunk.end();
    double sum = 0;
    bool plausible = true;
    for (std::int32_t j = 0; j < chunk.end(); ++j) {
      const double most = info.model.gqa_group_size() * seen_by(j);
      plausible = plausible && row[j] >= -slack && row[j] <= most + slack;
      sum += row[j];
    }
    const bool whole =
        softmax.sink_logits.empty() ? std::abs(sum - queries) <= slack : sum <= queries + slack;
    if (plausible && whole) continue;
    found.defects.push_back(fmt::format(
        "key_mass of layer {}, chunk {}, KV head {} sums to {:.6g} where {} query rows give {:.6g}",
        layer, chunk_index, head, sum, static_cast<std::int64_t>(queries), queries));
    return;
  }
}

std::int64_t count_not_finite(const TraceReader& reader, int layer, const WorkContext& context,
                              BrokenHeads& broken) {
  const auto& model = reader.info().model;
  std::int64_t count = 0;
  for (const auto& [what, heads] :
       {std::pair(Stored::Q, model.num_q_heads), std::pair(Stored::K, model.num_kv_heads),
        std::pair(Stored::V, model.num_kv_heads)}) {
    for (int head = 0; head < heads; ++head) {
      context.cancel.throw_if_cancelled();
      const std::int64_t of_head = read_head(reader, what, layer, head).not_finite;
      count += of_head;
      if (of_head > 0 && what != Stored::V)
        broken.insert(what == Stored::Q ? head / model.gqa_group_size() : head);
    }
  }
  return count;
}

}  // namespace

BrokenHeads check_rows(const TraceReader& reader, int layer, const WorkContext& context,
                       Validation& found) {
  const int present = reader.has_stored(Stored::Q, layer) + reader.has_stored(Stored::K, layer) +
                      reader.has_stored(Stored::V, layer);
  if (present != 0 && present != 3) {
    found.defects.push_back(fmt::format("layer {} has only {} of q, k and v", layer, present));
  }
  BrokenHeads broken;
  if (present != 3) return broken;
  const std::int64_t not_finite = count_not_finite(reader, layer, context, broken);
  if (not_finite > 0)
    found.notes.push_back(
        fmt::format("layer {} has {} of q, k or v that {} not finite", layer,
                    not_finite == 1 ? "1 value" : fmt::format("{} values", not_finite),
                    not_finite == 1 ? "is" : "are"));
  return broken;
}

void check_lse(const TraceReader& reader, int layer, const BrokenHeads& broken,
               const WorkContext& context, Validation& found) {
  if (!reader.has_stored(Stored::Q, layer) || !reader.has_stored(Stored::K, layer)) return;
  if (!reader.has_lse(layer)) return;
  // One head of each group: the rows cost as much as a dense attention over these queries.
  const int group = reader.info().model.gqa_group_size();
  for (int kv_head = 0; kv_head < reader.info().model.num_kv_heads; ++kv_head) {
    context.cancel.throw_if_cancelled();
    if (broken.contains(kv_head)) continue;
    const HeadRows k = read_head(reader, Stored::K, layer, kv_head);
    const HeadRows q = read_head(reader, Stored::Q, layer, kv_head * group);
    check_lse_rows(reader, layer, kv_head * group, q.values, k.values, found);
  }
}

void check_key_mass(const TraceReader& reader, int layer, const BrokenHeads& broken,
                    const WorkContext& context, Validation& found) {
  const auto& chunks = reader.info().chunks;
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk) {
    context.cancel.throw_if_cancelled();
    const auto mass = reader.read_key_mass(layer, chunk);
    if (mass) check_mass_chunk(reader, layer, chunk, *mass, broken, found);
  }
}

void check_layer(const TraceReader& reader, int layer, const WorkContext& context,
                 Validation& found) {
  if (reader.info().num_tokens == 0) return;
  const BrokenHeads broken = check_rows(reader, layer, context, found);
  if (reader.info().model.lacks_window(layer)) return;
  check_lse(reader, layer, broken, context, found);
  check_key_mass(reader, layer, broken, context, found);
}

}  // namespace kvloupe::trace
