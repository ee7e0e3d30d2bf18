#include "core/cuda/bindings.h"

#include "core/attention/operators.h"
#include "core/cuda/attention_problem.h"
#include "core/cuda/generic_form.h"

#include <ATen/ATen.h>

namespace kvloupe::cuda {

std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const Run& run, const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v,
                                                               at::ArrayRef<double> softmax,
                                                               bool want_mass) {
  if (!kernel_does(q))
    return run_generic<attention::op::ChunkAttention>("kvloupe::chunk_attention", q, k, v, softmax,
                                                      want_mass);
  AttentionProblem problem(q, k, v, softmax);
  problem.set_dense();
  problem.want_lse();
  if (want_mass) problem.want_key_mass();
  problem.launch("chunk_attention", run);
  return {problem.output, problem.lse,
          want_mass ? problem.key_mass : at::empty({0}, problem.lse.options())};
}

std::tuple<at::Tensor, at::Tensor> chunk_mass(const Run& run, const at::Tensor& q,
                                              const at::Tensor& k, at::ArrayRef<double> softmax) {
  if (!kernel_does(q))
    return run_generic<attention::op::ChunkMass>("kvloupe::chunk_mass", q, k, softmax);
  AttentionProblem problem(q, k, at::Tensor(), softmax);
  problem.set_dense();
  problem.want_lse();
  problem.want_key_mass();
  problem.launch("chunk_mass", run);
  return {problem.lse, problem.key_mass};
}

}  // namespace kvloupe::cuda
