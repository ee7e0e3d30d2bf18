// Sparse attention on a GPU against the CPU's, in sizes that fill one.
#include "core/attention/attention.h"
#include "core/attention/paged_attention.h"
#include "tests/cuda/on_cuda.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace kvloupe {
namespace {

constexpr std::int64_t kHeads = 32, kKvHeads = 8, kDim = 128;

// After 8,000 keys.
class SparseOnCuda : public OnCuda, public ::testing::WithParamInterface<std::int64_t> {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (IsSkipped()) return;
    at::manual_seed(7);
    q_ = at::randn({kHeads, chunk_len(), kDim});
    k_ = at::randn({kKvHeads, 8000 + chunk_len() + 5, kDim});
    v_ = at::randn({kKvHeads, 8000 + chunk_len() + 5, kDim});
  }
  static std::int64_t chunk_len() { return GetParam(); }
  static std::int64_t kv_len() { return 8000 + chunk_len(); }

  using Operator =
      std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;
  void expect_parity(const Operator& run) const {
    const auto placed = [&](const char* device) {
      const auto to = [&](const at::Tensor& tensor) { return tensor.to(at::Device(device)); };
      return run(to(q_), to(k_).narrow(1, 0, kv_len()), to(v_).narrow(1, 0, kv_len())).cpu();
    };
    const at::Tensor want = placed("cpu"), got = placed("cuda:0");
    EXPECT_LT((got - want).abs().max().item<double>(), 2e-5);
    EXPECT_TRUE(at::equal(placed("cuda:0"), got)) << "the same input, other bits";
  }

  at::Tensor q_, k_, v_;
  const double scale_ = 1 / std::sqrt(static_cast<double>(kDim));
  mutable std::mt19937 random_{5};
};

TEST_P(SparseOnCuda, GatheredAgrees) {
  std::vector<std::vector<std::int32_t>> selected(kKvHeads);
  for (auto& row : selected)
    for (std::int32_t j = 0; j < 8000; ++j)
      if (random_() % 8 == 0) row.push_back(j);
  expect_parity([&](const auto& q, const auto& k, const auto& v) {
    return attention::gathered_chunk_attention(q, k, v, scale_, selected,
                                               attention::ChunkVisibility::OpenChunk);
  });
}

TEST_P(SparseOnCuda, KeptThereAgrees) {
  const at::Tensor order = at::randn({kKvHeads, 8000}).argsort(1, false);
  const at::Tensor kept = std::get<0>(order.narrow(1, 0, 1000).sort(1)).to(at::kInt);
  expect_parity([&](const auto& q, const auto& k, const auto& v) {
    return attention::kept_chunk_attention(q, k, v, scale_, kept.to(q.device()));
  });
}

TEST_P(SparseOnCuda, PagedAgreesForWholeGroupsAndForEachHead) {
  for (const std::int64_t heads_of_row : {std::int64_t{1}, std::int64_t{2}, kHeads / kKvHeads}) {
    attention::BlockTables tables;
    tables.page_size = 48;
    tables.q_heads_per_row = heads_of_row;
    tables.pages_per_head = (kv_len() + 47) / 48;
    tables.kv_indptr = {0};
    for (std::int64_t row = 0; row < kHeads / heads_of_row; ++row) {
      const std::int64_t kv_head = row * heads_of_row * kKvHeads / kHeads;
      for (std::int64_t page = 0; page < tables.pages_per_head; ++page)
        if (random_() % 10 == 0)
          tables.kv_indices.push_back(
              static_cast<std::int32_t>(kv_head * tables.pages_per_head + page));
      tables.kv_indptr.push_back(static_cast<std::int32_t>(tables.kv_indices.size()));
    }
    expect_parity([&](const auto& q, const auto& k, const auto& v) {
      return attention::paged_chunk_attention(q, k, v, scale_, tables);
    });
  }
}

TEST_P(SparseOnCuda, BlockSparseAgrees) {
  const std::int64_t first = 8000 / 128, blocks = (kv_len() + 127) / 128;
  const at::Tensor mask = at::zeros({kHeads, blocks - first, blocks}, at::dtype(at::kByte));
  auto bits = mask.accessor<std::uint8_t, 3>();
  for (std::int64_t head = 0; head < kHeads; ++head)
    for (std::int64_t i = 0; i < mask.size(1); ++i)
      for (std::int64_t j = 0; j <= first + i; ++j)
        bits[head][i][j] = j == first + i || random_() % 10 == 0;
  expect_parity([&](const auto& q, const auto& k, const auto& v) {
    return attention::block_sparse_chunk_attention(q, k, v, scale_, 128, mask);
  });
}

INSTANTIATE_TEST_SUITE_P(ChunkLengths, SparseOnCuda, ::testing::Values(1, 7, 128, 400));

}  // namespace
}  // namespace kvloupe
