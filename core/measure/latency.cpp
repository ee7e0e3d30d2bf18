#include "core/measure/latency.h"

#include "core/attention/attention.h"
#include "core/attention/paged_attention.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/timing.h"
#include "core/replay/replay.h"
#include "core/replay/trace_basis.h"
#include "core/selection/attend.h"
#include "core/selection/page_tables.h"
#include "core/selection/reassigned_keys.h"
#include "core/selection/selector.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace kvloupe::measure {
namespace {

using selection::Cell;
using Rows = std::vector<std::vector<std::int32_t>>;

// A piece of the cell that attends to one gathering: all KV heads at once, or, for methods whose
// rows are query heads or sub-groups, one row.
struct Piece {
  std::int64_t first_q_head = 0, q_heads = 0;
  at::Tensor k, v;
  std::size_t first_row = 0, num_rows = 0;
};

std::vector<Piece> pieces_of(const Cell& cell, const selection::RowLayout& layout) {
  if (layout.axis == trace::RowAxis::KvHead) {
    return {
        {0, cell.num_q_heads(), cell.k, cell.v, 0, static_cast<std::size_t>(cell.num_kv_heads())}};
  }
  std::vector<Piece> pieces;
  for (std::int64_t head = 0; head < cell.num_q_heads(); head += layout.q_heads_per_row) {
    const std::int64_t kv_head = head / cell.gqa_group_size();
    pieces.push_back({head, layout.q_heads_per_row, cell.k.narrow(0, kv_head, 1),
                      cell.v.narrow(0, kv_head, 1), pieces.size(), 1});
  }
  return pieces;
}

// The layers before `layer` whose set it reuses, the first one first.
std::vector<int> source_layers(const selection::MethodSpec& spec,
                               const selection::ModelShape& shape, int layer) {
  std::vector<int> sources;
  for (auto source = selection::source_layer(spec, shape, layer); source;
       source = selection::source_layer(spec, shape, *source))
    sources.insert(sources.begin(), *source);
  return sources;
}

// One method on one cell, in the three steps that are timed apart. Selection is all that the method
// does for a chunk: what it selects, prunes and evicts. Attention is that of attend_selected().
class MethodRun {
 public:
  MethodRun(const session::TraceSession& session, const selection::MethodSpec& spec, int layer,
            int chunk, const WorkContext& context)
      : session_(session),
        spec_(spec.resolved(session.shape())),
        layer_(layer),
        layout_(selection::row_layout(spec_, session.shape())),
        cell_(load(layer, chunk)),
        pieces_(pieces_of(cell_, layout_)) {
    const std::vector<int> sources = source_layers(spec_, session.shape(), layer);
    check_servable(chunk, context);
    std::vector<int> layers = sources;
    layers.push_back(layer);
    basis_ = replay::basis_for(session, spec_, layers, context);
    // What the timed cell's choice rests on is replayed before each round: the chunks before it
    // under eviction; the last of them where pages or blocks are summarised as keys come in; the
    // layers that it reuses.
    int first = chunk;
    if (spec_.traits().evicts())
      first = 0;
    else if (spec_.traits().page_size > 0)
      first = std::max(chunk - 1, 0);
    for (int c = first; c < chunk; ++c) earlier_.push_back(load(layer, c));
    for (const int source : sources) earlier_.push_back(load(source, chunk));
  }

  const Cell& cell() const { return cell_; }
  const selection::MethodSpec& spec() const { return spec_; }

  void prepare(const WorkContext& context) {
    selector_ = selection::make_selector(spec_, session_.shape(), basis_);
    for (const Cell& cell : earlier_) {
      context.cancel.throw_if_cancelled();
      selector_->select(cell);
      selector_->evict(cell);
    }
  }

  void select() {
    selected_ = selector_->select(cell_);
    selector_->evict(cell_);
  }

  bool paged() const { return tables_.has_value(); }

  void gather() {
    gathered_.clear();
    tables_.reset();
    if (reads_whole_cache()) return;  // dense attention reads the cache as it lies
    tables_ = selection::page_tables(spec_, layout_, cell_, selected_);
    if (tables_) return;
    Rows rows;
    for (const selection::RowSelection& row : selected_.rows) rows.push_back(row.positions);
    const bool open = spec_.scope() == selection::BudgetScope::Past;
    const auto visibility =
        open ? attention::ChunkVisibility::OpenChunk : attention::ChunkVisibility::SelfOnly;
    for (const Piece& piece : pieces_) {
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(piece.first_row);
      const Rows own(first, first + static_cast<std::ptrdiff_t>(piece.num_rows));
      const at::Tensor k = selection::attended_keys(spec_, session_.info().model, layer_, piece.k,
                                                    cell_.past_len, own);
      gathered_.push_back(attention::gather_keys(k, piece.v, cell_.chunk_len, own, visibility));
    }
  }

  void attend() {
    const at::Tensor& q = selected_.lanes ? selected_.lanes->queries : cell_.q;
    if (reads_whole_cache()) {
      attention::dense_chunk_attention(q, cell_.k, cell_.v, cell_.softmax_scale, false);
      return;
    }
    if (tables_) {
      attention::paged_chunk_attention(q, cell_.k, cell_.v, cell_.softmax_scale, *tables_);
      return;
    }
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      attention::attend_gathered(q.narrow(0, piece.first_q_head, piece.q_heads), gathered_[i],
                                 cell_.softmax_scale);
    }
  }

 private:
  Cell load(int layer, int chunk) const {
    Cell cell = session::load_cell(session_, layer, chunk, session_.info().chunks[chunk]);
    if (spec_.traits().needs_probe) session::add_probe(session_, cell);
    return cell;
  }

  void check_servable(int chunk, const WorkContext& context) const {
    replay::ReplayRequest request;
    request.spec = spec_;
    request.layers = {layer_};
    request.chunk = chunk;
    if (const auto error = replay::why_unavailable(session_, request, context)) throw *error;
  }

  bool reads_whole_cache() const { return selection::attends_to_every_key(spec_, selected_); }

  const session::TraceSession& session_;
  selection::MethodSpec spec_;
  int layer_;
  selection::RowLayout layout_;
  Cell cell_;
  std::vector<Piece> pieces_;
  std::vector<Cell> earlier_;
  selection::BasisPtr basis_;
  std::unique_ptr<selection::Selector> selector_;
  selection::CellSelection selected_;
  std::vector<attention::GatheredKeys> gathered_;
  std::optional<attention::BlockTables> tables_;
};

enum Part : std::size_t { kSelect, kGather, kAttend, kFirstDense };

void fill(const RoundTimes& times, const std::vector<TimedPart>& parts, LatencyReport* report) {
  report->discarded = times.discarded;
  report->select = times.stats(kSelect);
  report->gather = times.stats(kGather);
  report->attend = times.stats(kAttend);
  std::vector<double> totals;
  for (std::size_t i = 0; i < times.samples_ms[kSelect].size(); ++i) {
    totals.push_back(times.samples_ms[kSelect][i] + times.samples_ms[kGather][i] +
                     times.samples_ms[kAttend][i]);
  }
  report->total = stats_of(std::move(totals));
  const std::size_t dense = fastest_of(times, kFirstDense, parts.size() - kFirstDense);
  report->dense = times.stats(dense);
  report->dense_variant = parts[dense].name;
}

}  // namespace

LatencyReport measure_latency(const session::TraceSession& session,
                              const selection::MethodSpec& spec, int layer, int chunk,
                              const LatencyOptions& options, const WorkContext& context,
                              const std::function<void(const LatencyReport&)>& on_sample) {
  if (chunk < 0 || chunk >= static_cast<int>(session.info().chunks.size())) {
    throw input_error(fmt::format("chunk {} cannot be timed", chunk),
                      fmt::format("the trace has {} chunks", session.info().chunks.size()),
                      "choose a chunk inside the trace");
  }
  MethodRun run(session, spec, layer, chunk, context);
  const Cell& cell = run.cell();
  const DenseBaseline dense(cell.q, cell.k, cell.v, cell.softmax_scale);
  std::vector<TimedPart> parts = {{"select", [&] { run.select(); }},
                                  {"gather", [&] { run.gather(); }},
                                  {"attend", [&] { run.attend(); }}};
  for (TimedPart& part : dense.parts()) parts.push_back(std::move(part));

  LatencyReport report;
  report.method = run.spec().canonical();
  report.device = device::open_device("cpu").label();
  report.dtype = "fp32";
  report.layer = layer;
  report.chunk = chunk;
  report.past_len = cell.past_len;
  report.chunk_len = cell.chunk_len;
  RoundOptions rounds;
  rounds.repetitions = options.repetitions;
  rounds.warm_up = options.warm_up;
  rounds.prepare = [&] { run.prepare(context); };
  const RoundTimes times = time_rounds(parts, rounds, context, [&](const RoundTimes& so_far) {
    fill(so_far, parts, &report);
    report.paged = run.paged();
    context.report(report.total.samples, options.repetitions, "rounds");
    if (on_sample) on_sample(report);
  });
  fill(times, parts, &report);
  report.paged = run.paged();
  report.finished = true;
  return report;
}

}  // namespace kvloupe::measure
