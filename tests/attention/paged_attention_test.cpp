// Paged and block-sparse attention against masked dense attention in plain double loops.
#include "core/attention/paged_attention.h"

#include "tests/attention/reference.h"

#include "core/base/error.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <random>
#include <string>
#include <vector>

namespace kvloupe::attention {
namespace {

struct PagedProblem {
  Problem shape;
  std::int64_t page_size = 16;
  std::int64_t q_heads_per_row = 1;
};

std::int64_t pages_of(std::int64_t tokens, std::int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

// kept[row][page] of all pages, past and current, each with the probability given.
using Kept = std::vector<std::vector<bool>>;

Kept random_pages(const PagedProblem& p, double share) {
  const std::int64_t rows = p.shape.num_q_heads / p.q_heads_per_row;
  const std::int64_t pages = pages_of(p.shape.past + p.shape.m, p.page_size);
  std::mt19937 random(7);
  Kept kept(rows, std::vector<bool>(pages));
  for (auto& row : kept)
    for (std::int64_t j = 0; j < pages; ++j) row[j] = random() < share * 4294967296.0;
  return kept;
}

BlockTables tables_of(const PagedProblem& p, const Kept& kept, std::int64_t pages_per_head = 0) {
  BlockTables tables;
  tables.page_size = p.page_size;
  tables.q_heads_per_row = p.q_heads_per_row;
  tables.pages_per_head =
      pages_per_head > 0 ? pages_per_head : pages_of(p.shape.past + p.shape.m, p.page_size);
  tables.kv_indptr = {0};
  const std::int64_t rows_per_kv_head =
      p.shape.num_q_heads / p.shape.num_kv_heads / p.q_heads_per_row;
  for (std::size_t row = 0; row < kept.size(); ++row) {
    const std::int64_t kv_head = static_cast<std::int64_t>(row) / rows_per_kv_head;
    for (std::size_t j = 0; j < kept[row].size(); ++j)
      if (kept[row][j])
        tables.kv_indices.push_back(static_cast<std::int32_t>(kv_head * tables.pages_per_head + j));
    tables.kv_indptr.push_back(static_cast<std::int32_t>(tables.kv_indices.size()));
  }
  return tables;
}

Reference masked_dense(const PagedProblem& p, const Inputs& in, const Kept& kept) {
  return attend_slowly_by_head(in, [&](std::int64_t h, std::int64_t t, std::int64_t j) {
    if (j >= p.shape.past) return j <= p.shape.past + t;
    return static_cast<bool>(kept[h / p.q_heads_per_row][j / p.page_size]);
  });
}

class PagedAttention : public testing::TestWithParam<PagedProblem> {};

TEST_P(PagedAttention, AgreesWithMaskedDenseAttention) {
  const PagedProblem& p = GetParam();
  const Inputs in = make_inputs(p.shape);
  for (const double share : {0.1, 0.5, 0.9}) {
    const Kept kept = random_pages(p, share);
    const at::Tensor got = paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, kept));
    EXPECT_LT(largest_error(got, masked_dense(p, in, kept).output), 1e-5) << "share " << share;
  }
}

TEST_P(PagedAttention, ReadsOnlyTheBlocksOfTheTablesInPlace) {
  // A page that no row lists is poisoned; the cache has room behind every head, poisoned too.
  const PagedProblem& p = GetParam();
  const Inputs in = make_inputs(p.shape);
  const std::int64_t kv_len = p.shape.past + p.shape.m;
  const std::int64_t pages_per_head = pages_of(kv_len, p.page_size) + 3;
  at::Tensor k_cache =
      at::full({p.shape.num_kv_heads, pages_per_head * p.page_size, p.shape.dim}, NAN);
  at::Tensor v_cache = k_cache.clone();
  const at::Tensor k = k_cache.narrow(1, 0, kv_len), v = v_cache.narrow(1, 0, kv_len);
  const Kept kept = random_pages(p, 0.4);
  const std::int64_t rows_per_kv_head =
      p.shape.num_q_heads / p.shape.num_kv_heads / p.q_heads_per_row;
  for (std::int64_t g = 0; g < p.shape.num_kv_heads; ++g) {
    for (std::int64_t j = 0; j < kv_len; ++j) {
      bool read = j >= p.shape.past;
      for (std::int64_t row = 0; row < rows_per_kv_head; ++row)
        read = read || kept[g * rows_per_kv_head + row][j / p.page_size];
      if (!read) continue;
      k[g][j].copy_(in.k[g][j]);
      v[g][j].copy_(in.v[g][j]);
    }
  }
  const at::Tensor got =
      paged_chunk_attention(in.q, k, v, in.scale, tables_of(p, kept, pages_per_head));
  EXPECT_LT(largest_error(got, masked_dense(p, in, kept).output), 1e-5);
}

TEST_P(PagedAttention, ThreadCountDoesNotChangeTheBits) {
  const PagedProblem& p = GetParam();
  const Inputs in = make_inputs(p.shape);
  const BlockTables tables = tables_of(p, random_pages(p, 0.3));
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const at::Tensor two = paged_chunk_attention(in.q, in.k, in.v, in.scale, tables);
  at::set_num_threads(3);
  const at::Tensor three = paged_chunk_attention(in.q, in.k, in.v, in.scale, tables);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(two, three));
}

TEST_P(PagedAttention, AllPagesAreDenseAttentionToTheBit) {
  const PagedProblem& p = GetParam();
  const Inputs in = make_inputs(p.shape);
  const at::Tensor got =
      paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, random_pages(p, 1)));
  if (p.q_heads_per_row == p.shape.num_q_heads / p.shape.num_kv_heads) {
    EXPECT_TRUE(at::equal(got, dense_chunk_attention(in.q, in.k, in.v, in.scale, false).output));
  } else {  // other row blocks, so other products
    EXPECT_LT(largest_error(got, attend_slowly(in).output), 1e-5);
  }
}

TEST_P(PagedAttention, EmptyTablesLeaveTheChunk) {
  const PagedProblem& p = GetParam();
  const Inputs in = make_inputs(p.shape);
  const Kept nothing = random_pages(p, 0);
  const at::Tensor got = paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, nothing));
  const at::Tensor own_k = in.k.narrow(1, p.shape.past, p.shape.m);
  const at::Tensor own_v = in.v.narrow(1, p.shape.past, p.shape.m);
  const Inputs chunk = {in.q, own_k, own_v, in.scale};
  EXPECT_LT(largest_error(got, attend_slowly(chunk).output), 1e-5);
}

PagedProblem paged(std::int64_t group, std::int64_t kv_heads, std::int64_t m, std::int64_t past,
                   std::int64_t page_size, std::int64_t q_heads_per_row = 0) {
  return {
      {.num_q_heads = group * kv_heads, .num_kv_heads = kv_heads, .m = m, .past = past, .dim = 16},
      page_size,
      q_heads_per_row > 0 ? q_heads_per_row : group};
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PagedAttention,
    testing::Values(
        paged(1, 3, 64, 256, 32), paged(3, 2, 128, 384, 128), paged(4, 2, 64, 320, 64),
        paged(8, 1, 32, 256, 16),
        // The past ends inside a page, the chunk too.
        paged(1, 2, 50, 171, 32), paged(3, 3, 70, 301, 64), paged(4, 1, 33, 95, 16),
        paged(8, 2, 21, 100, 16),
        // Sub-groups, single query heads.
        paged(8, 2, 41, 333, 32, 4), paged(8, 1, 16, 130, 32, 1), paged(4, 2, 9, 77, 8, 2),
        // More tiles and row blocks than one.
        paged(3, 1, 300, 1300, 128), paged(1, 1, 700, 50, 16),
        // A page holds one token; the past fits one page; the chunk begins with the text.
        paged(3, 2, 5, 37, 1), paged(3, 2, 40, 20, 64), paged(4, 2, 20, 0, 16),
        // One query: a decoded token.
        paged(3, 3, 1, 200, 16), paged(8, 1, 1, 97, 16, 4)),
    [](const testing::TestParamInfo<PagedProblem>& shape) {
      const Problem& p = shape.param.shape;
      return "group" + std::to_string(p.num_q_heads / p.num_kv_heads) + "kv" +
             std::to_string(p.num_kv_heads) + "m" + std::to_string(p.m) + "past" +
             std::to_string(p.past) + "page" + std::to_string(shape.param.page_size) + "row" +
             std::to_string(shape.param.q_heads_per_row);
    });

TEST(PagedChunkAttention, HandComputedCase) {
  // Past keys 0 and 1 in pages of one; the second alone is listed. Its logit is ln 3, the chunk's
  // key has 0: weights 3/4 and 1/4.
  const at::Tensor q = at::ones({1, 1, 1});
  const at::Tensor k = at::tensor({5.0f, 1.0986123f, 0.0f}).reshape({1, 3, 1});
  const at::Tensor v = at::tensor({100.0f, 8.0f, 4.0f}).reshape({1, 3, 1});
  const at::Tensor got = paged_chunk_attention(q, k, v, 1.0, {1, 1, 3, {0, 1}, {1}});
  EXPECT_NEAR(got.item<double>(), 7.0, 1e-6);
}

TEST(PagedChunkAttention, ThePageAtTheChunksBeginShowsItsPastOnlyWhereListed) {
  const PagedProblem p = paged(3, 1, 20, 40, 32);  // page 1 straddles: 8 past tokens, 20 current
  const Inputs in = make_inputs(p.shape);
  const Kept listed = {{false, true}}, not_listed = {{false, false}};
  const at::Tensor with = paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, listed));
  const at::Tensor without =
      paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, not_listed));
  EXPECT_LT(largest_error(with, masked_dense(p, in, listed).output), 1e-5);
  EXPECT_LT(largest_error(without, masked_dense(p, in, not_listed).output), 1e-5);
  EXPECT_GT((with - without).abs().max().item<double>(), 1e-3);
}

TEST(PagedChunkAttention, ListingTheChunksOwnPagesMakesNoDifference) {
  const PagedProblem p = paged(4, 2, 64, 64, 16);
  const Inputs in = make_inputs(p.shape);
  const Kept past_only = {{true, false, true, false, false, false, false, false},
                          {false, false, true, true, false, false, false, false}};
  Kept with_chunk = past_only;
  for (auto& row : with_chunk) std::fill(row.begin() + 4, row.end(), true);
  EXPECT_TRUE(
      at::equal(paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, past_only)),
                paged_chunk_attention(in.q, in.k, in.v, in.scale, tables_of(p, with_chunk))));
}

TEST(PagedChunkAttention, TablesThatDoNotFitAreRefused) {
  const Inputs in =
      make_inputs({.num_q_heads = 4, .num_kv_heads = 2, .m = 4, .past = 28, .dim = 8});
  const auto run = [&](const BlockTables& tables) {
    paged_chunk_attention(in.q, in.k, in.v, in.scale, tables);
  };
  // Rows of 2 heads, 4 pages of 8 tokens a KV head.
  EXPECT_NO_THROW(run({8, 2, 4, {0, 2, 3}, {0, 2, 5}}));
  EXPECT_THROW(run({0, 2, 4, {0, 2, 3}, {0, 2, 5}}), Error);  // no page size
  EXPECT_THROW(run({8, 0, 4, {0, 2, 3}, {0, 2, 5}}), Error);
  EXPECT_THROW(run({8, 3, 4, {0, 2, 3}, {0, 2, 5}}), Error);  // 3 does not divide the group
  EXPECT_THROW(run({8, 2, 3, {0, 2, 3}, {0, 2, 5}}), Error);  // fewer pages than the cache has
  EXPECT_THROW(run({8, 2, 4, {0, 3}, {0, 2, 5}}), Error);     // a row is missing
  EXPECT_THROW(run({8, 2, 4, {}, {}}), Error);
  EXPECT_THROW(run({8, 2, 4, {0, 2, 4}, {0, 2, 5}}), Error);  // more ids than there are
  EXPECT_THROW(run({8, 2, 4, {0, 3, 2}, {0, 2}}), Error);     // rows run backwards
  EXPECT_THROW(run({8, 2, 4, {1, 2, 3}, {0, 2, 5}}), Error);
  EXPECT_THROW(run({8, 2, 4, {0, 2, 3}, {2, 0, 5}}), Error);  // not ascending
  EXPECT_THROW(run({8, 2, 4, {0, 2, 3}, {2, 2, 5}}), Error);  // twice
  EXPECT_THROW(run({8, 2, 4, {0, 2, 3}, {0, 2, 3}}), Error);  // a page of the other KV head
  EXPECT_THROW(run({8, 2, 4, {0, 2, 3}, {0, 4, 5}}), Error);
  EXPECT_THROW(run({8, 2, 4, {0, 2, 3}, {-1, 2, 5}}), Error);
  EXPECT_THROW(run({8, 2, 6, {0, 2, 3}, {0, 4, 7}}), Error);  // a page behind the last token
}

// [num_q_heads, Q_b, N_b], the own block kept, those before it with the probability given.
at::Tensor random_mask(const Problem& p, std::int64_t block_size, double share) {
  const std::int64_t blocks = pages_of(p.past + p.m, block_size), first = p.past / block_size;
  at::Tensor mask = at::zeros({p.num_q_heads, blocks - first, blocks}, at::kByte);
  std::mt19937 random(11);
  for (std::int64_t h = 0; h < p.num_q_heads; ++h)
    for (std::int64_t i = 0; i < blocks - first; ++i)
      for (std::int64_t j = 0; j <= first + i; ++j)
        if (j == first + i || random() < share * 4294967296.0) mask[h][i][j] = 1;
  return mask;
}

void expect_block_sparse(const Problem& p, std::int64_t block_size, double share) {
  const Inputs in = make_inputs(p);
  const at::Tensor mask = random_mask(p, block_size, share);
  const Reference want =
      attend_slowly_by_head(in, [&](std::int64_t h, std::int64_t t, std::int64_t j) {
        const std::int64_t i = (p.past + t) / block_size - p.past / block_size;
        return j <= p.past + t && mask[h][i][j / block_size].item<int>() != 0;
      });
  const at::Tensor got = block_sparse_chunk_attention(in.q, in.k, in.v, in.scale, block_size, mask);
  EXPECT_LT(largest_error(got, want.output), 1e-5)
      << "past " << p.past << ", chunk " << p.m << ", blocks of " << block_size;
}

TEST(BlockSparseChunkAttention, AgreesWithMaskedDenseAttention) {
  for (const std::int64_t group : {1, 3, 4, 8}) {
    const Problem aligned{
        .num_q_heads = 2 * group, .num_kv_heads = 2, .m = 48, .past = 64, .dim = 8};
    expect_block_sparse(aligned, 16, 0.4);
    Problem unaligned = aligned;
    unaligned.past = 71;
    unaligned.m = 30;
    expect_block_sparse(unaligned, 16, 0.4);
  }
  expect_block_sparse({.num_q_heads = 3, .num_kv_heads = 1, .m = 20, .past = 0, .dim = 8}, 8, 0.5);
  expect_block_sparse({.num_q_heads = 3, .num_kv_heads = 1, .m = 1, .past = 40, .dim = 8}, 16, 0);
  // Blocks of more rows than are multiplied at once.
  expect_block_sparse({.num_q_heads = 1, .num_kv_heads = 1, .m = 500, .past = 130, .dim = 8}, 256,
                      0.5);
}

TEST(BlockSparseChunkAttention, ThreadCountDoesNotChangeTheBits) {
  const Problem p{.num_q_heads = 6, .num_kv_heads = 2, .m = 70, .past = 90, .dim = 16};
  const Inputs in = make_inputs(p);
  const at::Tensor mask = random_mask(p, 32, 0.5);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = block_sparse_chunk_attention(in.q, in.k, in.v, in.scale, 32, mask);
  at::set_num_threads(3);
  const at::Tensor three = block_sparse_chunk_attention(in.q, in.k, in.v, in.scale, 32, mask);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, three));
}

TEST(BlockSparseChunkAttention, MasksThatDoNotFitAreRefused) {
  const Problem p{.num_q_heads = 2, .num_kv_heads = 1, .m = 24, .past = 20, .dim = 8};
  const Inputs in = make_inputs(p);
  const at::Tensor mask = random_mask(p, 16, 0.5);  // [2, 2, 3]
  const auto run = [&](const at::Tensor& with, std::int64_t block_size = 16) {
    block_sparse_chunk_attention(in.q, in.k, in.v, in.scale, block_size, with);
  };
  EXPECT_NO_THROW(run(mask));
  EXPECT_THROW(run(mask, 8), Error);
  EXPECT_THROW(run(mask, 0), Error);
  EXPECT_THROW(run(mask.narrow(0, 0, 1)), Error);
  EXPECT_THROW(run(mask.narrow(1, 0, 1)), Error);
  EXPECT_THROW(run(mask.to(at::kInt)), Error);
  at::Tensor without_own = mask.clone(), future = mask.clone();
  without_own[1][0][1] = 0;
  future[0][0][2] = 1;
  EXPECT_THROW(run(without_own), Error);
  EXPECT_THROW(run(future), Error);
}

}  // namespace
}  // namespace kvloupe::attention
