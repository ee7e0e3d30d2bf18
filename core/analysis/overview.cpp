#include "core/analysis/overview.h"

#include "core/analysis/query_geometry.h"
#include "core/analysis/query_relevance.h"
#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/replay/key_life.h"
#include "core/selection/cell_rows.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace kvloupe::analysis {
namespace {

using replay::Number;

constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

std::size_t columns_of(const replay::ReplayCell& cell, Number number) {
  switch (number) {
    case Number::OutputError: return cell.output_error.size();
    case Number::SpanKept: return cell.rows.size();
    default: return cell.metrics.size();
  }
}

// Empty: the cell does not count.
std::optional<double> value_of(const replay::ReplayCell& cell, Number number, std::size_t column,
                               const std::optional<trace::KeySet>& span) {
  switch (number) {
    case Number::MassRecall: return cell.metrics[column].mass_recall;
    case Number::TopkOverlap: return cell.metrics[column].topk_overlap;
    case Number::Gap: return cell.metrics[column].gap;
    case Number::SpanKept: return replay::span_kept(cell, column, span.value());
    default: return cell.output_error[column];
  }
}

bool has(const std::vector<int>& chunks, int chunk) {
  return chunks.empty() || std::binary_search(chunks.begin(), chunks.end(), chunk);
}

bool counts(const replay::ReplayCell& cell, const std::vector<int>& chunks, trace::Phase phase) {
  return !cell.dense_reason && cell.span.phase == phase && has(chunks, cell.chunk);
}

trace::Phase phase_of_mean(const replay::ReplayResult& result, const std::vector<int>& chunks) {
  const auto chooses_in = [&](trace::Phase phase) {
    return std::any_of(result.cells.begin(), result.cells.end(),
                       [&](const replay::ReplayCell& cell) { return counts(cell, chunks, phase); });
  };
  return !chooses_in(trace::Phase::Prefill) && chooses_in(trace::Phase::Decode)
             ? trace::Phase::Decode
             : trace::Phase::Prefill;
}

std::vector<int> chunks_of(const trace::TraceInfo& info, trace::Phase phase,
                           const std::vector<int>& among) {
  std::vector<int> chunks;
  for (int c = 0; c < static_cast<int>(info.chunks.size()); ++c)
    if (info.chunks[static_cast<std::size_t>(c)].phase == phase && has(among, c) &&
        info.has_queries(c))
      chunks.push_back(c);
  return chunks;
}

// Fills the overview with means over the chunks. False where heads were merged in none.
bool fill_merge_losses(const session::TraceSession& session, replay::ExplainRequest request,
                       const std::vector<int>& chunks, Overview& overview,
                       const WorkContext& context) {
  const auto total = overview.values.rows * static_cast<std::int64_t>(chunks.size());
  std::int64_t done = 0;
  bool any = false;
  overview.values.values.clear();
  for (const int layer : overview.layers) {
    std::vector<double> sums(static_cast<std::size_t>(overview.values.cols), 0);
    std::vector<int> cells(sums.size(), 0);
    for (const int c : chunks) {
      context.cancel.throw_if_cancelled();
      request.layer = layer;
      request.chunk = c;
      const auto rows = replay::head_choices_of_rows(session, request, context);
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (rows[row].heads.empty()) continue;
        sums[row] += rows[row].merge_loss();
        ++cells[row];
        any = true;
      }
      context.report(++done, total, "cells");
    }
    for (std::size_t row = 0; row < sums.size(); ++row)
      overview.values.values.push_back(cells[row] > 0 ? static_cast<float>(sums[row] / cells[row])
                                                      : kNoValue);
  }
  return any;
}

// The same from the probabilities themselves, for logits that are not linear in the keys and rows
// that give a share to a sink.
std::vector<float> shaped_row_entropies(const selection::Cell& cell) {
  std::vector<float> entropies;
  for (std::int64_t head = 0; head < cell.num_q_heads(); ++head) {
    const at::Tensor p = selection::attention_of_head(cell, head);
    const at::Tensor terms = at::where(p > 0, p * p.log(), at::zeros_like(p));
    entropies.push_back(-terms.sum(1, false, at::kDouble).mean().item<float>());
  }
  return entropies;
}

// Mean entropy in nats of the rows of each query head. H = lse - sum of p * s, and the sum is the
// score of the query with the attention's mean key: no map of probabilities is needed.
std::vector<float> row_entropies(const selection::Cell& cell) {
  if (!cell.softmax.is_plain()) return shaped_row_entropies(cell);
  const attention::DenseResult mean_key =
      attention::dense_chunk_attention(cell.q, cell.k, cell.k, cell.softmax, false);
  const at::Tensor scores = (cell.q.to(at::kDouble) * mean_key.output.to(at::kDouble)).sum(2);
  const at::Tensor entropy = (mean_key.lse.to(at::kDouble) - cell.softmax.scale * scores)
                                 .mean(1)
                                 .clamp_min(0)
                                 .to(at::kFloat);
  return selection::on_host<float>(entropy);
}

std::vector<float> relevance_pearsons(const selection::Cell& cell, const WorkContext& context) {
  std::vector<float> values;
  for (int head = 0; head < cell.num_q_heads(); ++head) {
    context.cancel.throw_if_cancelled();
    const QueryRelevance relevance = query_relevance_of(cell, head);
    values.push_back(static_cast<float>(pearson(relevance.relevance, relevance.max_attention)));
  }
  return values;
}

// What one cell says of a row or head; nothing: it does not count.
using ValueOf = std::function<std::optional<double>(const replay::ReplayCell&, std::size_t)>;

Matrix means_of(const replay::ReplayResult& result, const std::vector<int>& chunks,
                trace::Phase phase, std::size_t columns, const ValueOf& value_of_cell) {
  const std::size_t rows = result.layers.size();
  std::vector<double> sums(rows * columns, 0);
  std::vector<int> cells(rows * columns, 0);
  for (const replay::ReplayCell& cell : result.cells) {
    const auto layer = std::find(result.layers.begin(), result.layers.end(), cell.layer);
    if (!counts(cell, chunks, phase) || layer == result.layers.end()) continue;
    const auto row = static_cast<std::size_t>(layer - result.layers.begin());
    for (std::size_t column = 0; column < columns; ++column) {
      const auto value = value_of_cell(cell, column);
      if (!value) continue;
      sums[row * columns + column] += *value;
      ++cells[row * columns + column];
    }
  }
  Matrix means{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
               std::vector<float>(sums.size(), kNoValue)};
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (cells[i] > 0) means.values[i] = static_cast<float>(sums[i] / cells[i]);
  return means;
}

}  // namespace

Overview overview_of_replay(const replay::ReplayResult& result, replay::Number number,
                            const std::vector<int>& chunks,
                            const std::optional<trace::KeySet>& span) {
  KVLOUPE_CHECK(needs_method(number) && number != Number::MergeLoss &&
                (span || number != Number::SpanKept));
  Overview overview;
  overview.number = number;
  overview.phase = phase_of_mean(result, chunks);
  overview.layers = result.layers;
  overview.per_kv_head = number != Number::OutputError && result.row_axis == trace::RowAxis::KvHead;
  std::size_t columns = 0;
  for (const replay::ReplayCell& cell : result.cells) {
    columns = std::max(columns, columns_of(cell, number));
    if (!cell.dense_reason && has(chunks, cell.chunk))
      overview.cells.emplace_back(cell.layer, cell.chunk);
  }
  std::ranges::sort(overview.cells);
  overview.values = means_of(result, chunks, overview.phase, columns,
                             [&](const replay::ReplayCell& cell, std::size_t column) {
                               return column < columns_of(cell, number)
                                          ? value_of(cell, number, column, span)
                                          : std::nullopt;
                             });
  return overview;
}

Matrix span_gap_of_replay(const replay::ReplayResult& result, const std::vector<int>& chunks,
                          const trace::KeySet& span) {
  std::size_t columns = 0;
  for (const replay::ReplayCell& cell : result.cells) columns = std::max(columns, cell.rows.size());
  return means_of(result, chunks, phase_of_mean(result, chunks), columns,
                  [&](const replay::ReplayCell& cell, std::size_t column) -> std::optional<double> {
                    if (column >= cell.metrics.size() || !replay::span_kept(cell, column, span))
                      return std::nullopt;
                    return cell.metrics[column].span_gap;
                  });
}

Overview overview_of_merge(const session::TraceSession& session, const selection::MethodSpec& spec,
                           const std::vector<int>& chunks, const std::string& device,
                           const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  Overview overview;
  overview.number = Number::MergeLoss;
  overview.layers = info.layers;
  const selection::RowLayout layout = selection::row_layout(spec, session.shape());
  overview.per_kv_head = layout.axis == trace::RowAxis::KvHead;
  overview.values.rows = static_cast<std::int64_t>(info.layers.size());
  overview.values.cols = info.model.num_q_heads / layout.q_heads_per_row;
  replay::ExplainRequest request;
  request.spec = spec;
  request.device = device;
  const auto fill = [&](const std::vector<int>& asked) {
    return fill_merge_losses(session, request, asked, overview, context);
  };
  if (!fill(chunks_of(info, trace::Phase::Prefill, chunks))) {
    const std::vector<int> steps = chunks_of(info, trace::Phase::Decode, chunks);
    if (!steps.empty() && fill(steps)) overview.phase = trace::Phase::Decode;
  }
  return overview;
}

Overview overview_of_attention(const session::TraceSession& session, replay::Number number,
                               int chunk, const WorkContext& context) {
  KVLOUPE_CHECK(!needs_method(number));
  const trace::TraceInfo& info = session.info();
  if (chunk < 0 || chunk >= static_cast<int>(info.chunks.size())) {
    throw input_error(fmt::format("chunk {} cannot be shown", chunk),
                      fmt::format("the trace has {} chunks", info.chunks.size()),
                      "choose a chunk inside the trace");
  }
  Overview overview;
  overview.number = number;
  overview.layers = info.layers;
  overview.per_kv_head = false;
  overview.values.rows = static_cast<std::int64_t>(info.layers.size());
  overview.values.cols = info.model.num_q_heads;
  for (std::size_t i = 0; i < info.layers.size(); ++i) {
    context.cancel.throw_if_cancelled();
    context.report(static_cast<std::int64_t>(i), overview.values.rows, "layers");
    const selection::Cell cell =
        session::load_cell(session, info.layers[i], chunk, info.chunks[chunk]);
    const std::vector<float> row =
        number == Number::Entropy ? row_entropies(cell) : relevance_pearsons(cell, context);
    overview.values.values.insert(overview.values.values.end(), row.begin(), row.end());
  }
  context.report(overview.values.rows, overview.values.rows, "layers");
  return overview;
}

}  // namespace kvloupe::analysis
