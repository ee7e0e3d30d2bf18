// Counts bytes and extrapolates time from a short measurement.
#include "capture/run/estimate.h"
#include "capture/model/linear.h"
#include "capture/run/memory_plan.h"
#include "core/attention/attention.h"
#include "core/base/seconds_since.h"
#include "core/device/torch_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace kvloupe::capture {
namespace {

// HDF5's own structures, text and attributes: about this much beside the arrays.
constexpr std::uint64_t kFixedBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kBytesPerLayer = 16384;
constexpr std::uint64_t kBytesPerCell = 9;  // an offset and a flag
// Arrays that grow take whole pieces of the file (FORMAT.md).
constexpr std::uint64_t kMassPiece = 32768 * sizeof(float);
constexpr std::uint64_t kPositionsPiece = 8192 * sizeof(std::int32_t);

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t piece) {
  return (bytes + piece - 1) / piece * piece;
}

double seconds_of(c10::Device device, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  device::wait_for(device);
  return seconds_since(begin);
}

// Seconds of the second run: the first one pays for threads and memory.
double warm_seconds_of(c10::Device device, const std::function<void()>& work) {
  seconds_of(device, work);
  return seconds_of(device, work);
}

at::Tensor ones(at::IntArrayRef sizes, c10::Device device) {
  return at::ones(sizes, at::dtype(at::kFloat).device(device));
}

// The number of weights that a token is multiplied with.
std::int64_t feed_forward_weights(const LayerWeights& layer, const ExpertForm& experts) {
  const FeedForward& one = layer.experts.empty() ? layer.ffn : layer.experts.front();
  const std::int64_t weights = one.gate_up_proj.numel() + one.down_proj.numel();
  return layer.experts.empty() ? weights : weights * experts.used;
}

// Seconds of a chunk of `rows` tokens in all layers' products and the output layer's.
double product_seconds(const LoadedModel& model, std::int64_t rows) {
  if (model.layers.empty()) return 0;
  const LayerWeights& layer = model.layers.front();
  const auto weights = static_cast<double>(layer.qkv_proj.numel() + layer.o_proj.numel() +
                                           feed_forward_weights(layer, model.experts));
  const at::Tensor& sample = layer.qkv_proj;
  const at::Tensor hidden = ones({rows, sample.size(1)}, model.device());
  const double seconds = warm_seconds_of(model.device(), [&] { project(hidden, sample); });
  return seconds * weights / static_cast<double>(sample.numel()) *
         static_cast<double>(model.layers.size());
}

// Seconds of one layer's attention for one (query, key) pair of positions, all heads.
double attention_seconds_per_pair(const LoadedModel& model, std::int64_t rows, std::int64_t keys) {
  const trace::ModelInfo& info = model.info;
  const at::Tensor q = ones({info.num_q_heads, rows, info.head_dim}, model.device());
  const at::Tensor k = ones({info.num_kv_heads, keys, info.head_dim}, model.device());
  const double sample = warm_seconds_of(
      model.device(), [&] { attention::dense_chunk_attention(q, k, k, info.softmax_scale, true); });
  return sample / static_cast<double>(rows * keys);
}

std::uint64_t run_bytes(const trace::ModelInfo& model, const selection::MethodSpec& spec,
                        std::uint64_t layers, const std::vector<trace::ChunkInfo>& chunks) {
  std::uint64_t positions = 0;
  for (const trace::ChunkInfo& chunk : chunks) {
    if (!spec.has_budget()) break;
    const std::int64_t budget = spec.budget(chunk.begin);
    if (chunk.begin > budget) positions += static_cast<std::uint64_t>(budget);
  }
  const selection::RowLayout layout = selection::row_layout(spec, selection::shape_of(model));
  const auto rows = static_cast<std::uint64_t>(model.num_q_heads / layout.q_heads_per_row);
  std::uint64_t bytes = kBytesPerLayer + rows * chunks.size() * kBytesPerCell +
                        rounded_up(rows * positions * sizeof(std::int32_t), kPositionsPiece);
  if (spec.traits().evicts() && !chunks.empty()) {
    bytes += rows * static_cast<std::uint64_t>(chunks.back().end()) * sizeof(std::uint16_t);
  }
  if (spec.traits().lanes) {
    bytes += chunks.size() * static_cast<std::uint64_t>(model.num_q_heads) *
             static_cast<std::uint64_t>(model.head_dim) * sizeof(std::int32_t);
  }
  return bytes * layers;
}

// Keys at hand after each prefill chunk, all chunks together.
double keys_after_prefill(const std::vector<trace::ChunkInfo>& chunks) {
  double keys = 0;
  for (const trace::ChunkInfo& chunk : chunks) {
    if (chunk.phase == trace::Phase::Prefill) keys += chunk.end();
  }
  return keys;
}

std::int64_t prefill_chunks(const std::vector<trace::ChunkInfo>& chunks) {
  return std::count_if(chunks.begin(), chunks.end(), [](const trace::ChunkInfo& chunk) {
    return chunk.phase == trace::Phase::Prefill;
  });
}

// The probe's queries.
std::uint64_t probe_bytes(const trace::ModelInfo& model, const RecorderOptions& options,
                          const std::vector<trace::ChunkInfo>& chunks) {
  if (options.probe_len == 0) return 0;
  const std::uint64_t element = options.dtype == trace::DType::F16 ? 2 : 4;
  const auto probes = static_cast<std::uint64_t>(prefill_chunks(chunks)) * options.layers.size();
  return probes * static_cast<std::uint64_t>(options.probe_len) *
         static_cast<std::uint64_t>(model.num_q_heads) *
         static_cast<std::uint64_t>(model.head_dim) * element;
}

// Losses, the most probable tokens and the drift.
std::uint64_t forecast_bytes(const RecorderOptions& options,
                             const std::vector<trace::ChunkInfo>& chunks) {
  const auto tokens = static_cast<std::uint64_t>(chunks.back().end());
  const std::uint64_t top = options.store.has(trace::Part::Top) ? trace::kTopTokens * 8 : 0;
  std::uint64_t bytes = chunks.size() * top;
  if (options.store.has(trace::Part::Loss)) bytes += tokens * 4;
  if (options.store.has(trace::Part::Drift))
    bytes += tokens * 9 + chunks.size() * (options.layers.size() * 8 + top);
  return bytes;
}

// The logits of all positions.
double loss_seconds(const LoadedModel& model, const std::vector<trace::ChunkInfo>& chunks) {
  const at::Tensor hidden = ones({64, model.output.size(1)}, model.device());
  const double logits =
      warm_seconds_of(model.device(), [&] { project_unrounded(hidden, model.output); }) / 64;
  return logits * chunks.back().end();
}

}  // namespace

std::vector<trace::ChunkInfo> plan_chunks(std::int64_t prompt_tokens, std::int64_t decode_steps,
                                          int chunk_size) {
  std::vector<trace::ChunkInfo> chunks;
  for (std::int64_t begin = 0; begin < prompt_tokens; begin += chunk_size) {
    const std::int64_t length = std::min<std::int64_t>(chunk_size, prompt_tokens - begin);
    chunks.push_back({static_cast<std::int32_t>(begin), static_cast<std::int32_t>(length),
                      trace::Phase::Prefill});
  }
  for (std::int64_t step = 0; step < decode_steps; ++step) {
    chunks.push_back({static_cast<std::int32_t>(prompt_tokens + step), 1, trace::Phase::Decode});
  }
  return chunks;
}

std::uint64_t qkv_bytes(const trace::ModelInfo& model, const RecorderOptions& options,
                        const std::vector<trace::ChunkInfo>& chunks) {
  if (chunks.empty()) return 0;
  const std::uint64_t element = options.dtype == trace::DType::F16 ? 2 : 4;
  const auto heads = static_cast<std::uint64_t>(model.num_q_heads + 2 * model.num_kv_heads);
  return heads * static_cast<std::uint64_t>(model.head_dim) * element *
         static_cast<std::uint64_t>(chunks.back().end()) * options.layers.size();
}

std::uint64_t mass_bytes(const trace::ModelInfo& model, const RecorderOptions& options,
                         const std::vector<trace::ChunkInfo>& chunks) {
  std::uint64_t keys = 0;
  for (const trace::ChunkInfo& chunk : chunks) {
    if (chunk.phase == trace::Phase::Prefill) keys += static_cast<std::uint64_t>(chunk.end());
  }
  const auto heads = static_cast<std::uint64_t>(model.num_kv_heads);
  return keys * heads * sizeof(float) * options.layers.size();
}

CaptureEstimate estimate_capture(const LoadedModel& model, const RecorderOptions& options,
                                 const std::vector<trace::ChunkInfo>& chunks) {
  CaptureEstimate estimate;
  if (chunks.empty()) return estimate;
  estimate.tokens = chunks.back().end();
  estimate.chunks = static_cast<int>(chunks.size());
  estimate.layers = options.layers;
  estimate.memory = plan_memory(model, options, chunks);
  const std::uint64_t layers = options.layers.size();
  estimate.bytes = kFixedBytes + layers * kBytesPerLayer;
  const auto tokens = static_cast<std::uint64_t>(estimate.tokens);
  if (options.store.has(trace::Part::Qkv)) estimate.bytes += qkv_bytes(model.info, options, chunks);
  if (options.store.has(trace::Part::Mass) && layers > 0) {
    const std::uint64_t bytes = mass_bytes(model.info, options, chunks);
    estimate.bytes += layers * rounded_up(bytes / layers, kMassPiece);
  }
  if (options.store.has(trace::Part::Lse)) {
    estimate.bytes +=
        tokens * static_cast<std::uint64_t>(model.info.num_q_heads) * sizeof(float) * layers;
  }
  estimate.bytes += probe_bytes(model.info, options, chunks) + forecast_bytes(options, chunks);
  std::vector<RecordedMethod> methods = options.open_loop;
  if (options.closed_loop) methods.push_back(*options.closed_loop);
  for (const RecordedMethod& method : methods) {
    estimate.bytes += run_bytes(model.info, method.spec, layers, chunks);
  }

  const std::int64_t rows = chunks.front().length;
  const std::int64_t keys = std::max<std::int64_t>(rows, estimate.tokens / 2);
  const double pair = attention_seconds_per_pair(model, rows, keys);
  const double prefill_products = product_seconds(model, rows);
  const double decode_products = chunks.back().length == 1 ? product_seconds(model, 1) : 0;
  double pairs = 0;
  for (const trace::ChunkInfo& chunk : chunks) {
    pairs += static_cast<double>(chunk.length) * chunk.end();
    estimate.seconds += chunk.phase == trace::Phase::Prefill
                            ? prefill_products * chunk.length / static_cast<double>(rows)
                            : decode_products;
  }
  // Each method reads the keys once more; the better ones take far less than attention does.
  const double passes = 1 + 0.3 * static_cast<double>(methods.size());
  if (options.probe_len > 0) {
    estimate.seconds +=
        static_cast<double>(prefill_chunks(chunks)) * product_seconds(model, options.probe_len);
  }
  const auto probe_pairs = static_cast<double>(options.probe_len) * keys_after_prefill(chunks);
  estimate.seconds +=
      (pair * pairs * passes + pair * probe_pairs) * static_cast<double>(model.layers.size());
  // The dense model beside a closed loop runs all of it again.
  if (options.store.has(trace::Part::Drift)) estimate.seconds *= 2;
  if (options.store.has(trace::Part::Loss))
    estimate.seconds +=
        loss_seconds(model, chunks) * (options.store.has(trace::Part::Drift) ? 2 : 1);
  return estimate;
}

}  // namespace kvloupe::capture
