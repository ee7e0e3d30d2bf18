#include "core/analysis/attention_bench.h"

#include "core/analysis/dense_baseline.h"
#include "core/attention/attention.h"
#include "core/selection/selector.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>
#include <vector>

namespace kvloupe::analysis {
namespace {

constexpr selection::ModelShape kShape = {1, 24, 8, 128};
constexpr std::int64_t kChunkLen = 128;
constexpr const char* kMethod = "quoka:budget_tokens=1024,num_queries=16";

selection::Cell random_cell(std::int64_t past_len) {
  at::manual_seed(1);
  selection::Cell cell;
  cell.chunk = static_cast<int>(past_len / kChunkLen);
  cell.past_len = past_len;
  cell.chunk_len = kChunkLen;
  cell.softmax_scale = 1 / std::sqrt(static_cast<double>(kShape.head_dim));
  cell.q = at::randn({kShape.num_q_heads, kChunkLen, kShape.head_dim});
  cell.k = at::randn({kShape.num_kv_heads, past_len + kChunkLen, kShape.head_dim});
  cell.v = at::randn({kShape.num_kv_heads, past_len + kChunkLen, kShape.head_dim});
  return cell;
}

enum Part : std::size_t { kSelect, kAttend, kFirstDense };

}  // namespace

AttentionBench bench_attention(std::int64_t past_len, int repetitions, const WorkContext& context) {
  const selection::Cell cell = random_cell(past_len);
  const auto spec = selection::MethodSpec::parse(kMethod).resolved(kShape);
  const auto selector = selection::make_selector(spec, kShape);
  std::vector<std::vector<std::int32_t>> selected;
  std::vector<TimedPart> parts = {{"select",
                                   [&] {
                                     selected.clear();
                                     for (auto& row : selector->select(cell).rows)
                                       selected.push_back(std::move(row.positions));
                                   }},
                                  {"attend", [&] {
                                     attention::gathered_chunk_attention(
                                         cell.q, cell.k, cell.v, cell.softmax_scale, selected,
                                         attention::ChunkVisibility::OpenChunk);
                                   }}};
  const DenseBaseline baseline(cell.q, cell.k, cell.v, cell.softmax_scale);
  for (TimedPart& part : baseline.parts()) parts.push_back(std::move(part));

  RoundOptions options;
  options.repetitions = repetitions;
  const RoundTimes times = time_rounds(parts, options, context, [&](const RoundTimes& so_far) {
    context.report(so_far.stats(kSelect).samples, repetitions, "rounds");
  });
  std::vector<double> sparse;
  for (std::size_t i = 0; i < times.samples_ms[kSelect].size(); ++i) {
    sparse.push_back(times.samples_ms[kSelect][i] + times.samples_ms[kAttend][i]);
  }
  const std::size_t dense = fastest_of(times, kFirstDense, parts.size() - kFirstDense);
  AttentionBench bench;
  bench.past_len = past_len;
  bench.method = spec.canonical();
  bench.sparse = stats_of(std::move(sparse));
  bench.select = times.stats(kSelect);
  bench.dense = times.stats(dense);
  bench.dense_variant = parts[dense].name;
  bench.key_bytes = static_cast<double>(cell.k.nbytes());
  bench.discarded = times.discarded;
  return bench;
}

}  // namespace kvloupe::analysis
