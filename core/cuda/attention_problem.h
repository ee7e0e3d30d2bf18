// A problem for the kernels of attention, made from tensors, which it keeps until it was launched.
#pragma once

#include "core/cuda/bindings.h"
#include "core/cuda/row_attention.cuh"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::cuda {

// fp32, fp16 and bf16, of heads up to kMaxHeadDim.
bool kernel_does(const at::Tensor& q);

class AttentionProblem {
 public:
  // q, k and v of one type. k and v [num_kv_heads, T, head_dim]; or [rows, head_dim], as packed views read them. v undefined:
  // log-sum-exp alone. `softmax` as operators take it.
  AttentionProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   at::ArrayRef<double> softmax);

  std::int64_t window() const { return problem_.window; }
  // The first position that the query at `position` sees.
  std::int64_t first_visible(std::int64_t position) const;

  // What the problem is: dense, or these views with the table and the block size that they are for.
  void set_dense();
  void set_views(const std::vector<KeyView>& views, std::vector<int> table,
                 std::int64_t block_size);
  // The same with a table that lies on the device: int32, contiguous.
  void set_views(const std::vector<KeyView>& views, at::Tensor table, std::int64_t block_size);

  // All results that were asked for, in one go: `name` is that of the operator, for errors.
  at::Tensor output;
  at::Tensor lse;       // undefined: not wanted
  at::Tensor key_mass;  // the same; dense alone
  void want_lse();
  void want_key_mass();
  void launch(const char* name, const Run& run);

 private:
  // Of what is fp32 whatever the type of q.
  at::TensorOptions fp32() const;
  // Numbers on the device, behind each other: one copy.
  void add_to_device(std::vector<int> table, const std::vector<KeyView>& views);

  void count_views(const std::vector<KeyView>& views, std::int64_t block_size);

  at::Tensor q_, k_, v_, scratch_, numbers_, table_;
  std::vector<float> sinks_;
  RowAttention problem_;
};

}  // namespace kvloupe::cuda
