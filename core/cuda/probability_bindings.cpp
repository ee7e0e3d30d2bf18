#include "core/cuda/probability_bindings.h"

#include "core/attention/upload.h"
#include "core/cuda/binding_checks.h"
#include "core/cuda/generic_form.h"
#include "core/cuda/probabilities.cuh"
#include "core/cuda/status_check.h"
#include "core/cuda/tensor_type.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvloupe::cuda {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

bool kernel_does(const at::Tensor& queries, const at::Tensor& keys) {
  // Kernels count rows of all sets, and sets in the grid.
  constexpr std::int64_t kMostRows = 1 << 30, kMostSets = 65535;
  return type_of(keys) && queries.scalar_type() == keys.scalar_type() && queries.numel() > 0 &&
         keys.numel() > 0 && queries.size(0) <= kMostSets &&
         queries.size(0) * queries.size(1) <= kMostRows && is_countable(keys) &&
         keys.size(1) <= kMostKeysOfSoftmax;
}

template <typename T>
std::vector<T> on_host(const MaybeTensor& tensor) {
  if (!tensor) return {};
  const at::Tensor host = tensor->cpu().contiguous();
  return {host.const_data_ptr<T>(), host.const_data_ptr<T>() + host.numel()};
}

// The problem with its tensors, which it keeps until it was launched; what is asked for is left to say.
class OnDevice {
 public:
  OnDevice(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& visible,
           const MaybeTensor& first, const MaybeTensor& sinks, double scale, double softcap)
      : queries_(queries.contiguous()), keys_(contiguous_per_head(keys)) {
    TORCH_CHECK(queries.device() == keys.device(), "queries and keys lie on different devices");
    problem.type = type_of(keys).value();
    problem.queries = queries_.const_data_ptr();
    problem.keys = keys_.const_data_ptr();
    problem.key_head_stride = keys_.stride(0);
    problem.num_sets = static_cast<int>(queries_.size(0));
    problem.num_kv_heads = static_cast<int>(keys_.size(0));
    problem.rows = static_cast<int>(queries_.size(1));
    problem.num_keys = static_cast<int>(keys_.size(1));
    problem.width = static_cast<int>(keys_.size(2));
    problem.scale = static_cast<float>(scale);
    problem.softcap = static_cast<float>(softcap);
    set_seen_keys(on_host<std::int64_t>(visible), on_host<std::int64_t>(first),
                  on_host<float>(sinks));
  }

  at::Tensor results(at::ScalarType type) const {
    return at::empty({problem.num_sets, problem.num_keys}, keys_.options().dtype(type));
  }

  void launch(const Launcher& on_device, const char* name) {
    const at::Tensor scratch = at::empty({static_cast<std::int64_t>(scratch_floats(problem))},
                                         keys_.options().dtype(at::kFloat));
    problem.scratch = scratch.mutable_data_ptr<float>();
    check(on_device([&](cudaStream_t stream) { return launch_probabilities(problem, stream); }),
          name);
  }

  Probabilities problem;

 private:
  // All of them in one copy.
  void set_seen_keys(const std::vector<std::int64_t>& visible,
                     const std::vector<std::int64_t>& first, const std::vector<float>& sinks) {
    // Far less than 0 is no less.
    constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min() / 2;
    const std::int64_t keys = problem.num_keys;
    std::vector<std::int32_t> table;
    for (const auto* list : {&visible, &first})
      for (const std::int64_t key : *list)
        table.push_back(static_cast<std::int32_t>(std::clamp(key, kLeast, keys)));
    problem.begin = problem.num_keys;
    for (std::size_t row = 0; row < visible.size(); ++row) {
      const int begin = first.empty() ? 0 : std::max(table[visible.size() + row], 0);
      if (begin >= table[row]) continue;
      problem.begin = std::min(problem.begin, begin);
      problem.end = std::max(problem.end, table[row]);
    }
    for (const float sink : sinks) table.push_back(std::bit_cast<std::int32_t>(sink));
    table_ = attention::uploaded(
        at::from_blob(table.data(), {static_cast<std::int64_t>(table.size())}, at::kInt),
        keys_.device());
    problem.visible = table_.const_data_ptr<std::int32_t>();
    if (!first.empty()) problem.first = problem.visible + visible.size();
    if (!sinks.empty())
      problem.sinks =
          reinterpret_cast<const float*>(problem.visible + visible.size() + first.size());
  }

  at::Tensor queries_, keys_, table_;
};

}  // namespace

at::Tensor reduce_probabilities(const Launcher& on_device, const at::Tensor& queries,
                                const at::Tensor& keys, const at::Tensor& visible,
                                const MaybeTensor& first, const MaybeTensor& sinks, double scale,
                                double softcap, bool largest) {
  if (!kernel_does(queries, keys))
    return run_generic<SignatureOf<reduce_probabilities>>("kvloupe::reduce_probabilities", queries,
                                                          keys, visible, first, sinks, scale,
                                                          softcap, largest);
  OnDevice one(queries, keys, visible, first, sinks, scale, softcap);
  const at::Tensor columns = one.results(at::kFloat);
  one.problem.columns = columns.mutable_data_ptr<float>();
  one.problem.largest = largest;
  one.launch(on_device, "reduce_probabilities");
  return columns;
}

at::Tensor joint_softmax_sums(const Launcher& on_device, const at::Tensor& queries,
                              const at::Tensor& keys, const at::Tensor& visible,
                              const MaybeTensor& first, double scale, double softcap) {
  if (!kernel_does(queries, keys))
    return run_generic<SignatureOf<joint_softmax_sums>>("kvloupe::joint_softmax_sums", queries,
                                                        keys, visible, first, scale, softcap);
  OnDevice one(queries, keys, visible, first, std::nullopt, scale, softcap);
  const at::Tensor sums = one.results(at::kDouble);
  one.problem.joint_sums = sums.mutable_data_ptr<double>();
  one.launch(on_device, "joint_softmax_sums");
  return sums;
}

std::tuple<at::Tensor, at::Tensor> columns_and_slashes(
    const Launcher& on_device, const at::Tensor& queries, const at::Tensor& keys,
    const at::Tensor& visible, const MaybeTensor& first, const MaybeTensor& sinks, double scale,
    double softcap) {
  if (!kernel_does(queries, keys))
    return run_generic<SignatureOf<columns_and_slashes>>(
        "kvloupe::columns_and_slashes", queries, keys, visible, first, sinks, scale, softcap);
  OnDevice one(queries, keys, visible, first, sinks, scale, softcap);
  const at::Tensor columns = one.results(at::kFloat), slashes = one.results(at::kFloat);
  one.problem.columns = columns.mutable_data_ptr<float>();
  one.problem.slashes = slashes.mutable_data_ptr<float>();
  one.launch(on_device, "columns_and_slashes");
  return {columns, slashes};
}

}  // namespace kvloupe::cuda
