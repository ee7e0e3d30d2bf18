// Attention over blocks of a KV cache on the CPU: each view lists the runs of consecutive kept
// blocks, which row_block.cpp multiplies where they lie, a tile of scores at a time.
#include "core/attention/cpu_attention.h"
#include "core/attention/scratch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace kvloupe::attention::cpu {
namespace {

// The keys of one KV head that a row attends to, added in ascending order; runs that meet are one.
class ViewBuilder {
 public:
  ViewBuilder(const float* k, const float* v, std::int64_t head_dim)
      : k_(k), v_(v), head_dim_(head_dim) {}

  void add_past(std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    view_.past += end - begin;
    add(begin, end);
  }

  // The keys of the rows themselves, which are those of `softmax`'s query heads from first_head on,
  // come last.
  KeyView finish(std::int64_t begin, std::int64_t end, const SoftmaxForm& softmax,
                 std::int64_t first_head) {
    add(begin, end);
    std::size_t run = 0;
    std::int64_t before = 0;  // keys of the runs that lie behind
    shape_view(
        softmax, first_head, begin, end - begin,
        [&](std::int64_t position) {
          for (; run < begins_.size() && run_end(run) <= position; ++run)
            before += view_.segments[run].count;
          const bool inside = run < begins_.size() && begins_[run] < position;
          return before + (inside ? position - begins_[run] : 0);
        },
        &view_);
    return std::move(view_);
  }

 private:
  std::int64_t run_end(std::size_t run) const { return begins_[run] + view_.segments[run].count; }

  void add(std::int64_t begin, std::int64_t end) {
    if (end_ == begin && !view_.segments.empty()) {
      view_.segments.back().count += end - begin;
    } else {
      view_.segments.push_back({k_ + begin * head_dim_, v_ + begin * head_dim_, end - begin});
      begins_.push_back(begin);
    }
    end_ = end;
  }

  const float *k_, *v_;
  std::int64_t head_dim_;
  std::int64_t end_ = 0;
  std::vector<std::int64_t> begins_;  // position of each segment's first key
  KeyView view_;
};

}  // namespace

at::Tensor paged_attention(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                           PackedSoftmax packed_softmax, std::int64_t page_size,
                           std::int64_t q_heads_per_row, std::int64_t pages_per_head,
                           const at::Tensor& kv_indptr, const at::Tensor& kv_indices) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor q = q_in.contiguous(), k = contiguous_per_head(k_in),
                   v = contiguous_per_head(v_in);
  const std::int64_t chunk_len = q.size(1), kv_len = k.size(1), past_len = kv_len - chunk_len;
  const std::int64_t rows = q.size(0) / q_heads_per_row;
  const auto* indptr = kv_indptr.const_data_ptr<std::int32_t>();
  const auto* ids = kv_indices.const_data_ptr<std::int32_t>();
  std::vector<KeyView> views;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t kv_head = row * k.size(0) / rows;
    ViewBuilder builder(head_data(k, kv_head), head_data(v, kv_head), k.size(2));
    for (std::int32_t i = indptr[row]; i < indptr[row + 1]; ++i) {
      const std::int64_t begin = (ids[i] - kv_head * pages_per_head) * page_size;
      builder.add_past(begin, std::min(begin + page_size, past_len));
    }
    views.push_back(builder.finish(past_len, kv_len, softmax, row * q_heads_per_row));
  }
  Results results;
  results.output = at::empty(q.sizes(), q.options());
  attend_views({q}, softmax.scale, views, cut_rows(rows, q_heads_per_row * chunk_len), &results);
  return results.output;
}

at::Tensor block_sparse_attention(const at::Tensor& q_in, const at::Tensor& k_in,
                                  const at::Tensor& v_in, PackedSoftmax packed_softmax,
                                  std::int64_t block_size, const at::Tensor& mask) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor q = q_in.contiguous(), k = contiguous_per_head(k_in),
                   v = contiguous_per_head(v_in);
  const std::int64_t chunk_len = q.size(1), dim = q.size(2), past_len = k.size(1) - chunk_len;
  const std::int64_t group = q.size(0) / k.size(0);
  const std::int64_t query_blocks = mask.size(1), key_blocks = mask.size(2);
  const std::int64_t first_block = past_len / block_size;
  const auto* bits = mask.const_data_ptr<std::uint8_t>();
  const at::Tensor output = at::empty(q.sizes(), q.options());
  const float* q_data = q.const_data_ptr<float>();
  float* out = output.mutable_data_ptr<float>();

  share_out(q.size(0) * query_blocks, [&](const NextItem& next) {
    const Scratch scratch(scratch_floats(k.size(1), false));
    while (const auto item = next()) {
      const std::int64_t head = *item / query_blocks;
      const std::int64_t own = first_block + *item % query_blocks;
      // The query block's rows are positions [begin, end): a chunk of their own.
      const std::int64_t begin = std::max(own * block_size, past_len);
      const std::int64_t end = std::min((own + 1) * block_size, k.size(1));
      ViewBuilder builder(head_data(k, head / group), head_data(v, head / group), dim);
      for (std::int64_t j = 0; j <= own; ++j) {
        if (bits[*item * key_blocks + j] == 0) continue;
        builder.add_past(j * block_size, std::min((j + 1) * block_size, begin));
      }
      const KeyView view = builder.finish(begin, end, softmax, head);
      const std::int64_t first_row = (head * chunk_len + begin - past_len) * dim;
      for (std::int64_t row = 0; row < end - begin; row += kBlockRows) {
        attend_row_block({q_data + first_row + row * dim, dim}, row,
                         std::min(kBlockRows, end - begin - row), end - begin, dim,
                         static_cast<float>(softmax.scale), view, scratch.data(),
                         {out + first_row + row * dim, nullptr, nullptr});
      }
    }
  });
  return output;
}

}  // namespace kvloupe::attention::cpu
