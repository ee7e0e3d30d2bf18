// Dense, gathered and row-wise attention against plain double loops.
#include "core/attention/attention.h"

#include "tests/attention/reference.h"

#include "core/base/error.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <numeric>
#include <string>

namespace kvloupe::attention {
namespace {

class ChunkAttention : public testing::TestWithParam<Problem> {};

TEST_P(ChunkAttention, OutputLseAndMassAgreeWithPlainLoops) {
  const Inputs in = make_inputs(GetParam());
  const Reference want = attend_slowly(in);
  const DenseResult got = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  // A logit of some hundreds has a unit in the last place of 3e-5 itself.
  const bool huge_logits = GetParam().magnitude > 1;
  EXPECT_LT(largest_error(got.output, want.output), huge_logits ? 2e-4 : 2e-5);
  EXPECT_LT(largest_error(got.lse, want.lse), huge_logits ? 2e-4 : 1e-5);
  EXPECT_LT(largest_error(got.key_mass, want.key_mass), 1e-4);
}

TEST_P(ChunkAttention, RowsSumToOneInMass) {
  const Problem& p = GetParam();
  const Inputs in = make_inputs(p);
  const DenseResult got = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  const double rows = static_cast<double>(p.num_q_heads * p.m);
  EXPECT_NEAR(got.key_mass.sum().item<double>(), rows, 1e-5 * rows);
}

TEST_P(ChunkAttention, MassAloneGivesTheSameBits) {
  const Inputs in = make_inputs(GetParam());
  const DenseResult dense = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  const MassResult mass = chunk_mass(in.q, in.k, in.scale);
  EXPECT_TRUE(at::equal(mass.lse, dense.lse));
  EXPECT_TRUE(at::equal(mass.key_mass, dense.key_mass));
}

TEST_P(ChunkAttention, WantingMassDoesNotChangeTheOutput) {
  const Inputs in = make_inputs(GetParam());
  const DenseResult with = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  const DenseResult without = dense_chunk_attention(in.q, in.k, in.v, in.scale, false);
  EXPECT_FALSE(without.key_mass.defined());
  EXPECT_TRUE(at::equal(with.output, without.output));
  EXPECT_TRUE(at::equal(with.lse, without.lse));
}

TEST_P(ChunkAttention, CacheViewGivesTheSameBitsAsAFreshTensor) {
  const Problem& p = GetParam();
  const Inputs in = make_inputs(p);
  const at::Tensor k_cache = at::full({p.num_kv_heads, p.past + p.m + 37, p.dim}, NAN);
  const at::Tensor v_cache = k_cache.clone();
  const at::Tensor k = k_cache.narrow(1, 0, p.past + p.m), v = v_cache.narrow(1, 0, p.past + p.m);
  k.copy_(in.k);
  v.copy_(in.v);
  const DenseResult fresh = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  const DenseResult view = dense_chunk_attention(in.q, k, v, in.scale, true);
  EXPECT_TRUE(at::equal(fresh.output, view.output));
  EXPECT_TRUE(at::equal(fresh.lse, view.lse));
  EXPECT_TRUE(at::equal(fresh.key_mass, view.key_mass));
}

TEST_P(ChunkAttention, ThreadCountDoesNotChangeTheBits) {
  const Inputs in = make_inputs(GetParam());
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const DenseResult two = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  at::set_num_threads(3);
  const DenseResult three = dense_chunk_attention(in.q, in.k, in.v, in.scale, true);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(two.output, three.output));
  EXPECT_TRUE(at::equal(two.key_mass, three.key_mass));
}

TEST_P(ChunkAttention, RowsFromLseAreTheProbabilities) {
  const Problem& p = GetParam();
  const Inputs in = make_inputs(p);
  const Reference want = attend_slowly(in);
  const DenseResult dense = dense_chunk_attention(in.q, in.k, in.v, in.scale, false);
  for (std::int64_t h = 0; h < p.num_q_heads; ++h) {
    const std::int64_t g = h / (p.num_q_heads / p.num_kv_heads);
    const at::Tensor rows = attention_rows(in.q[h], in.k[g], in.scale, p.past, dense.lse[h]);
    const auto begin = want.p.begin() + h * p.m * (p.past + p.m);
    const std::vector<double> head(begin, begin + p.m * (p.past + p.m));
    EXPECT_LT(largest_error(rows, head), 5e-5) << "head " << h;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ChunkAttention,
    testing::Values(
        Problem{.num_q_heads = 3, .num_kv_heads = 3, .m = 16, .past = 48, .dim = 8},
        Problem{.num_q_heads = 9, .num_kv_heads = 3, .m = 128, .past = 300, .dim = 64},
        Problem{.num_q_heads = 8, .num_kv_heads = 2, .m = 33, .past = 95, .dim = 16},
        Problem{.num_q_heads = 8, .num_kv_heads = 1, .m = 7, .past = 1, .dim = 8},
        // One query: a decoded token.
        Problem{.num_q_heads = 9, .num_kv_heads = 3, .m = 1, .past = 200, .dim = 64},
        Problem{.num_q_heads = 3, .num_kv_heads = 1, .m = 1, .past = 0, .dim = 8},
        // No past.
        Problem{.num_q_heads = 4, .num_kv_heads = 2, .m = 70, .past = 0, .dim = 32},
        // Logits of some hundreds: exp overflows without the maximum taken off.
        Problem{
            .num_q_heads = 6, .num_kv_heads = 2, .m = 20, .past = 77, .dim = 64, .magnitude = 6},
        // More rows than one span holds.
        Problem{.num_q_heads = 8, .num_kv_heads = 1, .m = 201, .past = 20, .dim = 8}),
    [](const testing::TestParamInfo<Problem>& shape) {
      const Problem& p = shape.param;
      return "q" + std::to_string(p.num_q_heads) + "kv" + std::to_string(p.num_kv_heads) + "m" +
             std::to_string(p.m) + "past" + std::to_string(p.past);
    });

TEST(DenseChunkAttention, LongRowsKeepTheLogSumExpAccurate) {
  const Inputs in =
      make_inputs({.num_q_heads = 1, .num_kv_heads = 1, .m = 2, .past = 20000, .dim = 16});
  const Reference want = attend_slowly(in);
  EXPECT_LT(largest_error(dense_chunk_attention(in.q, in.k, in.v, in.scale, false).lse, want.lse),
            1e-5);
}

TEST(DenseChunkAttention, HandComputedCase) {
  // Two keys with logits 0 and ln 3 for the second query: weights 1/4 and 3/4; the first query sees
  // itself.
  const at::Tensor q = at::tensor({1.0f, 1.0f}).reshape({1, 2, 1});
  const at::Tensor k = at::tensor({0.0f, 1.0986123f}).reshape({1, 2, 1});
  const at::Tensor v = at::tensor({4.0f, 8.0f}).reshape({1, 2, 1});
  const DenseResult got = dense_chunk_attention(q, k, v, 1.0, true);
  EXPECT_NEAR(got.output[0][0][0].item<double>(), 4.0, 1e-6);
  EXPECT_NEAR(got.output[0][1][0].item<double>(), 7.0, 1e-6);
  EXPECT_NEAR(got.lse[0][0].item<double>(), 0.0, 1e-7);
  EXPECT_NEAR(got.lse[0][1].item<double>(), 1.3862944, 1e-6);  // ln 4
  EXPECT_NEAR(got.key_mass[0][0].item<double>(), 1.25, 1e-6);
  EXPECT_NEAR(got.key_mass[0][1].item<double>(), 0.75, 1e-6);
}

TEST(DenseChunkAttention, NanInAKeyReachesTheRowsThatSeeIt) {
  Inputs in = make_inputs({.num_q_heads = 1, .num_kv_heads = 1, .m = 4, .past = 6, .dim = 8});
  in.k[0][8][0].fill_(NAN);  // seen by rows 2 and 3
  const DenseResult got = dense_chunk_attention(in.q, in.k, in.v, in.scale, false);
  for (int t = 0; t < 4; ++t) {
    EXPECT_EQ(std::isnan(got.lse[0][t].item<float>()), t >= 2) << "row " << t;
  }
}

TEST(DenseChunkAttention, ShapesThatContradictAreRefused) {
  const Inputs in = make_inputs({.num_q_heads = 4, .num_kv_heads = 2, .m = 4, .past = 6, .dim = 8});
  EXPECT_THROW(dense_chunk_attention(in.q.narrow(0, 0, 3), in.k, in.v, 1, false), Error);
  EXPECT_THROW(dense_chunk_attention(in.q, in.k, in.v.narrow(1, 0, 5), 1, false), Error);
  EXPECT_THROW(dense_chunk_attention(in.q, in.k.narrow(1, 0, 3), in.v.narrow(1, 0, 3), 1, false),
               Error);
  EXPECT_THROW(dense_chunk_attention(in.q.to(at::kDouble), in.k, in.v, 1, false), Error);
}

using Selected = std::vector<std::vector<std::int32_t>>;

// Every third key, another phase in each head.
Selected every_third(std::int64_t kv_heads, std::int64_t keys) {
  Selected selected(kv_heads);
  for (std::int64_t g = 0; g < kv_heads; ++g) {
    for (std::int64_t j = g; j < keys; j += 3) selected[g].push_back(static_cast<std::int32_t>(j));
  }
  return selected;
}

bool contains(const std::vector<std::int32_t>& row, std::int64_t position) {
  return std::find(row.begin(), row.end(), position) != row.end();
}

double gathered_error(const Inputs& in, const Selected& selected, ChunkVisibility visibility) {
  const std::int64_t past = in.k.size(1) - in.q.size(1);
  const bool open = visibility == ChunkVisibility::OpenChunk;
  const Reference want = attend_slowly(in, [&](std::int64_t g, std::int64_t t, std::int64_t j) {
    if (j > past + t) return false;
    return j == past + t || (open && j >= past) || contains(selected[g], j);
  });
  return largest_error(gathered_chunk_attention(in.q, in.k, in.v, in.scale, selected, visibility),
                       want.output);
}

TEST(GatheredChunkAttention, AgreesWithPlainLoops) {
  for (const std::int64_t group : {1, 3, 4, 8}) {
    const Inputs in =
        make_inputs({.num_q_heads = 2 * group, .num_kv_heads = 2, .m = 21, .past = 100, .dim = 16});
    EXPECT_LT(gathered_error(in, every_third(2, 100), ChunkVisibility::OpenChunk), 2e-5)
        << "group " << group;
    EXPECT_LT(gathered_error(in, every_third(2, 121), ChunkVisibility::SelfOnly), 2e-5)
        << "group " << group;
  }
}

TEST(KeptChunkAttention, IsThatOfTheSameKeysGathered) {
  const Inputs in =
      make_inputs({.num_q_heads = 6, .num_kv_heads = 2, .m = 21, .past = 100, .dim = 16});
  const at::Tensor kept =
      at::arange(0, 100, 4, at::kInt).expand({2, 25}) + at::arange(2, at::kInt).unsqueeze(1);
  Selected rows(2);
  for (std::int32_t j = 0; j < 100; j += 4) rows[0].push_back(j), rows[1].push_back(j + 1);
  const at::Tensor got = kept_chunk_attention(in.q, in.k, in.v, in.scale, kept);
  EXPECT_TRUE(at::equal(
      got, gathered_chunk_attention(in.q, in.k, in.v, in.scale, rows, ChunkVisibility::OpenChunk)));
}

TEST(GatheredChunkAttention, RaggedSelections) {
  const Inputs in =
      make_inputs({.num_q_heads = 6, .num_kv_heads = 3, .m = 5, .past = 40, .dim = 8});
  const Selected ragged = {{}, {39}, {0, 1, 2, 3, 17, 20, 38}};
  EXPECT_LT(gathered_error(in, ragged, ChunkVisibility::OpenChunk), 2e-5);
  EXPECT_LT(gathered_error(in, ragged, ChunkVisibility::SelfOnly), 2e-5);
}

TEST(GatheredChunkAttention, NothingSelectedLeavesTheChunkOrTheQueryItself) {
  const Inputs in = make_inputs({.num_q_heads = 4, .num_kv_heads = 2, .m = 6, .past = 9, .dim = 8});
  const Selected nothing(2);
  EXPECT_LT(gathered_error(in, nothing, ChunkVisibility::OpenChunk), 2e-5);
  const at::Tensor alone =
      gathered_chunk_attention(in.q, in.k, in.v, in.scale, nothing, ChunkVisibility::SelfOnly);
  const at::Tensor own = in.v.narrow(1, 9, 6).repeat_interleave(2, 0);
  EXPECT_LT((alone - own).abs().max().item<double>(), 1e-6);
}

TEST(GatheredChunkAttention, AllKeysSelectedIsDenseAttention) {
  const Inputs in =
      make_inputs({.num_q_heads = 9, .num_kv_heads = 3, .m = 128, .past = 200, .dim = 64});
  Selected all(3, std::vector<std::int32_t>(200));
  for (auto& row : all) std::iota(row.begin(), row.end(), 0);
  const at::Tensor gathered =
      gathered_chunk_attention(in.q, in.k, in.v, in.scale, all, ChunkVisibility::OpenChunk);
  const DenseResult dense = dense_chunk_attention(in.q, in.k, in.v, in.scale, false);
  EXPECT_TRUE(at::equal(gathered, dense.output));
}

TEST(GatheredChunkAttention, OneQuery) {
  const Inputs in =
      make_inputs({.num_q_heads = 9, .num_kv_heads = 3, .m = 1, .past = 60, .dim = 64});
  EXPECT_LT(gathered_error(in, every_third(3, 60), ChunkVisibility::OpenChunk), 2e-5);
}

TEST(GatheredChunkAttention, NoPast) {
  const Inputs in = make_inputs({.num_q_heads = 2, .num_kv_heads = 1, .m = 9, .past = 0, .dim = 8});
  EXPECT_LT(gathered_error(in, {{}}, ChunkVisibility::OpenChunk), 2e-5);
  EXPECT_LT(gathered_error(in, {{0, 4, 8}}, ChunkVisibility::SelfOnly), 2e-5);
}

TEST(GatheredChunkAttention, AChunkOfSeveralTilesWithNothingSelected) {
  // Whole tiles of the chunk's own keys are masked for its later rows.
  const Inputs in =
      make_inputs({.num_q_heads = 1, .num_kv_heads = 1, .m = 1200, .past = 3, .dim = 4});
  const at::Tensor alone =
      gathered_chunk_attention(in.q, in.k, in.v, in.scale, {{}}, ChunkVisibility::SelfOnly);
  EXPECT_LT((alone - in.v.narrow(1, 3, 1200)).abs().max().item<double>(), 1e-6);
}

TEST(GatheredChunkAttention, ItsHalvesGiveTheSameBits) {
  const Inputs in =
      make_inputs({.num_q_heads = 6, .num_kv_heads = 2, .m = 11, .past = 50, .dim = 8});
  for (const auto visibility : {ChunkVisibility::OpenChunk, ChunkVisibility::SelfOnly}) {
    const Selected selected = every_third(2, 50);
    const GatheredKeys keys = gather_keys(in.k, in.v, 11, selected, visibility);
    EXPECT_EQ(keys.begin.back(), 17 + 11 + 17 + 11);
    EXPECT_TRUE(at::equal(keys.k[1], in.k[0][3]));
    EXPECT_TRUE(
        at::equal(attend_gathered(in.q, keys, in.scale),
                  gathered_chunk_attention(in.q, in.k, in.v, in.scale, selected, visibility)));
  }
}

TEST(GatheredChunkAttention, BadSelectionsAreRefused) {
  const Inputs in =
      make_inputs({.num_q_heads = 2, .num_kv_heads = 1, .m = 3, .past = 10, .dim = 8});
  const auto run = [&](Selected selected, ChunkVisibility visibility) {
    gathered_chunk_attention(in.q, in.k, in.v, in.scale, selected, visibility);
  };
  EXPECT_THROW(run({{10}}, ChunkVisibility::OpenChunk), Error);  // of the chunk
  EXPECT_THROW(run({{13}}, ChunkVisibility::SelfOnly), Error);   // beyond the keys
  EXPECT_THROW(run({{-1}}, ChunkVisibility::OpenChunk), Error);
  EXPECT_THROW(run({{4, 3}}, ChunkVisibility::OpenChunk), Error);
  EXPECT_THROW(run({{4, 4}}, ChunkVisibility::OpenChunk), Error);
  EXPECT_THROW(run({{1}, {2}}, ChunkVisibility::OpenChunk), Error);
}

}  // namespace
}  // namespace kvloupe::attention
