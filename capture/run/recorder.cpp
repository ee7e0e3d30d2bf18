// The recorder of a capture.
#include "capture/run/recorder.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/selection/attend.h"

#include <ATen/ATen.h>

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
  ~ScopedTimer() {
    total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The trace's own copy of a tensor: contiguous, in the stored type. The writer holds it while the
// decoder goes on. `half` is what the decoder has rounded already, if it has.
at::Tensor stored_copy(const at::Tensor& tensor, const at::Tensor& half, trace::DType dtype) {
  if (dtype == trace::DType::F16 && half.defined()) return half;
  const auto type = dtype == trace::DType::F16 ? at::kHalf : at::kFloat;
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().dtype(type));
  copy.copy_(tensor);
  return copy;
}

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

std::size_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.nbytes() : 0; }

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

std::uint8_t flag_of(const selection::CellSelection& selection, bool evicting) {
  if (selection.dense_fallback) return trace::kCellDenseFallback;
  // Lane methods that evict nothing keep all keys.
  const bool lanes_alone = selection.lanes && !evicting;
  return selection.dense_reason || lanes_alone ? trace::kCellDenseByRule : 0;
}

// Native masks as a trace stores them; a dense cell attends to all blocks.
std::vector<std::uint8_t> packed_masks(const selection::CellSelection& selection,
                                       const trace::BlockGrid& grid, int num_q_heads) {
  if (!selection.blocks) return trace::packed_causal_mask(grid, num_q_heads);
  KVLOUPE_CHECK(selection.blocks->grid == grid);
  return trace::pack_mask(grid, selection.blocks->mask.values());
}

// The keys that a chunk found alive, and its own.
selection::CellSelection keys_at_hand(const std::vector<selection::RowSelection>& alive_before,
                                      const trace::ChunkInfo& chunk) {
  selection::CellSelection result;
  result.rows = alive_before;
  for (selection::RowSelection& row : result.rows) {
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

Recorder::Recorder(trace::TraceWriter& writer, const trace::ModelInfo& model,
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
  run.block_size = selection::describe_run(method.spec, shape_).block_size;
  KVLOUPE_CHECK(!run.needs_probe || options_.probe_len > 0);
  if (!open_loop) return run;
  for (const int layer : options_.layers) {
    const std::optional<int> source = selection::source_layer(method.spec, shape_, layer);
    if (source && !is_recorded(*source)) run.unrecorded_sources.insert(*source);
  }
  return run;
}

void Recorder::begin_chunk(const trace::ChunkInfo& chunk) {
  chunk_ = chunk;
  ++chunk_idx_;
}

selection::Cell Recorder::cell_of(const AttentionCall& call) const {
  selection::Cell cell;
  cell.layer = call.layer;
  cell.chunk = chunk_idx_;
  cell.past_len = call.past_len;
  cell.chunk_len = call.q.size(1);
  cell.phase = chunk_.phase;
  cell.ends_prefill = chunk_.phase == trace::Phase::Prefill && chunk_.end() == options_.prompt_len;
  cell.softmax_scale = call.softmax_scale;
  cell.q = call.q;
  cell.k = call.k;
  cell.v = call.v;
  return cell;
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
  lane_.submit(novelty.size() * sizeof(float),
               [this, chunk = chunk_, novelty = std::move(novelty)] {
                 writer_.write_novelty(chunk, novelty);
               });
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

void Recorder::store_probe(const AttentionCall& call) {
  at::Tensor q;
  {
    const ScopedTimer timer(times_.copy_seconds);
    q = stored_copy(call.q, call.q_half, options_.dtype).contiguous();
  }
  lane_.submit(bytes_of(q), [this, chunk = chunk_, layer = call.layer, q] {
    writer_.write_probe(chunk, {layer, q.const_data_ptr()});
  });
}

void Recorder::end_chunk(std::vector<std::int32_t> ids, std::vector<std::string> texts) {
  KVLOUPE_CHECK(waiting_.empty());
  probing_ = false;
  lane_.submit(0, [this, chunk = chunk_, ids = std::move(ids), texts = std::move(texts)] {
    writer_.end_chunk(chunk, ids, texts);
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
  const bool want_mass = recorded && options_.store_mass && chunk_.phase == trace::Phase::Prefill;
  attention::DenseResult dense =
      attention::dense_chunk_attention(cell.q, cell.k, cell.v, cell.softmax_scale, want_mass);
  return {std::move(dense.output), std::move(dense.lse), std::move(dense.key_mass)};
}

Recorder::Attended Recorder::attend_closed_loop(const selection::Cell& cell, bool recorded) {
  selection::CellSelection selection = select(*closed_loop_, cell);
  const selection::MethodSpec& spec = options_.closed_loop->spec;
  if (options_.probe_len > 0 && spec.traits().evicts()) alive_before_[cell.layer] = selection.rows;
  Attended attended;
  if (selection.dense_reason && !selection.lanes) {
    attended = attend_dense(cell, recorded);
  } else {
    const ScopedTimer timer(times_.attention_seconds);
    attended.output = selection::attend_selected(spec, model_, cell,
                                                 selection::row_layout(spec, shape_), selection);
    // What a trace says of attention is dense in both modes, so that selections can be judged.
    if (recorded && (options_.store_lse || options_.store_mass)) {
      attention::MassResult dense = attention::chunk_mass(cell.q, cell.k, cell.softmax_scale);
      attended.lse = std::move(dense.lse);
      attended.key_mass = std::move(dense.key_mass);
    }
  }
  settle(*closed_loop_, cell, std::move(selection));
  return attended;
}

selection::CellSelection Recorder::select(Run& run, const selection::Cell& cell) {
  const ScopedTimer timer(times_.selection_seconds);
  return run.selector->select(cell);
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
  const std::uint8_t flag = flag_of(selection, !evicted.empty());
  std::size_t bytes = 0;
  for (selection::RowSelection& row : selection.rows) {
    data.flags.push_back(flag);
    // A cell with a flag means all candidates and stores none of them.
    data.rows.push_back(flag ? std::vector<std::int32_t>{} : std::move(row.positions));
    bytes += data.rows.back().size() * sizeof(std::int32_t);
  }
  if (selection.lanes) {
    const at::Tensor counts = selection.lanes->counts.contiguous();
    data.lane_counts.assign(counts.const_data_ptr<std::int32_t>(),
                            counts.const_data_ptr<std::int32_t>() + counts.numel());
    bytes += data.lane_counts.size() * sizeof(std::int32_t);
  }
  if (run.block_size > 0) {
    data.block_mask = packed_masks(selection, trace::block_grid(chunk_, run.block_size),
                                   static_cast<int>(cell.num_q_heads()));
    bytes += data.block_mask.size();
  }
  data.evicted = std::move(evicted);
  for (const auto& row : data.evicted) bytes += row.size() * sizeof(std::int32_t);
  lane_.submit(bytes,
               [this, chunk = chunk_, data = std::move(data)] { writer_.write_run(chunk, data); });
}

void Recorder::store_layer(const AttentionCall& call, const Attended& attended) {
  at::Tensor q, k, v, lse, key_mass;
  {
    const ScopedTimer timer(times_.copy_seconds);
    const std::int64_t begin = call.past_len, end = begin + chunk_.length;
    q = stored_copy(call.q, call.q_half, options_.dtype);
    k = stored_copy(call.k.slice(1, begin, end), call.k_half, options_.dtype);
    v = stored_copy(call.v.slice(1, begin, end), call.v_half, options_.dtype);
    if (has_non_finite(q) || has_non_finite(k) || has_non_finite(v)) ++marked_cells_;
    if (options_.store_lse) lse = attended.lse.contiguous();
    if (options_.store_mass && chunk_.phase == trace::Phase::Prefill) {
      key_mass = attended.key_mass.contiguous();
    }
  }
  if (!options_.store_qkv) q = k = v = at::Tensor();
  const std::size_t bytes =
      bytes_of(q) + bytes_of(k) + bytes_of(v) + bytes_of(lse) + bytes_of(key_mass);
  lane_.submit(bytes, [this, chunk = chunk_, layer = call.layer, q, k, v, lse, key_mass] {
    const auto data_of = [](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.const_data_ptr() : nullptr;
    };
    trace::LayerChunk data;
    data.layer = layer;
    data.q = data_of(q);
    data.k = data_of(k);
    data.v = data_of(v);
    data.lse = floats_of(lse);
    data.key_mass = floats_of(key_mass);
    writer_.write_layer(chunk, data);
  });
}

}  // namespace kvloupe::capture
