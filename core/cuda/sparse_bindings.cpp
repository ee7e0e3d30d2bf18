#include "core/cuda/sparse_bindings.h"

#include "core/attention/operators.h"
#include "core/cuda/attention_problem.h"
#include "core/cuda/generic_form.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda {
namespace {

std::vector<int> ints_of(const at::Tensor& table) {
  const at::Tensor ints = table.to(at::kInt).contiguous();
  const auto* begin = ints.const_data_ptr<std::int32_t>();
  return {begin, begin + ints.numel()};
}

// A view of each KV head over the keys at `positions`; `packed`: K and V hold nothing else.
at::Tensor attend_positions(const char* name, AttentionProblem problem, const Run& run,
                            const at::Tensor& q, at::IntArrayRef begin, const at::Tensor& positions,
                            const at::Tensor& shared, bool packed) {
  const auto heads = static_cast<std::int64_t>(begin.size()) - 1;
  const auto chunk_len = static_cast<int>(q.size(1));
  std::vector<int> table = ints_of(positions);
  const auto flags = static_cast<int>(table.size());
  const std::vector<int> is_shared = ints_of(shared);
  std::vector<KeyView> views;
  for (std::int64_t g = 0; g < heads; ++g) {
    const auto* first = table.data() + begin[g];
    const auto* own = table.data() + begin[g + 1] - chunk_len;
    const auto hidden =
        static_cast<int>(std::lower_bound(first, own, problem.first_visible(*own)) - first);
    KeyView view;
    view.kv_head = static_cast<int>(g);
    view.num_queries = chunk_len;
    view.num_rows = static_cast<int>(q.size(0) / heads) * chunk_len;
    view.first_row = static_cast<int>(g) * view.num_rows;
    view.own_begin = *own;
    view.past_keys = static_cast<int>(own - first) - hidden;
    view.past_list = static_cast<int>(begin[g]) + hidden;
    if (packed) view.packed_rows = view.past_list;
    if (!is_shared.empty()) view.shared = flags + static_cast<int>(g) * chunk_len;
    views.push_back(view);
  }
  table.insert(table.end(), is_shared.begin(), is_shared.end());
  problem.set_views(views, std::move(table), 1);
  problem.launch(name, run);
  return problem.output;
}

}  // namespace

at::Tensor attend_gathered(const Run& run, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, at::ArrayRef<double> softmax, at::IntArrayRef begin,
                           const at::Tensor& positions, const at::Tensor& shared) {
  if (!kernel_does(q))
    return run_generic<attention::op::AttendGathered>("kvloupe::attend_gathered", q, k, v, softmax,
                                                      begin, positions, shared);
  return attend_positions("attend_gathered", {q, k, v, softmax}, run, q, begin, positions, shared,
                          /*packed=*/true);
}

at::Tensor gathered_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, at::ArrayRef<double> softmax,
                              at::IntArrayRef begin, const at::Tensor& positions,
                              const at::Tensor& shared) {
  if (!kernel_does(q))
    return run_generic<attention::op::GatheredAttention>("kvloupe::gathered_attention", q, k, v,
                                                         softmax, begin, positions, shared);
  return attend_positions("gathered_attention", {q, k, v, softmax}, run, q, begin, positions,
                          shared, /*packed=*/false);
}

at::Tensor kept_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, at::ArrayRef<double> softmax,
                          const at::Tensor& kept) {
  if (!kernel_does(q))
    return run_generic<attention::op::KeptAttention>("kvloupe::kept_attention", q, k, v, softmax,
                                                     kept);
  AttentionProblem problem(q, k, v, softmax);
  const auto heads = static_cast<int>(kept.size(0)), count = static_cast<int>(kept.size(1));
  const auto chunk_len = static_cast<int>(q.size(1));
  std::vector<KeyView> views;
  for (int g = 0; g < heads; ++g) {
    KeyView view;
    view.kv_head = g;
    view.num_queries = chunk_len;
    view.num_rows = static_cast<int>(q.size(0)) / heads * chunk_len;
    view.first_row = g * view.num_rows;
    view.own_begin = static_cast<int>(k.size(1)) - chunk_len;
    view.past_keys = count;
    view.past_list = g * count;
    views.push_back(view);
  }
  problem.set_views(views, kept.contiguous(), 1);
  problem.launch("kept_attention", run);
  return problem.output;
}

at::Tensor paged_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, at::ArrayRef<double> softmax,
                           std::int64_t page_size, std::int64_t q_heads_per_row,
                           std::int64_t pages_per_head, const at::Tensor& kv_indptr,
                           const at::Tensor& kv_indices) {
  if (!kernel_does(q))
    return run_generic<attention::op::PagedAttention>("kvloupe::paged_attention", q, k, v, softmax,
                                                      page_size, q_heads_per_row, pages_per_head,
                                                      kv_indptr, kv_indices);
  AttentionProblem problem(q, k, v, softmax);
  const std::int64_t chunk_len = q.size(1), past_len = k.size(1) - chunk_len;
  const std::int64_t rows = q.size(0) / q_heads_per_row;
  const auto* indptr = kv_indptr.const_data_ptr<std::int32_t>();
  const auto* ids = kv_indices.const_data_ptr<std::int32_t>();
  std::vector<int> table;
  std::vector<KeyView> views;
  for (std::int64_t row = 0; row < rows; ++row) {
    KeyView view;
    view.kv_head = static_cast<int>(row * k.size(0) / rows);
    view.num_queries = static_cast<int>(chunk_len);
    view.num_rows = static_cast<int>(q_heads_per_row * chunk_len);
    view.first_row = static_cast<int>(row) * view.num_rows;
    view.own_begin = static_cast<int>(past_len);
    view.past_list = static_cast<int>(table.size());
    for (std::int32_t i = indptr[row]; i < indptr[row + 1]; ++i) {
      const std::int64_t page = ids[i] - view.kv_head * pages_per_head;
      const std::int64_t begin = page * page_size, end = begin + page_size;
      if (end <= problem.first_visible(past_len) || begin >= past_len) continue;
      table.push_back(static_cast<int>(page));
      view.past_keys += static_cast<int>(std::min(end, past_len) - begin);
    }
    views.push_back(view);
  }
  problem.set_views(views, std::move(table), page_size);
  problem.launch("paged_attention", run);
  return problem.output;
}

at::Tensor block_sparse_attention(const Run& run, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, at::ArrayRef<double> softmax,
                                  std::int64_t block_size, const at::Tensor& mask) {
  if (!kernel_does(q))
    return run_generic<attention::op::BlockSparseAttention>("kvloupe::block_sparse_attention", q, k,
                                                            v, softmax, block_size, mask);
  AttentionProblem problem(q, k, v, softmax);
  const std::int64_t chunk_len = q.size(1), kv_len = k.size(1), past_len = kv_len - chunk_len;
  const std::int64_t group = q.size(0) / k.size(0), first_block = past_len / block_size;
  const auto* bits = mask.const_data_ptr<std::uint8_t>();
  std::vector<int> table;
  std::vector<KeyView> views;
  for (std::int64_t head = 0; head < q.size(0); ++head) {
    for (std::int64_t i = 0; i < mask.size(1); ++i, bits += mask.size(2)) {
      // The query block's rows are positions [begin, end): a chunk of their own. What of their block
      // lies before them is past.
      const std::int64_t own = first_block + i, begin = std::max(own * block_size, past_len);
      KeyView view;
      view.kv_head = static_cast<int>(head / group);
      view.num_rows = view.num_queries =
          static_cast<int>(std::min((own + 1) * block_size, kv_len) - begin);
      view.first_row = static_cast<int>(head * chunk_len + begin - past_len);
      view.own_begin = static_cast<int>(begin);
      view.past_list = static_cast<int>(table.size());
      for (std::int64_t j = problem.first_visible(begin) / block_size; j <= own; ++j) {
        const std::int64_t past_end = std::min((j + 1) * block_size, begin);
        if (bits[j] == 0 || past_end <= j * block_size) continue;
        table.push_back(static_cast<int>(j));
        view.past_keys += static_cast<int>(past_end - j * block_size);
      }
      views.push_back(view);
    }
  }
  problem.set_views(views, std::move(table), block_size);
  problem.launch("block_sparse_attention", run);
  return problem.output;
}

}  // namespace kvloupe::cuda
