// Torch's own attention kernels of a GPU, each by its name: what a sparse method competes with there.
// Private to core/measure: needs Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::measure {

struct NamedAttention {
  std::string name;                 // "flash, fp16"
  std::function<at::Tensor()> run;  // [1, num_q_heads, m, head_dim]
};

// Flash, memory-efficient and cuDNN attention in fp16, and memory-efficient attention in fp32. q [1,
// num_q_heads, m, head_dim], k and v [1, num_kv_heads, T, head_dim]; the queries are the last m of T, and
// causal. Copies in other types, or for each query head, are made here.
std::vector<NamedAttention> gpu_kernels(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, double scale);

// Those that Torch runs here and that give `expected` [num_q_heads, m, head_dim], to 2 % of its largest
// number; of the others a line in the log says why.
std::vector<NamedAttention> those_that_agree(std::vector<NamedAttention> forms,
                                             const at::Tensor& expected);

}  // namespace kvloupe::measure
