#include "capture/run/memory_plan.h"

#include "core/base/error.h"
#include "core/base/units.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::capture {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);
// Logits of earlier positions are made in slices of 32 MiB (forecast.cpp), of which a few live at once.
constexpr std::uint64_t kLossSlices = std::uint64_t{128} << 20;
// A GPU's context, and what its libraries of matrix products keep.
constexpr std::uint64_t kGpuLibraries = std::uint64_t{768} << 20;

std::uint64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::uint64_t>(tensor.numel()) * tensor.dtype().itemsize()
                          : 0;
}

std::uint64_t bytes_of(const FeedForward& ffn) {
  return bytes_of(ffn.gate_up_proj) + bytes_of(ffn.gate_up_bias) + bytes_of(ffn.down_proj) +
         bytes_of(ffn.down_bias);
}

// Norms are a thousandth of it.
std::uint64_t bytes_of(const LayerWeights& layer) {
  std::uint64_t bytes = bytes_of(layer.qkv_proj) + bytes_of(layer.qkv_bias) +
                        bytes_of(layer.o_proj) + bytes_of(layer.router) + bytes_of(layer.ffn);
  for (const FeedForward& expert : layer.experts) bytes += bytes_of(expert);
  return bytes;
}

std::uint64_t weights_of(const LoadedModel& model) {
  std::uint64_t bytes = bytes_of(model.token_embedding);
  if (!model.output.is_same(model.token_embedding)) bytes += bytes_of(model.output);
  for (const LayerWeights& layer : model.layers) bytes += bytes_of(layer);
  return bytes;
}

// Keys or values of all layers.
std::uint64_t cache_of(const trace::ModelInfo& model, std::uint64_t tokens) {
  return tokens * static_cast<std::uint64_t>(model.num_kv_heads) *
         static_cast<std::uint64_t>(model.head_dim) * kFloat *
         static_cast<std::uint64_t>(model.num_layers);
}

// Of one chunk: what lives at once between the matrix products of a layer, as it was and rounded.
std::uint64_t working_set(const LoadedModel& model, std::uint64_t rows) {
  const trace::ModelInfo& info = model.info;
  const auto heads = static_cast<std::uint64_t>(info.num_q_heads + 2 * info.num_kv_heads);
  const std::uint64_t attention = 4 * heads * static_cast<std::uint64_t>(info.head_dim);
  const std::uint64_t feed_forward = 4 * static_cast<std::uint64_t>(model.ffn_size);
  const std::uint64_t hidden = 4 * static_cast<std::uint64_t>(info.hidden_size);
  const std::uint64_t logits = 4 * static_cast<std::uint64_t>(model.vocab_size);
  return kFloat * (rows * (hidden + std::max(attention, feed_forward)) + logits);
}

}  // namespace

MemoryPlan plan_memory(const LoadedModel& model, const RecorderOptions& options,
                       const std::vector<trace::ChunkInfo>& chunks) {
  MemoryPlan plan;
  plan.weights = weights_of(model);
  if (chunks.empty()) return plan;
  const auto tokens = static_cast<std::uint64_t>(chunks.back().end() + options.probe_len);
  const std::uint64_t keys = cache_of(model.info, tokens);
  plan.caches = 2 * keys * (options.store.has(trace::Part::Drift) ? 2 : 1);
  plan.working = working_set(model, static_cast<std::uint64_t>(chunks.front().length));
  if (options.store.has(trace::Part::Loss))
    plan.working += kLossSlices * (options.store.has(trace::Part::Drift) ? 2 : 1);
  // Methods keep the keys once more, as they score by them (selection/key_copies.h).
  if (options.closed_loop || !options.open_loop.empty()) plan.working += keys;
  if (model.device().is_cuda()) plan.working += kGpuLibraries;
  return plan;
}

void require_memory(const MemoryPlan& plan, const std::string& device, std::uint64_t present) {
  if (plan.total() <= present) return;
  throw input_error(
      "this capture does not fit " + device,
      fmt::format("it takes about {} (weights {}, KV cache {}, working set {}), the device has {}, "
                  "and the layers of a model are not spread over several GPUs",
                  format_bytes(plan.total()), format_bytes(plan.weights), format_bytes(plan.caches),
                  format_bytes(plan.working), format_bytes(present)),
      "use --compute bf16, a shorter prompt, a smaller model or --device cpu");
}

}  // namespace kvloupe::capture
