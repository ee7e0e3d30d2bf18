#include "core/calibration/pattern_search.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/selection/blocks/attention_patterns.h"
#include "core/selection/blocks/block_means.h"
#include "core/selection/blocks/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/session/session_tensors.h"
#include "core/trace/write/part_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace kvloupe::calibration {
namespace {

using selection::BlockGrid;
using selection::Cell;
using selection::HeadPattern;
using selection::PatternType;

// The pattern of heads without an entry, and candidates in sizes that suit a text of this length.
std::vector<HeadPattern> candidates_for(std::int64_t length) {
  std::vector<HeadPattern> candidates = {HeadPattern{}};
  std::set<std::int64_t> columns = {30}, slashes = {50, 100};
  for (const std::int64_t part : {64, 32, 16, 8, 4})
    columns.insert(std::max<std::int64_t>(30, length / part));
  for (const std::int64_t part : {32, 16, 8, 4})
    slashes.insert(std::max<std::int64_t>(50, length / part));
  for (const std::int64_t vertical : columns)
    for (const std::int64_t slash : slashes) {
      candidates.push_back({PatternType::VerticalSlash, vertical, slash, 0});
      candidates.push_back({PatternType::StreamLlm, vertical, slash, 0});
    }
  candidates.push_back({PatternType::BlockSparse, 0, 0, 0});
  return candidates;
}

// Attention that each past key receives from the chunk's rows in one head, [P].
std::vector<double> past_mass(const Cell& cell, std::int64_t head) {
  const at::Tensor p = selection::attention_of_head(cell, head);
  return selection::on_host<double>(p.sum(0, false, at::kDouble).slice(0, 0, cell.past_len));
}

// Past keys that the head attends to, marked.
std::vector<std::uint8_t> past_keys(const Cell& cell, const HeadPattern& pattern,
                                    const selection::ObservedAttention& observed,
                                    const std::vector<std::vector<float>>& products) {
  const BlockGrid grid = grid_of(cell, selection::kBlockSizeOfPatterns);
  if (pattern.type != PatternType::BlockSparse)
    return covered_keys(lines_of(pattern, observed), grid, 0, grid.chunk_len);
  std::vector<std::uint8_t> keys(static_cast<std::size_t>(grid.kv_len()), 0);
  for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
    for (const std::int32_t j : selection::best_blocks(products, grid, cell.softmax, i))
      std::fill(keys.begin() + grid.key_begin(j), keys.begin() + grid.key_end(j), std::uint8_t{1});
  return keys;
}

PatternQuality quality_of(const std::vector<std::uint8_t>& keys, const std::vector<double>& mass) {
  double kept = 0, whole = 0, count = 0;
  for (std::size_t key = 0; key < mass.size(); ++key) {
    whole += mass[key];
    if (keys[key] == 0) continue;
    kept += mass[key];
    ++count;
  }
  return {whole > 0 ? kept / whole : 1.0, count / static_cast<double>(mass.size())};
}

// [head][candidate], means over the chunks with a past.
using Qualities = std::vector<std::vector<PatternQuality>>;

Qualities measure_layer(const session::TraceSession& session, int layer,
                        const std::vector<HeadPattern>& candidates, const CancelToken& cancel) {
  const auto& chunks = session.info().chunks;
  selection::BlockMeans means(selection::kBlockSizeOfPatterns);
  Qualities sums(static_cast<std::size_t>(session.info().model.num_q_heads),
                 std::vector<PatternQuality>(candidates.size()));
  double count = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    cancel.throw_if_cancelled();
    if (chunks[i].phase != trace::Phase::Prefill || chunks[i].begin == 0) continue;
    ++count;
    const Cell cell = session::load_cell(session, layer, static_cast<int>(i), chunks[i]);
    const at::Tensor key_means = means.of(cell);
    const BlockGrid grid = grid_of(cell, selection::kBlockSizeOfPatterns);
    const std::vector<selection::ObservedAttention> observed = observe_attention(cell);
    const std::int64_t operations =
        cell.chunk_len * cell.kv_len() * cell.q.size(2) +
        static_cast<std::int64_t>(candidates.size()) * cell.kv_len() * 16;
    selection::for_each_item(cell.num_q_heads(), operations, [&](std::int64_t head) {
      const std::vector<double> mass = past_mass(cell, head);
      const auto products =
          selection::block_products(cell, grid, key_means, {head})[static_cast<std::size_t>(head)];
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        const PatternQuality quality =
            quality_of(past_keys(cell, candidates[c], observed[head], products), mass);
        sums[head][c].recall += quality.recall;
        sums[head][c].density += quality.density;
      }
    });
  }
  for (auto& head : sums)
    for (PatternQuality& quality : head)
      quality = {quality.recall / count, quality.density / count};
  return sums;
}

// The candidate of largest recall that is small enough, the smaller of equals; else the smallest.
std::size_t best_of(const std::vector<PatternQuality>& qualities, double max_density) {
  std::size_t best = 0;
  const auto fits = [&](std::size_t c) { return qualities[c].density <= max_density; };
  const auto better = [&](std::size_t a, std::size_t b) {
    if (fits(a) != fits(b)) return fits(a);
    if (!fits(a)) return qualities[a].density < qualities[b].density;
    if (qualities[a].recall != qualities[b].recall)
      return qualities[a].recall > qualities[b].recall;
    return qualities[a].density < qualities[b].density;
  };
  for (std::size_t c = 1; c < qualities.size(); ++c)
    if (better(c, best)) best = c;
  return best;
}

}  // namespace

PatternSearchReport search_patterns(const PatternSearchOptions& options,
                                    const WorkContext& context) {
  check_calibration_file(options.output, "a pattern file", trace::files_of_trace(options.trace),
                         options.force);
  const session::TraceSession session(options.trace, options.memory);
  const trace::TraceInfo& info = session.info();
  const auto has_past = [](const trace::ChunkInfo& chunk) {
    return chunk.phase == trace::Phase::Prefill && chunk.begin > 0;
  };
  if (std::none_of(info.chunks.begin(), info.chunks.end(), has_past))
    throw input_error("patterns cannot be searched on " + options.trace.string(),
                      "its prompt is one chunk, which has no past",
                      "capture a longer prompt or smaller chunks");
  const std::vector<HeadPattern> candidates = candidates_for(info.num_tokens);
  selection::PatternConfig config(static_cast<std::size_t>(info.model.num_layers));
  PatternSearchReport report;
  report.num_layers = static_cast<int>(info.layers.size());
  for (const int layer : info.layers) {
    const Qualities qualities = measure_layer(session, layer, candidates, context.cancel);
    for (std::size_t head = 0; head < qualities.size(); ++head) {
      const std::size_t best = best_of(qualities[head], options.max_density);
      const PatternQuality& quality = qualities[head][best];
      HeadPattern pattern = candidates[best];
      pattern.score = quality.recall;
      config[static_cast<std::size_t>(layer)][static_cast<int>(head)] = pattern;
      ++report.num_heads;
      ++report.num_heads_of[fmt::format("{} {} {}", name_of(pattern.type), pattern.vertical_size,
                                        pattern.slash_size)];
      if (quality.density > options.max_density) ++report.over_budget;
      report.found.recall += quality.recall;
      report.found.density += quality.density;
      report.fallback.recall += qualities[head][0].recall;
      report.fallback.density += qualities[head][0].density;
    }
    context.report(static_cast<std::int64_t>(&layer - info.layers.data()) + 1, report.num_layers,
                   "searching");
  }
  for (PatternQuality* quality : {&report.found, &report.fallback}) {
    quality->recall /= report.num_heads;
    quality->density /= report.num_heads;
  }
  write_patterns(options.output, config);
  return report;
}

}  // namespace kvloupe::calibration
