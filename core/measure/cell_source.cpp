#include "core/measure/cell_source.h"

#include "core/base/error.h"
#include "core/device/scalar_type.h"
#include "core/device/torch_device.h"
#include "core/measure/latency.h"
#include "core/measure/timed_type.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>
#include <map>
#include <utility>

namespace kvloupe::measure {
namespace {

using selection::Cell;

void check_chunk(const session::TraceSession& session, int chunk) {
  const auto& chunks = session.info().chunks;
  if (chunk >= 0 && chunk < static_cast<int>(chunks.size())) return;
  throw input_error(fmt::format("chunk {} cannot be timed", chunk),
                    fmt::format("the trace has {} chunks", chunks.size()),
                    "choose a chunk inside the trace");
}

// Cells of the trace, with their probes where a method needs them.
class RecordedCells {
 public:
  RecordedCells(const session::TraceSession& session, bool needs_probe, const std::string& device)
      : session_(session),
        loader_(session, device::torch_device(device),
                scalar_type(timed_type(device, session.info().dtype))),
        needs_probe_(needs_probe),
        device_(device) {}
  const std::string& device() const { return device_; }
  Cell load(int layer, int chunk) {
    Cell cell = loader_.load(layer, chunk, session_.info().chunks[chunk]);
    if (needs_probe_) session::add_probe(session_, cell);
    return cell;
  }

 private:
  const session::TraceSession& session_;
  session::CellLoader loader_;
  bool needs_probe_;
  std::string device_;
};

class TraceCells final : public CellSource {
 public:
  TraceCells(RecordedCells recorded, int chunk) : recorded_(std::move(recorded)), chunk_(chunk) {}
  int chunk() const override { return chunk_; }
  int trace_chunk() const override { return chunk_; }
  const std::string& device() const override { return recorded_.device(); }
  Cell load(int layer, int chunk) override { return recorded_.load(layer, chunk); }

 private:
  RecordedCells recorded_;
  int chunk_;
};

class LengthenedCells final : public CellSource {
 public:
  LengthenedCells(RecordedCells recorded, const trace::TraceInfo& info, int chunk,
                  std::int64_t past_len)
      : recorded_(std::move(recorded)),
        trace_chunk_(chunk),
        asking_chunk_(last_full_chunk(info)),
        past_len_(past_len) {
    const std::int64_t length = info.chunks[asking_chunk_].length;
    num_earlier_ = static_cast<int>((past_len + length - 1) / length);
    first_length_ = past_len - (num_earlier_ - 1) * length;
  }

  int chunk() const override { return num_earlier_; }
  int trace_chunk() const override { return trace_chunk_; }
  const std::string& device() const override { return recorded_.device(); }

  Cell load(int layer, int chunk) override {
    const Keys& keys = lengthened(layer);
    if (chunk == num_earlier_) {
      Cell cell = keys.timed;
      cell.chunk = chunk;
      cell.past_len = past_len_;
      cell.k = keys.k;
      cell.v = keys.v;
      cell.novelty = keys.novelty;
      return cell;
    }
    Cell cell = keys.asking;
    const std::int64_t length = chunk == 0 ? first_length_ : cell.chunk_len;
    cell.past_len = chunk == 0 ? 0 : first_length_ + (chunk - 1) * cell.chunk_len;
    cell.chunk = chunk;
    // Whatever the trace's own chunk was, the prompt ends before a decoded token.
    cell.ends_prefill = keys.timed.phase == trace::Phase::Decode && chunk == num_earlier_ - 1;
    cell.q = cell.q.narrow(1, cell.chunk_len - length, length).contiguous();
    cell.chunk_len = length;
    cell.k = keys.k.narrow(1, 0, cell.kv_len());
    cell.v = keys.v.narrow(1, 0, cell.kv_len());
    if (keys.novelty.defined()) cell.novelty = keys.novelty.narrow(0, 0, cell.kv_len());
    return cell;
  }

 private:
  struct Keys {
    Cell timed, asking;  // as recorded
    at::Tensor k, v, novelty;
  };

  // The row of the recorded past for each of the past_len, then the chunk's own.
  at::Tensor rows_of(const Cell& timed) const {
    const at::Tensor back = at::arange(past_len_, 0, -1, at::kLong).sub_(1);
    const at::Tensor past = timed.past_len - 1 - back.remainder(timed.past_len);
    return at::cat({past, at::arange(timed.past_len, timed.kv_len(), at::kLong)});
  }

  const Keys& lengthened(int layer) {
    const auto [found, fresh] = layers_.try_emplace(layer);
    Keys& keys = found->second;
    if (!fresh) return keys;
    keys.timed = recorded_.load(layer, trace_chunk_);
    keys.asking = recorded_.load(layer, asking_chunk_);
    const at::Tensor rows = rows_of(keys.timed);
    const at::Tensor there = rows.to(keys.timed.k.device());
    keys.k = keys.timed.k.index_select(1, there);
    keys.v = keys.timed.v.index_select(1, there);
    if (keys.timed.novelty.defined()) {
      keys.novelty = keys.timed.novelty.index_select(0, rows);
      keys.novelty[0] = std::numeric_limits<float>::infinity();
    }
    return keys;
  }

  RecordedCells recorded_;
  int trace_chunk_, asking_chunk_;
  std::int64_t past_len_, first_length_ = 0;
  int num_earlier_ = 0;
  std::map<int, Keys> layers_;
};

}  // namespace

std::unique_ptr<CellSource> trace_cells(const session::TraceSession& session,
                                        const selection::MethodSpec& spec, int chunk,
                                        const std::string& device) {
  check_chunk(session, chunk);
  return std::make_unique<TraceCells>(RecordedCells(session, spec.traits().needs_probe, device),
                                      chunk);
}

std::unique_ptr<CellSource> lengthened_cells(const session::TraceSession& session,
                                             const selection::MethodSpec& spec, int chunk,
                                             std::int64_t past_len, const std::string& device) {
  check_chunk(session, chunk);
  if (session.info().chunks[chunk].begin == 0)
    throw input_error(fmt::format("chunk {} cannot be timed at other lengths", chunk),
                      "it has no past keys to repeat", "choose a later chunk");
  return std::make_unique<LengthenedCells>(
      RecordedCells(session, spec.traits().needs_probe, device), session.info(), chunk, past_len);
}

}  // namespace kvloupe::measure
