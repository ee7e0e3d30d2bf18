// The recorder of a capture.
#include "capture/run/recorder.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/base/seconds_since.h"
#include "core/selection/attend.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace kvloupe::capture {
namespace {

// Holds some hundred layers of a small model's chunk, one or two of a large one's.
constexpr std::size_t kMaxQueuedBytes = std::size_t{128} << 20;

class ScopedTimer {
 public:
  explicit ScopedTimer(double& total) : total_(total) {}
  ~ScopedTimer() { total_ += seconds_since(begin_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A NaN or Inf has all exponent bits set. No early exit: the plain loop is vectorised.
template <typename Bits>
bool any_non_finite(const void* data, std::int64_t count, Bits exponent_mask) {
  const auto* bits = static_cast<const Bits*>(data);
  Bits found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    found = static_cast<Bits>(found | Bits((bits[i] & exponent_mask) == exponent_mask));
  }
  return found != 0;
}

bool has_non_finite(const at::Tensor& stored) {
  if (stored.scalar_type() == at::kHalf) {
    return any_non_finite<std::uint16_t>(stored.const_data_ptr(), stored.numel(), 0x7C00);
  }
  return any_non_finite<std::uint32_t>(stored.const_data_ptr(), stored.numel(), 0x7F800000);
}

std::size_t record_bytes(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.nbytes() : 0;
}

const float* floats_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

trace::RunInfo run_info(int id, const RecordedMethod& method, trace::LoopMode mode,
                        const selection::ModelShape& shape,
                        const std::vector<std::int32_t>& prompt) {
  trace::RunInfo run = selection::describe_run(method.spec, shape);
  run.id = id;
  run.mode = mode;
  if (method.basis) {
    run.basis_source = method.basis->source;
    run.basis_hash = method.basis->source_hash;
    run.basis_leakage = trace::shares_text(*method.basis, prompt);
  }
  return run;
}

// What a record weighs while it waits to be written.
std::size_t record_bytes(const trace::RunChunk& data) {
  std::size_t values = data.record.lane_counts.size();
  for (const trace::SelectedRow& row : data.record.rows)
    values += row.positions.size() + row.forced.size();
  for (const auto& row : data.evicted) values += row.size();
  std::size_t bytes = values * sizeof(std::int32_t);
  if (data.record.blocks)
    bytes += data.record.blocks->kept.size() + data.record.blocks->forced.size();
  return bytes;
}

// The keys that a chunk found alive, and its own.
selection::CellSelection keys_at_hand(const std::vector<trace::SelectedRow>& alive_before,
                                      const trace::ChunkInfo& chunk) {
  selection::CellSelection result;
  result.rows = alive_before;
  for (trace::SelectedRow& row : result.rows) {
    for (std::int32_t j = chunk.begin; j < chunk.end(); ++j) row.positions.push_back(j);
  }
  return result;
}

}  // namespace

std::vector<trace::RunInfo> runs_of(const RecorderOptions& options, const trace::ModelInfo& model,
                                    const std::vector<std::int32_t>& prompt) {
  const selection::ModelShape shape = selection::shape_of(model);
  std::vector<trace::RunInfo> runs;
  if (options.closed_loop) {
    runs.push_back(run_info(0, *options.closed_loop, trace::LoopMode::ClosedLoop, shape, prompt));
  }
  for (const RecordedMethod& method : options.open_loop) {
    const int id = static_cast<int>(runs.size());
    runs.push_back(run_info(id, method, trace::LoopMode::OpenLoop, shape, prompt));
  }
  return runs;
}

Recorder::Recorder(trace::TraceWriter* writer, const trace::ModelInfo& model,
                   RecorderOptions options)
    : writer_(writer),
      model_(model),
      options_(std::move(options)),
      shape_(selection::shape_of(model)),
      lane_(kMaxQueuedBytes) {
  int id = 0;
  if (options_.closed_loop) closed_loop_ = make_run(*options_.closed_loop, id++, false);
  for (const RecordedMethod& method : options_.open_loop) {
    open_loop_.push_back(make_run(method, id++, true));
  }
}

Recorder::~Recorder() = default;

Recorder::Run Recorder::make_run(const RecordedMethod& method, int id, bool open_loop) const {
  Run run;
  run.id = id;
  run.selector = selection::make_selector(method.spec, shape_, method.basis);
  run.needs_probe = method.spec.traits().needs_probe;
  KVLOUPE_CHECK(!run.needs_probe || options_.probe_len > 0);
  if (!open_loop) return run;
  for (const int layer : options_.layers) {
    const std::optional<int> source = selection::source_layer(method.spec, shape_, layer);
    if (source && !is_recorded(*source)) run.unrecorded_sources.insert(*source);
  }
  return run;
}

void Recorder::begin_chunk(const trace::ChunkInfo& chunk, const trace::TraceReader* recorded) {
  chunk_ = chunk;
  chunk_begin_ = std::chrono::steady_clock::now();
  recorded_ = recorded;
  ++chunk_idx_;
  if (closed_loop_) closed_loop_->selector->forget_before(chunk_idx_);
  for (Run& run : open_loop_) run.selector->forget_before(chunk_idx_);
  kept_.resize(static_cast<std::size_t>(chunk_idx_) + 1);
}

void Recorder::recall(int chunk_idx, const trace::ChunkInfo& chunk, const AttentionCall& call,
                      const at::Tensor& probe_q) {
  const c10::InferenceMode no_gradients;
  chunk_ = chunk;
  chunk_idx_ = chunk_idx;
  selection::Cell cell = cell_of(call);
  const auto see = [&](Run& run, const RecordedMethod& method) {
    if (!method.spec.traits().evicts()) return;
    run.selector->select(cell);
    if (run.needs_probe && chunk.phase == trace::Phase::Prefill) {
      cell.probe_q = probe_q;
      cell.novelty =
          at::tensor(std::vector<float>(novelty_.begin(), novelty_.begin() + chunk.end()));
    }
    run.selector->evict(cell);
  };
  if (closed_loop_) see(*closed_loop_, *options_.closed_loop);
  for (std::size_t i = 0; i < open_loop_.size(); ++i) see(open_loop_[i], options_.open_loop[i]);
}

bool Recorder::evicts() const {
  const auto evicting = [](const RecordedMethod& method) { return method.spec.traits().evicts(); };
  return (options_.closed_loop && evicting(*options_.closed_loop)) ||
         std::any_of(options_.open_loop.begin(), options_.open_loop.end(), evicting);
}

void Recorder::submit(std::size_t bytes, std::function<void()> work) {
  if (writer_ != nullptr && recorded_ == nullptr) lane_.submit(bytes, std::move(work));
}

selection::Cell Recorder::cell_of(const AttentionCall& call) {
  selection::Cell cell;
  cell.layer = call.layer;
  cell.chunk = chunk_idx_;
  cell.past_len = call.past_len;
  cell.chunk_len = call.q.size(1);
  cell.phase = chunk_.phase;
  cell.ends_prefill = chunk_.phase == trace::Phase::Prefill && chunk_.end() == options_.prefill_len;
  cell.softmax = call.softmax;
  cell.q = call.q;
  cell.k = call.k;
  cell.v = call.v;
  auto& copies = key_copies_[call.layer];
  if (!copies) copies = std::make_shared<selection::KeyCopies>();
  cell.copies = copies;
  return cell;
}

namespace {

Error computes_otherwise(const std::string& path, int layer, int chunk) {
  return input_error(
      "cannot go on with " + path,
      fmt::format("layer {} of chunk {}, run again, is not what was recorded", layer, chunk),
      "resume with the version, machine and --threads that began it, or capture anew");
}

}  // namespace

void Recorder::require_recorded(trace::Stored what, int layer, const at::Tensor& rows) const {
  if (!recorded_->has_stored(what, layer)) return;
  at::Tensor there = at::empty(rows.sizes(), at::kFloat);
  for (std::int64_t head = 0; head < rows.size(0); ++head) {
    recorded_->read_rows(what, layer, static_cast<int>(head), chunk_.begin, chunk_.end(),
                         there[head].data_ptr<float>());
  }
  if (!at::allclose(there, rows.to(at::kFloat), 0, 0, /*equal_nan=*/true))
    throw computes_otherwise(recorded_->info().path, layer, chunk_idx_);
}

void Recorder::require_recorded(const trace::RunChunk& data) const {
  const trace::CellRecord there =
      recorded_->read_run(data.run, data.layer, chunk_idx_).cells.front();
  const auto same_keys = [](const trace::SelectedRow& a, const trace::SelectedRow& b) {
    return a.positions == b.positions;
  };
  // What a dense cell keeps is the flags' business.
  if (there.dense_reason || data.record.dense_reason) return;
  if (!std::equal(there.rows.begin(), there.rows.end(), data.record.rows.begin(),
                  data.record.rows.end(), same_keys))
    throw computes_otherwise(recorded_->info().path, data.layer, chunk_idx_);
}

at::Tensor Recorder::attend(const AttentionCall& call) {
  if (probing_) return attend_probe(call);
  KVLOUPE_CHECK(call.past_len == chunk_.begin && call.q.size(1) == chunk_.length);
  const bool recorded = is_recorded(call.layer);
  const selection::Cell cell = cell_of(call);
  const Attended attended =
      closed_loop_ ? attend_closed_loop(cell, recorded) : attend_dense(cell, recorded);
  for (Run& run : open_loop_) {
    if (recorded) {
      settle(run, cell, select(run, cell));
    } else if (run.unrecorded_sources.contains(call.layer)) {
      select(run, cell);
    }
  }
  if (recorded) store_layer(call, attended);
  return attended.output;
}

void Recorder::add_novelty(std::vector<float> novelty) {
  KVLOUPE_CHECK(novelty.size() == static_cast<std::size_t>(chunk_.length));
  novelty_.insert(novelty_.end(), novelty.begin(), novelty.end());
  const std::size_t bytes = novelty.size() * sizeof(float);
  submit(bytes, [this, chunk = chunk_, novelty = std::move(novelty)] {
    writer_->write<float>(trace::Field::Nll, chunk, novelty);
  });
}

void Recorder::add_top(trace::TopTokens top) {
  submit(trace::kTopTokens * 8,
         [this, chunk = chunk_, top = std::move(top)] { writer_->write_top(chunk, top); });
}

void Recorder::add_drift(trace::DriftChunk drift) {
  const std::size_t bytes = drift.kl.size() * 9;
  submit(bytes,
         [this, chunk = chunk_, drift = std::move(drift)] { writer_->write_drift(chunk, drift); });
}

void Recorder::begin_probe() {
  KVLOUPE_CHECK(chunk_.phase == trace::Phase::Prefill);
  KVLOUPE_CHECK(novelty_.size() == static_cast<std::size_t>(chunk_.end()));
  novelty_tensor_ = at::tensor(novelty_);
  probing_ = true;
}

at::Tensor Recorder::attend_probe(const AttentionCall& call) {
  KVLOUPE_CHECK(call.past_len == chunk_.end() && call.q.size(1) == options_.probe_len);
  at::Tensor output = probe_attention(call);
  if (is_recorded(call.layer)) store_probe(call);
  for (Waiting& waiting : waiting_) {
    if (waiting.cell.layer != call.layer) continue;
    waiting.cell.probe_q = call.q;
    waiting.cell.novelty = novelty_tensor_;
    evict_and_store(*waiting.run, waiting.cell, std::move(waiting.selection));
  }
  std::erase_if(waiting_, [&](const Waiting& each) { return each.cell.layer == call.layer; });
  return output;
}

at::Tensor Recorder::probe_attention(const AttentionCall& call) {
  const auto alive = alive_before_.find(call.layer);
  if (alive == alive_before_.end()) return attend_dense(cell_of(call), false).output;
  const ScopedTimer timer(times_.attention_seconds);
  const selection::MethodSpec& spec = options_.closed_loop->spec;
  return selection::attend_selected(spec, model_, cell_of(call),
                                    selection::row_layout(spec, shape_),
                                    keys_at_hand(alive->second, chunk_));
}

// The writer holds it while the decoder goes on. `half` is what the decoder has rounded already, if it
// has.
at::Tensor Recorder::stored_copy(const at::Tensor& tensor, const at::Tensor& half) {
  const bool f16 = options_.dtype == trace::DType::F16;
  if (f16 && half.defined()) return copies_.of(half);
  const auto type = f16 ? at::kHalf : at::kFloat;
  if (!tensor.is_cpu()) return copies_.of(tensor.to(type));
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().dtype(type));
  copy.copy_(tensor);
  return copy;
}

void Recorder::store_probe(const AttentionCall& call) {
  at::Tensor q;
  {
    const ScopedTimer timer(times_.copy_seconds);
    q = stored_copy(call.q, call.q_half);
  }
  copies_.then([this, layer = call.layer, q] {
    submit(record_bytes(q), [this, chunk = chunk_, layer, q] {
      writer_->write_probe(chunk, {layer, q.const_data_ptr()});
    });
  });
}

void Recorder::end_chunk(std::vector<std::int32_t> ids, std::vector<std::string> texts) {
  KVLOUPE_CHECK(waiting_.empty());
  probing_ = false;
  copies_.finish();
  submit(0, [this, chunk = chunk_, ids = std::move(ids), texts = std::move(texts),
             seconds = static_cast<float>(seconds_since(chunk_begin_))] {
    writer_->write<float>(trace::Field::ChunkSeconds, chunk, {&seconds, 1});
    writer_->end_chunk(chunk, ids, texts);
  });
}

void Recorder::finish() { lane_.drain(); }

RecorderTimes Recorder::times() const {
  RecorderTimes times = times_;
  times.wait_seconds = lane_.waited_seconds();
  return times;
}

bool Recorder::is_recorded(int layer) const {
  return std::binary_search(options_.layers.begin(), options_.layers.end(), layer);
}

Recorder::Attended Recorder::attend_dense(const selection::Cell& cell, bool recorded) {
  const ScopedTimer timer(times_.attention_seconds);
  const bool want_mass =
      recorded && options_.store.has(trace::Part::Mass) && chunk_.phase == trace::Phase::Prefill;
  attention::DenseResult dense =
      attention::dense_chunk_attention(cell.q, cell.k, cell.v, cell.softmax, want_mass);
  return {std::move(dense.output), std::move(dense.lse), std::move(dense.key_mass)};
}

Recorder::Attended Recorder::attend_closed_loop(const selection::Cell& cell, bool recorded) {
  selection::CellSelection selection = select(*closed_loop_, cell);
  const selection::MethodSpec& spec = options_.closed_loop->spec;
  if (options_.probe_len > 0 && spec.traits().evicts()) alive_before_[cell.layer] = selection.rows;
  if (!selection.dense_reason) count_kept(selection);
  Attended attended;
  if (selection.dense_reason && !selection.lanes) {
    attended = attend_dense(cell, recorded);
  } else {
    const ScopedTimer timer(times_.attention_seconds);
    attended.output = selection::attend_selected(spec, model_, cell,
                                                 selection::row_layout(spec, shape_), selection);
    // What a trace says of attention is dense in both modes, so that selections can be judged.
    if (recorded &&
        (options_.store.has(trace::Part::Lse) || options_.store.has(trace::Part::Mass))) {
      attention::MassResult dense = attention::chunk_mass(cell.q, cell.k, cell.softmax);
      attended.lse = std::move(dense.lse);
      attended.key_mass = std::move(dense.key_mass);
    }
  }
  settle(*closed_loop_, cell, std::move(selection));
  return attended;
}

void Recorder::count_kept(const selection::CellSelection& selection) {
  KeptKeys& kept = kept_.back();
  if (selection.pending) {
    kept.keys += selection.pending->indices.numel();
    kept.rows += selection.pending->indices.size(0);
  }
  for (const trace::SelectedRow& row : selection.rows) kept.keys += std::ssize(row.positions);
  kept.rows += std::ssize(selection.rows);
}

selection::CellSelection Recorder::select(Run& run, const selection::Cell& cell) {
  const ScopedTimer timer(times_.selection_seconds);
  return run.selector->select_there(cell);
}

void Recorder::settle(Run& run, const selection::Cell& cell, selection::CellSelection selection) {
  if (run.needs_probe && cell.phase == trace::Phase::Prefill) {
    waiting_.push_back({&run, cell, std::move(selection)});
  } else {
    evict_and_store(run, cell, std::move(selection));
  }
}

void Recorder::evict_and_store(Run& run, const selection::Cell& cell,
                               selection::CellSelection selection) {
  std::vector<std::vector<std::int32_t>> evicted;
  {
    const ScopedTimer timer(times_.selection_seconds);
    evicted = run.selector->evict(cell);
  }
  if (is_recorded(cell.layer)) {
    store_selection(run, cell, std::move(selection), std::move(evicted));
  }
}

void Recorder::store_selection(const Run& run, const selection::Cell& cell,
                               selection::CellSelection selection,
                               std::vector<std::vector<std::int32_t>> evicted) {
  trace::RunChunk data;
  data.run = run.id;
  data.layer = cell.layer;
  {
    const ScopedTimer timer(times_.selection_seconds);
    selection::bring_rows(selection);
  }
  data.record = std::move(selection);
  data.evicted = std::move(evicted);
  if (recorded_ != nullptr) return require_recorded(data);
  const std::size_t bytes = record_bytes(data);
  submit(bytes,
         [this, chunk = chunk_, data = std::move(data)] { writer_->write_run(chunk, data); });
}

void Recorder::store_layer(const AttentionCall& call, const Attended& attended) {
  StoredRows rows;
  {
    const ScopedTimer timer(times_.copy_seconds);
    const std::int64_t begin = call.past_len, end = begin + chunk_.length;
    rows.q = stored_copy(call.q, call.q_half);
    rows.k = stored_copy(call.k.slice(1, begin, end), call.k_half);
    rows.v = stored_copy(call.v.slice(1, begin, end), call.v_half);
    if (options_.store.has(trace::Part::Lse)) rows.lse = copies_.of(attended.lse);
    if (options_.store.has(trace::Part::Mass) && chunk_.phase == trace::Phase::Prefill)
      rows.key_mass = copies_.of(attended.key_mass);
  }
  copies_.then([this, layer = call.layer, rows] { check_and_submit(layer, rows); });
}

void Recorder::check_and_submit(int layer, StoredRows rows) {
  {
    const ScopedTimer timer(times_.copy_seconds);
    if (has_non_finite(rows.q) || has_non_finite(rows.k) || has_non_finite(rows.v)) ++marked_cells_;
  }
  if (recorded_ != nullptr) {
    require_recorded(trace::Stored::Q, layer, rows.q);
    require_recorded(trace::Stored::K, layer, rows.k);
    require_recorded(trace::Stored::V, layer, rows.v);
    return;
  }
  if (!options_.store.has(trace::Part::Qkv)) rows.q = rows.k = rows.v = at::Tensor();
  const std::size_t bytes = record_bytes(rows.q) + record_bytes(rows.k) + record_bytes(rows.v) +
                            record_bytes(rows.lse) + record_bytes(rows.key_mass);
  submit(bytes, [this, chunk = chunk_, layer, rows = std::move(rows)] {
    const auto data_of = [](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.const_data_ptr() : nullptr;
    };
    trace::LayerChunk data;
    data.layer = layer;
    data.q = data_of(rows.q);
    data.k = data_of(rows.k);
    data.v = data_of(rows.v);
    data.lse = floats_of(rows.lse);
    data.key_mass = floats_of(rows.key_mass);
    writer_->write_layer(chunk, data);
  });
}

}  // namespace kvloupe::capture
