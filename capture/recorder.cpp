// The recorder of a capture.
#include "capture/recorder.h"

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

trace::RunInfo run_info(int id, const selection::MethodSpec& spec, trace::LoopMode mode,
                        const selection::ModelShape& shape) {
  const selection::RowLayout layout = selection::row_layout(spec, shape);
  trace::RunInfo run;
  run.id = id;
  run.method = spec.canonical();
  run.mode = mode;
  run.row_axis = layout.axis;
  run.q_heads_per_row = layout.q_heads_per_row;
  run.granularity = spec.info().granularity;
  run.state_action = spec.state_action();
  return run;
}

std::uint8_t flag_of(const selection::CellSelection& selection) {
  if (selection.dense_fallback) return trace::kCellDenseFallback;
  return selection.dense_reason ? trace::kCellDenseByRule : 0;
}

}  // namespace

std::vector<trace::RunInfo> runs_of(const RecorderOptions& options, const trace::ModelInfo& model) {
  const selection::ModelShape shape = selection::shape_of(model);
  std::vector<trace::RunInfo> runs;
  if (options.closed_loop) {
    runs.push_back(run_info(0, *options.closed_loop, trace::LoopMode::ClosedLoop, shape));
  }
  for (const selection::MethodSpec& spec : options.open_loop) {
    const int id = static_cast<int>(runs.size());
    runs.push_back(run_info(id, spec, trace::LoopMode::OpenLoop, shape));
  }
  return runs;
}

Recorder::Recorder(trace::TraceWriter& writer, const trace::ModelInfo& model,
                   RecorderOptions options)
    : writer_(writer), model_(model), options_(std::move(options)), lane_(kMaxQueuedBytes) {
  const selection::ModelShape shape = selection::shape_of(model);
  int id = 0;
  if (options_.closed_loop) {
    closed_loop_ = selection::make_selector(*options_.closed_loop, shape);
    ++id;
  }
  for (const selection::MethodSpec& spec : options_.open_loop) {
    open_loop_.push_back({id++, selection::make_selector(spec, shape)});
  }
}

Recorder::~Recorder() = default;

void Recorder::begin_chunk(const trace::ChunkInfo& chunk) {
  chunk_ = chunk;
  ++chunk_idx_;
}

at::Tensor Recorder::attend(const AttentionCall& call) {
  KVLOUPE_CHECK(call.past_len == chunk_.begin && call.q.size(1) == chunk_.length);
  const bool recorded = is_recorded(call.layer);
  selection::Cell cell;
  cell.layer = call.layer;
  cell.chunk = chunk_idx_;
  cell.past_len = call.past_len;
  cell.chunk_len = chunk_.length;
  cell.phase = chunk_.phase;
  cell.softmax_scale = call.softmax_scale;
  cell.q = call.q;
  cell.k = call.k;
  cell.v = call.v;

  const Attended attended =
      closed_loop_ ? attend_closed_loop(cell, recorded) : attend_dense(cell, recorded);
  if (recorded) {
    for (OpenLoopRun& run : open_loop_) {
      selection::CellSelection selection = select(*run.selector, cell);
      store_selection(run.id, cell, std::move(selection), evict(*run.selector, cell));
    }
    store_layer(call, attended);
  }
  return attended.output;
}

void Recorder::end_chunk(std::vector<std::int32_t> ids, std::vector<std::string> texts) {
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
  Attended attended;
  if (selection.dense_reason && !selection.lanes) {
    attended = attend_dense(cell, recorded);
  } else {
    const ScopedTimer timer(times_.attention_seconds);
    const selection::RowLayout layout =
        selection::row_layout(*options_.closed_loop, selection::shape_of(model_));
    attended.output =
        selection::attend_selected(*options_.closed_loop, model_, cell, layout, selection);
    // What a trace says of attention is dense in both modes, so that selections can be judged.
    if (recorded && (options_.store_lse || options_.store_mass)) {
      attention::MassResult dense = attention::chunk_mass(cell.q, cell.k, cell.softmax_scale);
      attended.lse = std::move(dense.lse);
      attended.key_mass = std::move(dense.key_mass);
    }
  }
  auto evicted = evict(*closed_loop_, cell);
  if (recorded) store_selection(0, cell, std::move(selection), std::move(evicted));
  return attended;
}

selection::CellSelection Recorder::select(selection::Selector& selector,
                                          const selection::Cell& cell) {
  const ScopedTimer timer(times_.selection_seconds);
  return selector.select(cell);
}

std::vector<std::vector<std::int32_t>> Recorder::evict(selection::Selector& selector,
                                                       const selection::Cell& cell) {
  const ScopedTimer timer(times_.selection_seconds);
  return selector.evict(cell);
}

void Recorder::store_selection(int run, const selection::Cell& cell,
                               selection::CellSelection selection,
                               std::vector<std::vector<std::int32_t>> evicted) {
  trace::RunChunk data;
  data.run = run;
  data.layer = cell.layer;
  const std::uint8_t flag = flag_of(selection);
  std::size_t bytes = 0;
  for (selection::RowSelection& row : selection.rows) {
    data.flags.push_back(flag);
    // A cell with a flag means all candidates and stores none of them.
    data.rows.push_back(flag ? std::vector<std::int32_t>{} : std::move(row.positions));
    bytes += data.rows.back().size() * sizeof(std::int32_t);
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
