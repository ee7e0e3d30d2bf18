#include "core/cuda/attention_problem.h"

#include "core/attention/upload.h"
#include "core/cuda/key_mass.cuh"
#include "core/cuda/status_check.h"
#include "core/cuda/tensor_type.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <type_traits>

namespace kvloupe::cuda {
namespace {

// A view of a cache is used where it lies.
at::Tensor contiguous_per_head(const at::Tensor& tensor) {
  const bool as_is =
      tensor.dim() == 3 && tensor.stride(2) == 1 && tensor.stride(1) == tensor.size(2);
  return as_is ? tensor : tensor.contiguous();
}

std::int64_t head_stride(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.stride(0) : 0;
}

// Behind what `numbers` has already. Whole ints.
template <typename T>
std::size_t append(const std::vector<T>& items, std::vector<int>* numbers) {
  static_assert(sizeof(T) % sizeof(int) == 0 && std::is_trivially_copyable_v<T>);
  const std::size_t at = numbers->size();
  numbers->resize(at + items.size() * (sizeof(T) / sizeof(int)));
  if (!items.empty()) std::memcpy(numbers->data() + at, items.data(), items.size() * sizeof(T));
  return at;
}

}  // namespace

bool kernel_does(const at::Tensor& q) { return q.size(2) <= kMaxHeadDim && type_of(q).has_value(); }

AttentionProblem::AttentionProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   at::ArrayRef<double> softmax)
    : q_(q.contiguous()), k_(contiguous_per_head(k)) {
  const auto is_like_q = [&](const at::Tensor& tensor) {
    return tensor.device() == q.device() && tensor.scalar_type() == q.scalar_type();
  };
  TORCH_CHECK(is_like_q(k) && (!v.defined() || is_like_q(v)),
              "q, k and v lie on different devices or are of different types");
  problem_.type = type_of(q).value();
  problem_.q = q_.const_data_ptr();
  problem_.k = k_.const_data_ptr();
  problem_.k_head_stride = head_stride(k_);
  if (v.defined()) {
    v_ = contiguous_per_head(v);
    problem_.v = v_.const_data_ptr();
    problem_.v_head_stride = head_stride(v_);
    output = at::empty(q_.sizes(), q_.options());
    problem_.output = output.mutable_data_ptr();
  }
  problem_.num_rows = static_cast<int>(q_.size(0) * q_.size(1));
  problem_.chunk_len = static_cast<int>(q_.size(1));
  problem_.head_dim = static_cast<int>(q_.size(2));
  // Scale, window, softcap, sinks: see core/attention/operators.h.
  problem_.scale = static_cast<float>(softmax[0]);
  problem_.window = static_cast<int>(std::min(softmax[1], INT_MAX / 2.0));
  problem_.softcap = static_cast<float>(softmax[2]);
  sinks_.assign(softmax.begin() + 3, softmax.end());
}

std::int64_t AttentionProblem::first_visible(std::int64_t position) const {
  return problem_.window > 0 ? std::max<std::int64_t>(position - problem_.window + 1, 0) : 0;
}

void AttentionProblem::add_to_device(std::vector<int> table, const std::vector<KeyView>& views) {
  const std::size_t at_views = append(views, &table), at_sinks = append(sinks_, &table);
  if (table.empty()) return;
  numbers_ = attention::uploaded(
      at::from_blob(table.data(), {static_cast<std::int64_t>(table.size())}, at::kInt),
      q_.device());
  problem_.table = numbers_.const_data_ptr<std::int32_t>();
  problem_.views =
      views.empty() ? nullptr : reinterpret_cast<const KeyView*>(problem_.table + at_views);
  problem_.sinks =
      sinks_.empty() ? nullptr : reinterpret_cast<const float*>(problem_.table + at_sinks);
}

void AttentionProblem::set_dense() {
  add_to_device({}, {});
  make_dense(&problem_, static_cast<int>(k_.size(0)), static_cast<int>(k_.size(1)));
}

void AttentionProblem::set_views(const std::vector<KeyView>& views, std::vector<int> table,
                                 std::int64_t block_size) {
  count_views(views, block_size);
  add_to_device(std::move(table), views);
}

void AttentionProblem::set_views(const std::vector<KeyView>& views, at::Tensor table,
                                 std::int64_t block_size) {
  count_views(views, block_size);
  add_to_device({}, views);
  table_ = std::move(table);
  problem_.table = table_.const_data_ptr<std::int32_t>();
}

void AttentionProblem::count_views(const std::vector<KeyView>& views, std::int64_t block_size) {
  problem_.num_views = static_cast<int>(views.size());
  problem_.block_size = static_cast<int>(block_size);
  for (const KeyView& view : views) {
    problem_.most_rows = std::max(problem_.most_rows, view.num_rows);
    problem_.most_keys = std::max(problem_.most_keys, view.past_keys + view.num_queries);
  }
}

at::TensorOptions AttentionProblem::fp32() const { return q_.options().dtype(at::kFloat); }

void AttentionProblem::want_lse() {
  lse = at::empty({q_.size(0), q_.size(1)}, fp32());
  problem_.lse = lse.mutable_data_ptr<float>();
}

void AttentionProblem::want_key_mass() { key_mass = at::empty({k_.size(0), k_.size(1)}, fp32()); }

void AttentionProblem::launch(const char* name, const Run& run) {
  float* mass = key_mass.defined() ? key_mass.mutable_data_ptr<float>() : nullptr;
  const cudaError_t status = run([&](cudaStream_t stream) {
    const auto floats = static_cast<std::int64_t>(scratch_floats(problem_));
    if (floats > 0) {
      scratch_ = at::empty({floats}, fp32());
      problem_.scratch = scratch_.mutable_data_ptr<float>();
    }
    const cudaError_t attended = launch_row_attention(problem_, stream);
    if (attended != cudaSuccess || mass == nullptr) return attended;
    return launch_key_mass(problem_, mass, stream);
  });
  check(status, name);
}

}  // namespace kvloupe::cuda
