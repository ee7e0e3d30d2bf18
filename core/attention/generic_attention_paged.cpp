// Attention over blocks of a KV cache in calls of Torch: the keys of the blocks are gathered row by row
// of a table, query block by query block of a mask.
#include "core/attention/generic_attention.h"

#include "core/attention/upload.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace kvloupe::attention::generic {
namespace {

// Positions of all keys of these blocks, int32 [n], of one KV head.
at::Tensor positions_of_blocks(const at::Tensor& blocks, std::int64_t block_size) {
  const at::Tensor inside = positions_of(0, block_size, blocks);
  return (blocks.to(at::kLong).unsqueeze(1) * block_size + inside).flatten();
}

// Output of query heads [heads, m, head_dim] that attend to the keys at `positions` of one KV head, the
// last m of which are those of the rows.
at::Tensor attend_positions(const at::Tensor& q, const at::Tensor& k_head, const at::Tensor& v_head,
                            const at::Tensor& positions, const DeviceSoftmax& softmax,
                            std::int64_t first_head) {
  const at::Tensor hidden = softmax.hidden(positions, at::Tensor(), q.size(1));
  const at::Tensor p = softmax(q, k_head.index_select(0, positions), hidden, first_head).p;
  return weighted(p, v_head.index_select(0, positions));
}

}  // namespace

at::Tensor paged_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           PackedSoftmax packed_softmax, std::int64_t page_size,
                           std::int64_t q_heads_per_row, std::int64_t pages_per_head,
                           const at::Tensor& kv_indptr, const at::Tensor& kv_indices) {
  const DeviceSoftmax softmax(packed_softmax, q);
  const std::int64_t past_len = k.size(1) - q.size(1), rows = q.size(0) / q_heads_per_row;
  const auto* indptr = kv_indptr.const_data_ptr<std::int32_t>();
  const auto* ids = kv_indices.const_data_ptr<std::int32_t>();
  const at::Tensor device_ids = uploaded(kv_indices, q.device());
  const at::Tensor chunk = positions_of(past_len, k.size(1), q);
  std::vector<at::Tensor> outputs;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t kv_head = row * k.size(0) / rows, page_0 = kv_head * pages_per_head;
    // The pages that begin before the chunk and do not end before what its first row sees.
    const auto up_to = [&](std::int64_t page) {
      return std::lower_bound(ids + indptr[row], ids + indptr[row + 1], page_0 + page);
    };
    const std::int32_t* first = up_to(softmax.first_visible(past_len) / page_size);
    const std::int32_t* last = std::max(first, up_to((past_len + page_size - 1) / page_size));
    at::Tensor positions = chunk;
    if (first != last) {
      const at::Tensor pages = device_ids.narrow(0, first - ids, last - first) - page_0;
      const std::int64_t beyond = std::max<std::int64_t>(
          (*(last - 1) - page_0 + 1) * page_size - past_len, 0);  // of a page that straddles
      const at::Tensor past = positions_of_blocks(pages, page_size);
      positions = at::cat({past.narrow(0, 0, past.size(0) - beyond), chunk});
    }
    const std::int64_t first_head = row * q_heads_per_row;
    outputs.push_back(attend_positions(q.narrow(0, first_head, q_heads_per_row), k[kv_head],
                                       v[kv_head], positions, softmax, first_head));
  }
  return at::cat(outputs);
}

at::Tensor block_sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  PackedSoftmax packed_softmax, std::int64_t block_size,
                                  const at::Tensor& mask) {
  const DeviceSoftmax softmax(packed_softmax, q);
  const std::int64_t kv_len = k.size(1), past_len = kv_len - q.size(1);
  const std::int64_t group = q.size(0) / k.size(0), first_block = past_len / block_size;
  const std::int64_t query_blocks = mask.size(1), key_blocks = mask.size(2);
  const auto* bits = mask.const_data_ptr<std::uint8_t>();
  std::vector<at::Tensor> outputs;
  for (std::int64_t head = 0; head < q.size(0); ++head) {
    const at::Tensor k_head = k[head / group], v_head = v[head / group];
    // The blocks of all query blocks of the head go to the device at once.
    std::vector<std::int32_t> blocks;
    std::vector<std::int64_t> begins = {0};
    for (std::int64_t i = 0; i < query_blocks; ++i, bits += key_blocks) {
      const std::int64_t own = first_block + i;
      const std::int64_t seen = softmax.first_visible(std::max(own * block_size, past_len));
      for (std::int64_t j = seen / block_size; j < own; ++j)
        if (bits[j] != 0) blocks.push_back(static_cast<std::int32_t>(j));
      begins.push_back(static_cast<std::int64_t>(blocks.size()));
    }
    const at::Tensor device_blocks = uploaded(on_host(blocks), q.device());
    std::vector<at::Tensor> of_head;
    for (std::int64_t i = 0; i < query_blocks; ++i) {
      // The query block's rows are positions [begin, end): a chunk of their own. What of their block
      // lies before them is past.
      const std::int64_t own = first_block + i, begin = std::max(own * block_size, past_len);
      const std::int64_t end = std::min((own + 1) * block_size, kv_len);
      const at::Tensor past = positions_of_blocks(
          device_blocks.narrow(0, begins[i], begins[i + 1] - begins[i]), block_size);
      const at::Tensor positions = at::cat({past, positions_of(own * block_size, end, q)});
      of_head.push_back(
          attend_positions(q.narrow(0, head, 1).narrow(1, begin - past_len, end - begin), k_head,
                           v_head, positions, softmax, head));
    }
    outputs.push_back(at::cat(of_head, 1));
  }
  return at::cat(outputs);
}

}  // namespace kvloupe::attention::generic
