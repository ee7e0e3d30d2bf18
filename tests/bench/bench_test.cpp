// The measurements behind the benchmark rows, on small inputs: what they report hangs together.
#include "capture/run/linear_bench.h"
#include "capture/run/prefill_bench.h"
#include "core/base/error.h"
#include "core/measure/attention_bench.h"
#include "core/measure/paged_bench.h"
#include "core/measure/timing.h"
#include "tests/base/matchers.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace kvloupe {
namespace {

TEST(BenchAttention, SelectionIsAPartOfTheSparseTime) {
  const measure::AttentionBench bench = measure::bench_attention({.past_len = 2048}, 3, {});
  EXPECT_EQ(bench.past_len, 2048);
  EXPECT_EQ(bench.method.substr(0, 25), "quoka:budget_tokens=1024,");
  EXPECT_EQ(bench.density, 0.5);
  EXPECT_EQ(bench.key_bytes, 8.0 * (2048 + 128) * 128 * 4);
  EXPECT_EQ(bench.past_key_numbers, 8.0 * 2048 * 128);
  EXPECT_THAT(bench.dense_variant, ::testing::AnyOf("kvloupe", StartsWith("sdpa ")));
  if (bench.sparse.samples == 0) GTEST_SKIP() << "every round was disturbed";
  EXPECT_EQ(bench.sparse.samples, 3);
  EXPECT_GT(bench.select.median_ms, 0);
  EXPECT_GT(bench.sparse.median_ms, bench.select.median_ms);
  EXPECT_DOUBLE_EQ(bench.speed_up(), bench.dense.median_ms / bench.sparse.median_ms);
}

TEST(BenchAttention, BlockMethodsFindTheClustersThatTheQueriesLookFor) {
  for (const char* method :
       {"compact_attention:selector=flash_prefill", "compact_attention:selector=xattention"}) {
    const measure::AttentionBench bench = measure::bench_attention(
        {4096, 256, selection::MethodSpec::parse(method), measure::SyntheticKeys::Clustered}, 1,
        {});
    // 5 % of the 32 past blocks are sought on average; FlashPrefill keeps up to 5 by rule.
    EXPECT_GT(bench.density, 0.02) << method;
    EXPECT_LT(bench.density, 0.6) << method;
  }
}

TEST(BenchPaged, CountsWhatItsSidesKeep) {
  const measure::PagedBench bench = measure::bench_paged(2048, 256, {0.5, 0.75}, 2, "cpu", {});
  EXPECT_EQ(bench.past_len, 2048);
  EXPECT_EQ(bench.chunk_len, 256);
  EXPECT_THAT(bench.dense_variant, ::testing::AnyOf("kvloupe", StartsWith("sdpa ")));
  ASSERT_EQ(bench.sides.size(), 2U);
  EXPECT_EQ(bench.sides[0].sparsity, 0.5);
  EXPECT_EQ(bench.sides[0].kept_past, 1024);
  EXPECT_EQ(bench.sides[1].kept_past, 512);
  // K and V in fp32 of 8 heads, 128 channels each: kept and own keys.
  EXPECT_EQ(bench.sides[0].bytes, 2.0 * 4 * 8 * 128 * (1024 + 256));
  // Two products of 24 heads: every query with the kept keys, query t with t + 1 of its own.
  EXPECT_EQ(bench.sides[1].flops, 2.0 * 2 * 24 * 128 * (256.0 * 512 + 256 * 257 / 2));
  if (bench.dense.samples == 0) GTEST_SKIP() << "every round was disturbed";
  EXPECT_EQ(bench.dense.samples, 2);
  for (const measure::PagedSide& side : bench.sides)
    for (const measure::LatencyStats& stats : {side.paged, side.gathered, side.block_sparse}) {
      EXPECT_EQ(stats.samples, 2);
      EXPECT_GT(stats.median_ms, 0);
    }
  EXPECT_DOUBLE_EQ(bench.speed_up(1), bench.dense.median_ms / bench.sides[1].paged.median_ms);
}

// A GPU's way through the operators; its times mean nothing.
TEST(BenchOnADevice, RunsAllSidesThere) {
  const measure::PagedBench paged = measure::bench_paged(256, 128, {0.5}, 1, "sim", {});
  EXPECT_EQ(paged.sides.at(0).kept_past, 128);
  measure::AttentionBenchCase what{.past_len = 256, .chunk_len = 16};
  what.method = selection::MethodSpec::parse("quoka:budget_tokens=64,num_queries=4");
  const double on_processor = measure::bench_attention(what, 1, {}).density;
  what.device = "sim";
  EXPECT_EQ(measure::bench_attention(what, 1, {}).density, on_processor);
  EXPECT_EQ(on_processor, 0.25);
}

TEST(BenchPaged, KnowsItsMemory) {
  // K and V of 131,072 keys once as cached and three times expanded are 4 GiB, the masks 2 GiB.
  const double bytes = measure::paged_bench_bytes(131072 - 1024, 1024, "cpu");
  EXPECT_GT(bytes, 6.0 * (1LL << 30));
  EXPECT_LT(bytes, 9.0 * (1LL << 30));
  // On other devices in 16 bits. All logits of Torch's plain form would be 36 GiB beside that: where they have no
  // room that form is left out, not the row.
  EXPECT_EQ(measure::paged_bench_bytes(131072 - 1024, 1024, "sim"), bytes / 2);
}

TEST(BenchLinear, CountsTheProductsOfALayer) {
  // Of 200 tokens in two layers: q, k and v 16 -> 32 + 2 x 8, output 32 -> 16, gate and up 16 -> 2 x
  // 24, down 24 -> 16.
  const capture::LinearShape shape = {
      .layers = 2, .hidden = 16, .ffn = 24, .q_heads = 4, .kv_heads = 1, .head_dim = 8};
  for (const ComputeType type : {ComputeType::Fp32, ComputeType::Bf16}) {
    const capture::LinearBench bench = capture::bench_linear(shape, type, 200, 2, {});
    EXPECT_EQ(bench.flops, 2.0 * 200 * 2 * (16 * 48 + 32 * 16 + 16 * 48 + 24 * 16));
    EXPECT_EQ(bench.ms.size(), 2U);
  }
}

TEST(BenchPrefill, RunsBothSidesAndLeavesNothingButTheIds) {
  const std::filesystem::path folder = "prefill";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  capture::PrefillBenchOptions options;
  options.tokens = 256;
  options.repetitions = 2;
  options.warm_up = 0;
  options.folder = folder;
  options.ids_file = folder / "ids.txt";
  const capture::PrefillBench bench = capture::bench_prefill(options, {});
  EXPECT_LE(bench.tokens, 256);
  EXPECT_GT(bench.tokens, 200);
  ASSERT_EQ(bench.plain_ms.size(), 2U);
  ASSERT_EQ(bench.recorded_ms.size(), 2U);
  for (const double ms : bench.plain_ms) EXPECT_GT(ms, 0);
  std::ifstream file(options.ids_file);
  std::int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_EQ(lines, bench.tokens);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(BenchPrefill, StopsWhenCancelled) {
  CancelSource source;
  source.cancel();
  capture::PrefillBenchOptions options;
  options.tokens = 256;
  options.folder = ".";
  EXPECT_THROW(capture::bench_prefill(options, {source.token(), {}}), Error);
}

}  // namespace
}  // namespace kvloupe
