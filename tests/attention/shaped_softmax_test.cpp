// Windows, softcaps and sinks in every operator, against plain loops in fp64.
#include "core/attention/attention.h"
#include "core/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::attention {
namespace {

constexpr std::int64_t kHeads = 4, kGroup = 2, kDim = 8, kPast = 45, kChunk = 20;
constexpr std::int64_t kKeys = kPast + kChunk;

struct Inputs {
  at::Tensor q, k, v;
};

Inputs random_inputs() {
  at::manual_seed(3);
  return {at::randn({kHeads, kChunk, kDim}) * 2, at::randn({kHeads / kGroup, kKeys, kDim}),
          at::randn({kHeads / kGroup, kKeys, kDim})};
}

class ShapedSoftmax : public ::testing::TestWithParam<SoftmaxForm> {
 protected:
  // The exponential of one (row, key) of a head, 0 where the window or the future hides it.
  double weight(std::int64_t head, std::int64_t row, std::int64_t key) const {
    const std::int64_t position = kPast + row;
    const std::int64_t window = GetParam().window;
    if (key > position || (window > 0 && key <= position - window)) return 0;
    double s = 0;
    for (std::int64_t i = 0; i < kDim; ++i)
      s += in_.q[head][row][i].item<double>() * in_.k[head / kGroup][key][i].item<double>();
    s *= GetParam().scale;
    if (GetParam().softcap > 0) s = GetParam().softcap * std::tanh(s / GetParam().softcap);
    return std::exp(s);
  }

  double sink(std::int64_t head) const {
    const auto& sinks = GetParam().sink_logits;
    return sinks.empty() ? 0 : std::exp(static_cast<double>(sinks[static_cast<std::size_t>(head)]));
  }

  using Kept = std::function<bool(std::int64_t head, std::int64_t row, std::int64_t key)>;
  void expect_output(const at::Tensor& output, const Kept& kept) const {
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (std::int64_t row = 0; row < kChunk; ++row) {
        at::Tensor sum = at::zeros({kDim}, at::kDouble);
        double total = sink(head);
        for (std::int64_t key = 0; key < kKeys; ++key) {
          if (!kept(head, row, key)) continue;
          const double w = weight(head, row, key);
          total += w;
          if (w > 0) sum += w * in_.v[head / kGroup][key].to(at::kDouble);
        }
        EXPECT_LT((output[head][row].to(at::kDouble) - sum / total).abs().max().item<double>(),
                  1e-5)
            << "head " << head << ", row " << row;
      }
  }

  Inputs in_ = random_inputs();
};

TEST_P(ShapedSoftmax, Dense) {
  const DenseResult dense = dense_chunk_attention(in_.q, in_.k, in_.v, GetParam(), true);
  expect_output(dense.output, [](auto, auto, auto) { return true; });
  at::Tensor mass = at::zeros({kHeads / kGroup, kKeys}, at::kDouble);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const at::Tensor rows =
        attention_rows(in_.q[head], in_.k[head / kGroup], GetParam(), kPast, dense.lse[head]);
    for (std::int64_t row = 0; row < kChunk; ++row) {
      double total = sink(head);
      for (std::int64_t key = 0; key < kKeys; ++key) total += weight(head, row, key);
      EXPECT_NEAR(dense.lse[head][row].item<double>(), std::log(total), 1e-5);
      for (std::int64_t key = 0; key < kKeys; ++key) {
        const double p = weight(head, row, key) / total;
        EXPECT_NEAR(rows[row][key].item<double>(), p, 1e-5);
        mass[head / kGroup][key] += p;
      }
    }
  }
  EXPECT_LT((dense.key_mass.to(at::kDouble) - mass).abs().max().item<double>(), 1e-4);
}

TEST_P(ShapedSoftmax, Gathered) {
  const std::vector<std::vector<std::int32_t>> selected = {{1, 30, 31, 40, 44}, {0, 29, 38}};
  const auto holds = [&](std::int64_t head, std::int64_t key) {
    const auto& row = selected[static_cast<std::size_t>(head / kGroup)];
    return std::find(row.begin(), row.end(), key) != row.end();
  };
  expect_output(gathered_chunk_attention(in_.q, in_.k, in_.v, GetParam(), selected,
                                         ChunkVisibility::OpenChunk),
                [&](auto head, auto, auto key) { return key >= kPast || holds(head, key); });
  const std::vector<std::vector<std::int32_t>> with_chunk = {{30, 44, 46, 50}, {29, 38, 45, 60}};
  const auto is_of = [&](std::int64_t head, std::int64_t key) {
    const auto& row = with_chunk[static_cast<std::size_t>(head / kGroup)];
    return std::find(row.begin(), row.end(), key) != row.end();
  };
  expect_output(
      gathered_chunk_attention(in_.q, in_.k, in_.v, GetParam(), with_chunk,
                               ChunkVisibility::SelfOnly),
      [&](auto head, auto row, auto key) { return key == kPast + row || is_of(head, key); });
}

TEST_P(ShapedSoftmax, Paged) {
  BlockTables tables;
  tables.page_size = 4;
  tables.q_heads_per_row = 1;
  tables.pages_per_head = 17;
  tables.kv_indptr = {0, 3, 5, 6, 9};
  tables.kv_indices = {0, 7, 8, 6, 10, 17 + 9, 17 + 1, 17 + 8, 17 + 11};
  expect_output(paged_chunk_attention(in_.q, in_.k, in_.v, GetParam(), tables),
                [&](auto head, auto, auto key) {
                  if (key >= kPast) return true;
                  for (auto i = tables.kv_indptr[static_cast<std::size_t>(head)];
                       i < tables.kv_indptr[static_cast<std::size_t>(head + 1)]; ++i)
                    if (tables.kv_indices[static_cast<std::size_t>(i)] % 17 == key / 4) return true;
                  return false;
                });
}

TEST_P(ShapedSoftmax, BlockSparse) {
  constexpr std::int64_t kBlock = 8, kBlocks = 9, kFirst = kPast / kBlock, kRows = kBlocks - kFirst;
  at::Tensor mask = at::zeros({kHeads, kRows, kBlocks}, at::kByte);
  for (std::int64_t head = 0; head < kHeads; ++head)
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j <= kFirst + i; ++j)
        if (j == kFirst + i || (head + 2 * i + j) % 3 == 0) mask[head][i][j] = 1;
  expect_output(block_sparse_chunk_attention(in_.q, in_.k, in_.v, GetParam(), kBlock, mask),
                [&](auto head, auto row, auto key) {
                  const std::int64_t i = (kPast + row) / kBlock - kFirst;
                  return mask[head][i][key / kBlock].template item<int>() == 1;
                });
}

INSTANTIATE_TEST_SUITE_P(Forms, ShapedSoftmax,
                         ::testing::Values(SoftmaxForm(0.4), SoftmaxForm(0.4, 17, 0, {}),
                                           SoftmaxForm(0.4, 3, 0, {}), SoftmaxForm(0.4, 1, 0, {}),
                                           SoftmaxForm(0.4, 0, 1.25, {}),
                                           SoftmaxForm(0.4, 0, 0, {-1, 0.5F, 3, 6}),
                                           SoftmaxForm(0.4, 30, 1.25, {-1, 0.5F, 3, 6})));

}  // namespace
}  // namespace kvloupe::attention
