// The arithmetic that scoring methods share, in fp32 on raw rows. What a key scores depends on that
// key and the query rows alone: not on its neighbours, its place in memory, tiles or threads. So
// one cell and a whole replay, a live KV cache and a trace, give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe::selection {

// Query rows laid out for the kernels: channel-major, rows padded to whole blocks of kRowBlock by
// repeating row 0 (harmless for a maximum; sums ignore the padding).
inline constexpr std::int64_t kRowBlock = 16;
struct PackedRows {
  std::int64_t num_rows = 0;
  std::int64_t head_dim = 0;
  std::vector<float> values;  // [blocks, head_dim, kRowBlock]

  std::int64_t num_blocks() const { return (num_rows + kRowBlock - 1) / kRowBlock; }
  const float* block(std::int64_t index) const {
    return values.data() + index * head_dim * kRowBlock;
  }
};
PackedRows pack_rows(std::span<const float* const> rows, std::int64_t head_dim);

// out[j] = max over the rows of <row, key j>, for keys [num_keys, head_dim].
void max_dot_products(const PackedRows& rows, const float* keys, std::int64_t num_keys, float* out);

// out[j] = <row, key j>, for one row.
void dot_products(const float* row, const float* keys, std::int64_t num_keys, std::int64_t head_dim,
                  float* out);

// out[j] = |key j|, also where its square is beyond fp32.
void norms(const float* keys, std::int64_t num_keys, std::int64_t head_dim, float* out);

// The softmax of rows beside how far they see (base/softmax_form.h); a number is the scale of a plain
// one. Row r sees nothing before key first[r]; sinks[r] is the logit of its sink. Empty: from key 0
// on, and no sinks.
struct RowSoftmax {
  RowSoftmax(double scale_) : scale(scale_) {}
  double scale;
  double softcap = 0;
  std::span<const std::int64_t> first;
  std::span<const float> sinks;
};

enum class ColumnReduce { Sum, Max };
// Softmax over the keys of each row, then over the rows: out[j] = out[j] + sum of p or
// max(out[j], p). Row r sees the first visible[r] keys only; one that sees none adds nothing.
void reduce_probabilities(const PackedRows& rows, std::span<const std::int64_t> visible,
                          const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                          ColumnReduce reduce, float* out);

// One softmax over rows and keys together, summed over the rows: out[j] = sum of exp(z[r,j] - max z),
// not divided by their total. Row r sees the first visible[r] keys, maybe none. A sink is not asked
// for.
void joint_softmax_sums(const PackedRows& rows, std::span<const std::int64_t> visible,
                        const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                        double* out);

// The softmax of reduce_probabilities for consecutive rows (each sees one key more than the one before), summed over
// the rows by key and by distance: columns[j] += sum of p[r,j] and
// slashes[o] += sum of p[r, visible[r]-1-o], both [num_keys].
void sum_columns_and_slashes(const PackedRows& rows, std::span<const std::int64_t> visible,
                             const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                             float* columns, float* slashes);

}  // namespace kvloupe::selection
