#include "core/attention/row_block.h"

#include "core/attention/gemm.h"
#include "core/attention/softmax.h"

#include <algorithm>
#include <limits>

namespace kvloupe::attention {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kMaxSpansPerKvHead = 8;

// Masks what row t of the chunk may not see, and the padding.
void mask_row(const KeyView& keys, std::int64_t t, std::int64_t stride, float* row) {
  float* corner = row + keys.past;
  if (keys.shared != nullptr) {
    for (std::int64_t j = 0; j < t; ++j) {
      if (keys.shared[j] == 0) corner[j] = kMasked;
    }
  }
  std::fill(corner + t + 1, row + stride, kMasked);
}

}  // namespace

void attend_row_block(const float* q, std::int64_t first_row, std::int64_t rows,
                      std::int64_t chunk_len, std::int64_t head_dim, float scale,
                      const KeyView& keys, float* scores, const RowBlockOutputs& outputs) {
  const std::int64_t count = keys.past + chunk_len;
  const std::int64_t stride = padded(count);
  multiply_qk(q, keys.k, rows, count, head_dim, scale, scores, stride);
  float inverse_sums[kBlockRows];
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * stride;
    mask_row(keys, (first_row + r) % chunk_len, stride, row);
    const RowSoftmax softmax = softmax_row(row, stride);
    inverse_sums[r] = softmax.inverse_sum;
    if (outputs.lse != nullptr) outputs.lse[r] = softmax.lse;
    if (outputs.column_sums != nullptr) {
      add_scaled(row, softmax.inverse_sum, outputs.column_sums, stride);
    }
  }
  if (keys.v == nullptr) return;
  multiply_pv(scores, keys.v, rows, count, head_dim, stride, outputs.output);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < head_dim; ++c) outputs.output[r * head_dim + c] *= inverse_sums[r];
  }
}

std::vector<RowSpan> cut_rows(std::int64_t num_kv_heads, std::int64_t rows_per_kv_head) {
  const std::int64_t blocks = (rows_per_kv_head + kBlockRows - 1) / kBlockRows;
  const std::int64_t blocks_per_span = (blocks + kMaxSpansPerKvHead - 1) / kMaxSpansPerKvHead;
  const std::int64_t rows = blocks_per_span * kBlockRows;
  std::vector<RowSpan> spans;
  for (std::int64_t g = 0; g < num_kv_heads; ++g) {
    for (std::int64_t begin = 0; begin < rows_per_kv_head; begin += rows) {
      spans.push_back({g, begin, std::min(begin + rows, rows_per_kv_head)});
    }
  }
  return spans;
}

}  // namespace kvloupe::attention
