#include "core/cuda/bindings.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace kvloupe::cuda {
namespace {

at::Tensor contiguous_per_head(const at::Tensor& tensor) {
  const bool as_is = tensor.stride(2) == 1 && tensor.stride(1) == tensor.size(2);
  return as_is ? tensor : tensor.contiguous();
}

// Scale, window, softcap, sinks: see core/attention/operators.h.
bool kernel_does(const at::Tensor& q, at::ArrayRef<double> softmax) {
  const bool is_plain = softmax.size() == 3 && softmax[1] == 0 && softmax[2] == 0;
  return is_plain && q.size(2) <= kMaxHeadDim;
}

// Found by its name: the plug-in is not linked to core/attention.
std::tuple<at::Tensor, at::Tensor, at::Tensor> generic_chunk_attention(const at::Tensor& q,
                                                                       const at::Tensor& k,
                                                                       const at::Tensor& v,
                                                                       at::ArrayRef<double> softmax,
                                                                       bool want_mass) {
  static const auto generic = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("kvloupe::chunk_attention_generic", "")
                                  .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
                                      const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                      at::ArrayRef<double>, bool)>();
  return generic.call(q, k, v, softmax, want_mass);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(
    const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
    at::ArrayRef<double> softmax, bool want_mass, const LaunchChunkAttention& launch) {
  TORCH_CHECK(q_in.device() == k_in.device() && q_in.device() == v_in.device(),
              "q, k and v lie on different devices");
  if (!kernel_does(q_in, softmax))
    return generic_chunk_attention(q_in, k_in, v_in, softmax, want_mass);
  const at::Tensor q = q_in.contiguous(), k = contiguous_per_head(k_in),
                   v = contiguous_per_head(v_in);
  const at::Tensor output = at::empty(q.sizes(), q.options());
  const at::Tensor lse = at::empty({q.size(0), q.size(1)}, q.options());
  const at::Tensor key_mass =
      want_mass ? at::empty({k.size(0), k.size(1)}, q.options()) : at::empty({0}, q.options());
  ChunkAttention problem;
  problem.q = q.const_data_ptr<float>();
  problem.k = k.const_data_ptr<float>();
  problem.v = v.const_data_ptr<float>();
  problem.k_head_stride = k.stride(0);
  problem.v_head_stride = v.stride(0);
  problem.num_kv_heads = static_cast<int>(k.size(0));
  problem.rows = static_cast<int>(q.size(0) / k.size(0) * q.size(1));
  problem.chunk_len = static_cast<int>(q.size(1));
  problem.kv_len = static_cast<int>(k.size(1));
  problem.head_dim = static_cast<int>(q.size(2));
  problem.scale = static_cast<float>(softmax[0]);
  problem.output = output.mutable_data_ptr<float>();
  problem.lse = lse.mutable_data_ptr<float>();
  problem.key_mass = want_mass ? key_mass.mutable_data_ptr<float>() : nullptr;
  const cudaError_t status = launch(problem);
  TORCH_CHECK(status == cudaSuccess, "chunk_attention: ", cudaGetErrorString(status));
  return {output, lse, key_mass};
}

}  // namespace kvloupe::cuda
