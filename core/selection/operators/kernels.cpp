// Included by Highway once per instruction set; the best one is chosen at run time.
#include "core/selection/operators/kernels.h"

#include "core/base/work_count.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/selection/operators/kernels.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::selection {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = HWY_CAPPED(float, kRowBlock);
constexpr Lanes kLanes;
constexpr std::int64_t kWidth = hn::MaxLanes(Lanes());
constexpr std::int64_t kVectors = kRowBlock / kWidth;  // that one row block takes
using Vector = hn::Vec<Lanes>;
// Enough independent sums to hide the latency of a multiply-add.
constexpr std::int64_t kKeysAtOnce = kVectors == 1 ? 12 : kVectors == 2 ? 6 : 3;

// Products of one row block with kKeys keys, summed over the channels in order. For each key the
// row block's vectors go to visit(key, vectors).
template <std::int64_t kKeys, typename Visit>
HWY_INLINE void dot_keys(const float* HWY_RESTRICT block, const float* HWY_RESTRICT keys,
                         std::int64_t head_dim, std::int64_t first, const Visit& visit) {
  Vector sums[kKeys][kVectors];
  for (auto& key : sums)
    for (auto& sum : key) sum = hn::Zero(kLanes);
  const float* key_rows = keys + first * head_dim;
  for (std::int64_t channel = 0; channel < head_dim; ++channel) {
    Vector row[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v)
      row[v] = hn::LoadU(kLanes, block + channel * kRowBlock + v * kWidth);
    for (std::int64_t key = 0; key < kKeys; ++key) {
      const auto value = hn::Set(kLanes, key_rows[key * head_dim + channel]);
      for (std::int64_t v = 0; v < kVectors; ++v)
        sums[key][v] = hn::MulAdd(row[v], value, sums[key][v]);
    }
  }
  for (std::int64_t key = 0; key < kKeys; ++key) visit(first + key, sums[key]);
}

// Several key rows are read side by side, which hardware prefetchers do not follow well.
HWY_INLINE void prefetch(const float* begin, const float* end) {
  constexpr std::int64_t kCacheLine = 64 / sizeof(float);
  for (; begin < end; begin += kCacheLine) hwy::Prefetch(begin);
}

template <typename Visit>
HWY_INLINE void for_each_key(const float* block, const float* keys, std::int64_t num_keys,
                             std::int64_t head_dim, const Visit& visit) {
  std::int64_t key = 0;
  for (; key + kKeysAtOnce <= num_keys; key += kKeysAtOnce) {
    const float* next = keys + (key + kKeysAtOnce) * head_dim;
    prefetch(next, std::min(next + kKeysAtOnce * head_dim, keys + num_keys * head_dim));
    dot_keys<kKeysAtOnce>(block, keys, head_dim, key, visit);
  }
  for (; key < num_keys; ++key) dot_keys<1>(block, keys, head_dim, key, visit);
}

void max_dot_products_impl(const PackedRows& rows, const float* keys, std::int64_t num_keys,
                           float* out) {
  std::fill(out, out + num_keys, -std::numeric_limits<float>::infinity());
  for (std::int64_t block = 0; block < rows.num_blocks(); ++block) {
    for_each_key(rows.block(block), keys, num_keys, rows.head_dim,
                 [&](std::int64_t key, const Vector* sums) HWY_ATTR {
                   Vector best = sums[0];
                   for (std::int64_t v = 1; v < kVectors; ++v) best = hn::Max(best, sums[v]);
                   out[key] = std::max(out[key], hn::GetLane(hn::MaxOfLanes(kLanes, best)));
                 });
  }
}

// Sum of products of two rows; the order of the sum depends on head_dim alone.
HWY_INLINE float inner_product(const float* a, const float* b, std::int64_t head_dim) {
  Vector sum[2] = {hn::Zero(kLanes), hn::Zero(kLanes)};
  std::int64_t channel = 0;
  for (; channel + 2 * kWidth <= head_dim; channel += 2 * kWidth)
    for (std::int64_t half = 0; half < 2; ++half)
      sum[half] = hn::MulAdd(hn::LoadU(kLanes, a + channel + half * kWidth),
                             hn::LoadU(kLanes, b + channel + half * kWidth), sum[half]);
  float total = hn::GetLane(hn::SumOfLanes(kLanes, hn::Add(sum[0], sum[1])));
  for (; channel < head_dim; ++channel) total += a[channel] * b[channel];
  return total;
}

void dot_products_impl(const float* row, const float* keys, std::int64_t num_keys,
                       std::int64_t head_dim, float* out) {
  for (std::int64_t key = 0; key < num_keys; ++key)
    out[key] = inner_product(row, keys + key * head_dim, head_dim);
}

float norm_in_double(const float* row, std::int64_t head_dim) {
  double sum = 0;
  for (std::int64_t i = 0; i < head_dim; ++i)
    sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  return static_cast<float>(std::sqrt(sum));
}

void norms_impl(const float* keys, std::int64_t num_keys, std::int64_t head_dim, float* out) {
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const float* row = keys + key * head_dim;
    const float square = inner_product(row, row, head_dim);
    out[key] = square <= std::numeric_limits<float>::max() ? std::sqrt(square)
                                                           : norm_in_double(row, head_dim);
  }
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// The rows [first, first + count) of a softmax: one row block.
RowSoftmax rows_of(const RowSoftmax& softmax, std::int64_t first, std::int64_t count) {
  RowSoftmax part = softmax;
  if (!softmax.first.empty()) part.first = softmax.first.subspan(first, count);
  if (!softmax.sinks.empty()) part.sinks = softmax.sinks.subspan(first, count);
  return part;
}

// Logits of one row block, [num_keys, kRowBlock], masked; returns the largest of each row, its sink
// among them, or any finite number where it sees nothing.
template <bool kCapped>
HWY_INLINE void masked_logits(const float* block, std::span<const std::int64_t> visible,
                              const float* keys, std::int64_t num_keys, std::int64_t head_dim,
                              const RowSoftmax& softmax, float* logits, Vector* largest) {
  float start[kRowBlock];
  std::fill_n(start, kRowBlock, kHidden);
  std::copy(softmax.sinks.begin(), softmax.sinks.end(), start);
  for (std::int64_t v = 0; v < kVectors; ++v) largest[v] = hn::LoadU(kLanes, start + v * kWidth);
  const auto factor = hn::Set(kLanes, static_cast<float>(softmax.scale));
  const auto cap = hn::Set(kLanes, static_cast<float>(softmax.softcap));
  const auto to_cap =
      hn::Set(kLanes, kCapped ? static_cast<float>(softmax.scale / softmax.softcap) : 0.0F);
  const std::int64_t all_visible = *std::min_element(visible.begin(), visible.end());
  const std::int64_t none_hidden =
      softmax.first.empty() ? 0 : *std::max_element(softmax.first.begin(), softmax.first.end());
  for_each_key(block, keys, num_keys, head_dim, [&](std::int64_t key, const Vector* sums) HWY_ATTR {
    float* row = logits + key * kRowBlock;
    for (std::int64_t v = 0; v < kVectors; ++v) {
      if constexpr (kCapped)
        hn::StoreU(hn::Mul(cap, hn::Tanh(kLanes, hn::Mul(sums[v], to_cap))), kLanes,
                   row + v * kWidth);
      else
        hn::StoreU(hn::Mul(sums[v], factor), kLanes, row + v * kWidth);
    }
    if (key >= all_visible) {
      for (std::size_t r = 0; r < visible.size(); ++r)
        if (key >= visible[r]) row[r] = kHidden;
    }
    if (key < none_hidden) {
      for (std::size_t r = 0; r < softmax.first.size(); ++r)
        if (key < softmax.first[r]) row[r] = kHidden;
    }
    for (std::int64_t v = 0; v < kVectors; ++v)
      largest[v] = hn::Max(largest[v], hn::LoadU(kLanes, row + v * kWidth));
  });
}

HWY_INLINE void masked_logits(const float* block, std::span<const std::int64_t> visible,
                              const float* keys, std::int64_t num_keys, std::int64_t head_dim,
                              const RowSoftmax& softmax, float* logits, Vector* largest) {
  if (softmax.softcap > 0)
    masked_logits<true>(block, visible, keys, num_keys, head_dim, softmax, logits, largest);
  else
    masked_logits<false>(block, visible, keys, num_keys, head_dim, softmax, logits, largest);
}

// The largest logit of a row that sees nothing is taken for 0: its exponentials are 0 then.
HWY_INLINE void settle_unseeing_rows(Vector* largest) {
  for (std::int64_t v = 0; v < kVectors; ++v)
    largest[v] = hn::IfThenZeroElse(hn::Eq(largest[v], hn::Set(kLanes, kHidden)), largest[v]);
}

// 1 / (the row's total, its sink included); 0 for padding rows and those that see nothing.
HWY_INLINE void row_weights(const double* totals, std::int64_t count, const RowSoftmax& softmax,
                            const Vector* largest, float* weights) {
  float shift[kRowBlock];
  for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(largest[v], kLanes, shift + v * kWidth);
  std::fill_n(weights, kRowBlock, 0.0F);
  for (std::int64_t row = 0; row < count; ++row) {
    const double sink = softmax.sinks.empty()
                            ? 0.0
                            : std::exp(static_cast<double>(softmax.sinks[row] - shift[row]));
    const double total = totals[row] + sink;
    if (total != 0) weights[row] = static_cast<float>(1.0 / total);
  }
}

// Turns logits into exp(logit - largest) and returns the sum of each row. Runs of keys are summed
// in fp32 and the runs in fp64: a plain fp32 sum over many keys would lose the small ones.
HWY_INLINE void exponentials(std::int64_t num_keys, const Vector* largest, float* logits,
                             double* totals) {
  constexpr std::int64_t kRun = 64;
  std::fill(totals, totals + kRowBlock, 0.0);
  for (std::int64_t begin = 0; begin < num_keys; begin += kRun) {
    Vector sums[kVectors];
    for (auto& sum : sums) sum = hn::Zero(kLanes);
    for (std::int64_t key = begin; key < std::min(begin + kRun, num_keys); ++key) {
      for (std::int64_t v = 0; v < kVectors; ++v) {
        float* values = logits + key * kRowBlock + v * kWidth;
        const auto e = hn::Exp(kLanes, hn::Sub(hn::LoadU(kLanes, values), largest[v]));
        hn::StoreU(e, kLanes, values);
        sums[v] = hn::Add(sums[v], e);
      }
    }
    float partial[kRowBlock];
    for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], kLanes, partial + v * kWidth);
    for (std::int64_t row = 0; row < kRowBlock; ++row) totals[row] += partial[row];
  }
}

// out: exp(logit - the row's largest) of [num_keys, kRowBlock]; p is that times the row's weight.
HWY_INLINE void softmax_of_rows(const float* block, std::span<const std::int64_t> visible,
                                const float* keys, std::int64_t num_keys, std::int64_t head_dim,
                                const RowSoftmax& softmax, float* out, float* weights) {
  Vector largest[kVectors];
  masked_logits(block, visible, keys, num_keys, head_dim, softmax, out, largest);
  settle_unseeing_rows(largest);
  double totals[kRowBlock];
  exponentials(num_keys, largest, out, totals);
  row_weights(totals, std::ssize(visible), softmax, largest, weights);
}

void reduce_probabilities_impl(const PackedRows& rows, std::span<const std::int64_t> visible,
                               const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                               ColumnReduce reduce, float* out) {
  std::vector<float> logits(static_cast<std::size_t>(num_keys * kRowBlock));
  for (std::int64_t block = 0; block < rows.num_blocks(); ++block) {
    const std::int64_t first = block * kRowBlock;
    const std::int64_t count = std::min(kRowBlock, rows.num_rows - first);
    float weights[kRowBlock];
    softmax_of_rows(rows.block(block), visible.subspan(first, count), keys, num_keys, rows.head_dim,
                    rows_of(softmax, first, count), logits.data(), weights);
    for (std::int64_t key = 0; key < num_keys; ++key) {
      Vector reduced = hn::Zero(kLanes);
      for (std::int64_t v = 0; v < kVectors; ++v) {
        const auto e = hn::LoadU(kLanes, logits.data() + key * kRowBlock + v * kWidth);
        const auto weight = hn::LoadU(kLanes, weights + v * kWidth);
        reduced = reduce == ColumnReduce::Sum ? hn::MulAdd(e, weight, reduced)
                                              : hn::Max(hn::Mul(e, weight), reduced);
      }
      if (reduce == ColumnReduce::Sum)
        out[key] += hn::GetLane(hn::SumOfLanes(kLanes, reduced));
      else
        out[key] = std::max(out[key], hn::GetLane(hn::MaxOfLanes(kLanes, reduced)));
    }
  }
}

void joint_softmax_sums_impl(const PackedRows& rows, std::span<const std::int64_t> visible,
                             const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                             double* out) {
  // The padding rows see nothing.
  std::vector<std::int64_t> seen(visible.begin(), visible.end());
  seen.resize(static_cast<std::size_t>(rows.num_blocks() * kRowBlock), 0);
  std::vector<std::int64_t> first(softmax.first.begin(), softmax.first.end());
  RowSoftmax padded = softmax;
  if (!first.empty()) {
    first.resize(seen.size(), 0);
    padded.first = first;
  }
  padded.sinks = {};
  std::vector<float> logits(seen.size() * static_cast<std::size_t>(num_keys));
  float best = -std::numeric_limits<float>::infinity();
  for (std::int64_t block = 0; block < rows.num_blocks(); ++block) {
    Vector largest[kVectors];
    masked_logits(rows.block(block), std::span(seen).subspan(block * kRowBlock, kRowBlock), keys,
                  num_keys, rows.head_dim, rows_of(padded, block * kRowBlock, kRowBlock),
                  logits.data() + block * num_keys * kRowBlock, largest);
    for (const auto& vector : largest)
      best = std::max(best, hn::GetLane(hn::MaxOfLanes(kLanes, vector)));
  }
  std::fill(out, out + num_keys, 0.0);
  const auto shift = hn::Set(kLanes, best == kHidden ? 0.0F : best);
  for (std::int64_t block = 0; block < rows.num_blocks(); ++block)
    for (std::int64_t key = 0; key < num_keys; ++key) {
      const float* values = logits.data() + (block * num_keys + key) * kRowBlock;
      Vector sum = hn::Zero(kLanes);
      for (std::int64_t v = 0; v < kVectors; ++v)
        sum = hn::Add(sum, hn::Exp(kLanes, hn::Sub(hn::LoadU(kLanes, values + v * kWidth), shift)));
      out[key] += static_cast<double>(hn::GetLane(hn::SumOfLanes(kLanes, sum)));
    }
}

void sum_columns_and_slashes_impl(const PackedRows& rows, std::span<const std::int64_t> visible,
                                  const float* keys, std::int64_t num_keys,
                                  const RowSoftmax& softmax, float* columns, float* slashes) {
  std::vector<float> logits(static_cast<std::size_t>(num_keys * kRowBlock));
  // Lanes that see nothing of a key have negative distances; they add zeros before the first.
  std::vector<float> padded(static_cast<std::size_t>(num_keys + 2 * kRowBlock), 0.0F);
  for (std::int64_t block = 0; block < rows.num_blocks(); ++block) {
    const std::int64_t first = block * kRowBlock;
    const std::int64_t count = std::min(kRowBlock, rows.num_rows - first);
    const std::int64_t seen = visible[first + count - 1];
    float weights[kRowBlock];
    softmax_of_rows(rows.block(block), visible.subspan(first, count), keys, seen, rows.head_dim,
                    rows_of(softmax, first, count), logits.data(), weights);
    for (std::int64_t key = 0; key < seen; ++key) {
      Vector sum = hn::Zero(kLanes);
      float* distances = padded.data() + kRowBlock + visible[first] - 1 - key;
      for (std::int64_t v = 0; v < kVectors; ++v) {
        const auto e = hn::LoadU(kLanes, logits.data() + key * kRowBlock + v * kWidth);
        const auto p = hn::Mul(e, hn::LoadU(kLanes, weights + v * kWidth));
        sum = hn::Add(sum, p);
        hn::StoreU(hn::Add(hn::LoadU(kLanes, distances + v * kWidth), p), kLanes,
                   distances + v * kWidth);
      }
      columns[key] += hn::GetLane(hn::SumOfLanes(kLanes, sum));
    }
  }
  for (std::int64_t distance = 0; distance < num_keys; ++distance)
    slashes[distance] += padded[kRowBlock + distance];
}

}  // namespace HWY_NAMESPACE
}  // namespace kvloupe::selection
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::selection {

HWY_EXPORT(max_dot_products_impl);
HWY_EXPORT(dot_products_impl);
HWY_EXPORT(norms_impl);
HWY_EXPORT(reduce_probabilities_impl);
HWY_EXPORT(joint_softmax_sums_impl);
HWY_EXPORT(sum_columns_and_slashes_impl);

PackedRows pack_rows(std::span<const float* const> rows, std::int64_t head_dim) {
  PackedRows packed;
  packed.num_rows = static_cast<std::int64_t>(rows.size());
  packed.head_dim = head_dim;
  packed.values.resize(static_cast<std::size_t>(packed.num_blocks() * head_dim * kRowBlock));
  for (std::int64_t block = 0; block < packed.num_blocks(); ++block) {
    for (std::int64_t lane = 0; lane < kRowBlock; ++lane) {
      const std::int64_t row = block * kRowBlock + lane;
      const float* source = rows[row < packed.num_rows ? row : 0];
      float* target = packed.values.data() + block * head_dim * kRowBlock + lane;
      for (std::int64_t channel = 0; channel < head_dim; ++channel)
        target[channel * kRowBlock] = source[channel];
    }
  }
  return packed;
}

void max_dot_products(const PackedRows& rows, const float* keys, std::int64_t num_keys,
                      float* out) {
  count_keys(rows.num_rows, num_keys, rows.head_dim);
  HWY_DYNAMIC_DISPATCH(max_dot_products_impl)(rows, keys, num_keys, out);
}

void dot_products(const float* row, const float* keys, std::int64_t num_keys, std::int64_t head_dim,
                  float* out) {
  count_keys(1, num_keys, head_dim);
  HWY_DYNAMIC_DISPATCH(dot_products_impl)(row, keys, num_keys, head_dim, out);
}

void norms(const float* keys, std::int64_t num_keys, std::int64_t head_dim, float* out) {
  HWY_DYNAMIC_DISPATCH(norms_impl)(keys, num_keys, head_dim, out);
}

void reduce_probabilities(const PackedRows& rows, std::span<const std::int64_t> visible,
                          const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                          ColumnReduce reduce, float* out) {
  count_keys(rows.num_rows, num_keys, rows.head_dim);
  HWY_DYNAMIC_DISPATCH(reduce_probabilities_impl)
  (rows, visible, keys, num_keys, softmax, reduce, out);
}

void joint_softmax_sums(const PackedRows& rows, std::span<const std::int64_t> visible,
                        const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                        double* out) {
  count_keys(rows.num_rows, num_keys, rows.head_dim);
  HWY_DYNAMIC_DISPATCH(joint_softmax_sums_impl)(rows, visible, keys, num_keys, softmax, out);
}

void sum_columns_and_slashes(const PackedRows& rows, std::span<const std::int64_t> visible,
                             const float* keys, std::int64_t num_keys, const RowSoftmax& softmax,
                             float* columns, float* slashes) {
  count_keys(rows.num_rows, num_keys, rows.head_dim);
  HWY_DYNAMIC_DISPATCH(sum_columns_and_slashes_impl)
  (rows, visible, keys, num_keys, softmax, columns, slashes);
}

}  // namespace kvloupe::selection
#endif
