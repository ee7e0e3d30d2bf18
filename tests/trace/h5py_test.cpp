// A trace that h5py wrote from FORMAT.md, with every liberty it leaves, is read right.
#include "core/trace/runs/block_mask.h"
#include "core/trace/trace_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::trace::testing {
namespace {

const std::filesystem::path kData = std::filesystem::path(KVLOUPE_TEST_SOURCE_DIR) / "../data";

constexpr int kTokens = 23;
constexpr int kDim = 16;

// The formula of tests/tools/make_h5py_trace.py.
float expected_value(int seed, int head, int token, int channel) {
  return static_cast<float>(
             (head * 7 + token * 3 + channel * 5 + head * token * channel + seed) % 17 - 8) /
         8.0f;
}

class H5pyTest : public ::testing::Test {
 protected:
  TraceReader reader_{kData / "v1_h5py_tiny.h5"};
};

TEST_F(H5pyTest, DescribesItself) {
  const TraceInfo& info = reader_.info();
  EXPECT_TRUE(info.warnings.empty()) << info.warnings.front();
  EXPECT_EQ(info.schema_version, "1.99");
  EXPECT_EQ(info.producer, "h5py");
  EXPECT_TRUE(info.complete);
  EXPECT_EQ(info.mode, LoopMode::ClosedLoop);
  EXPECT_EQ(info.dtype, DType::F16);
  EXPECT_EQ(info.model.name, "plain");
  EXPECT_EQ(info.model.num_q_heads, 4);
  EXPECT_EQ(info.model.head_dim, kDim);
  EXPECT_EQ(info.model.softmax_scale, 0.25);
  EXPECT_EQ(info.model.layer_types, std::vector<LayerType>(4, LayerType::Full));
  EXPECT_EQ(info.layers, (std::vector<int>{1, 3}));
  ASSERT_EQ(info.chunks.size(), 4u);
  EXPECT_EQ(info.chunks[2].begin, 16);
  EXPECT_EQ(info.chunks[3].phase, Phase::Decode);
  ASSERT_EQ(info.spans.size(), 1u);
  EXPECT_EQ(info.spans[0].name, "needle");
  EXPECT_EQ(info.spans[0].begin, 2);
  EXPECT_EQ(info.spans[0].end, 5);
}

TEST_F(H5pyTest, Tokens) {
  const auto ids = reader_.token_ids();
  const auto texts = reader_.token_texts();
  ASSERT_EQ(ids.size(), 23u);
  ASSERT_EQ(texts.size(), 23u);
  const std::vector<std::string> pattern = {"\xe2\x82", "\xac is", " a", ""};
  for (int t = 0; t < kTokens; ++t) {
    EXPECT_EQ(ids[t], 3 * t);
    EXPECT_EQ(texts[t], pattern[t % 4]);
  }
}

TEST_F(H5pyTest, HeadsInEveryStorage) {
  struct {
    Stored what;
    int seed;
    int heads;
  } const cases[] = {{Stored::Q, 0, 4}, {Stored::K, 5, 2}, {Stored::V, 9, 2}};
  for (const auto& item : cases) {
    for (const int layer : {1, 3}) {
      for (int head = 0; head < item.heads; ++head) {
        std::vector<float> rows((kTokens - 3) * kDim);
        reader_.read_rows(item.what, layer, head, 3, kTokens, rows.data());
        for (int t = 3; t < kTokens; ++t) {
          for (int i = 0; i < kDim; ++i) {
            ASSERT_EQ(rows[(t - 3) * kDim + i], expected_value(item.seed + layer, head, t, i));
          }
        }
      }
    }
  }
}

TEST_F(H5pyTest, LogSumExpInDouble) {
  std::vector<float> lse(2);
  reader_.read_lse(3, 2, 0, 2, lse.data());
  double logits[2] = {0, 0};  // of token 1, query head 2, KV head 1
  double own = 0;
  for (int i = 0; i < kDim; ++i) {
    own += 0.25 * expected_value(3, 2, 0, i) * expected_value(8, 1, 0, i);
    for (int j = 0; j < 2; ++j) {
      logits[j] += 0.25 * expected_value(3, 2, 1, i) * expected_value(8, 1, j, i);
    }
  }
  EXPECT_NEAR(lse[0], own, 1e-6);
  EXPECT_NEAR(lse[1], std::log(std::exp(logits[0]) + std::exp(logits[1])), 1e-6);
}

TEST_F(H5pyTest, Run) {
  ASSERT_EQ(reader_.info().runs.size(), 2u);
  EXPECT_EQ(reader_.info().runs[0].method,
            "random:budget_tokens=4,budget_ratio=0,budget_scope=past,seed=0");
  const RunLayer dense = reader_.read_run_layer(0, 1);
  EXPECT_EQ(dense.flags, (std::vector<std::uint8_t>{1, 1, 2, 2, 2, 2, 2, 2}));
  EXPECT_TRUE(dense.positions.empty());
  const RunLayer chosen = reader_.read_run_layer(0, 3);
  EXPECT_EQ(chosen.flags, (std::vector<std::uint8_t>{1, 1, 0, 0, 0, 0, 0, 0}));
  // Chunk 1, row 1: every other key of [0, 8) from 1 on.
  EXPECT_EQ(std::vector<std::int32_t>(chosen.positions.begin() + chosen.offsets[3],
                                      chosen.positions.begin() + chosen.offsets[4]),
            (std::vector<std::int32_t>{1, 3, 5, 7}));
}

TEST_F(H5pyTest, WhatWasKeptByRule) {
  const LayerRecord chosen = reader_.read_run(0, 3);
  EXPECT_EQ(chosen.cells[1].rows[1].positions, (std::vector<std::int32_t>{1, 3, 5, 7}));
  EXPECT_EQ(chosen.cells[1].rows[1].forced, (std::vector<std::int32_t>{1, 3, 7}));
  EXPECT_EQ(chosen.cells[2].rows[0].forced, (std::vector<std::int32_t>{0, 2, 14}));
  EXPECT_EQ(chosen.cells[0].dense_reason, DenseReason::EmptyPast);
  const LayerRecord dense = reader_.read_run(0, 1);
  EXPECT_EQ(dense.cells[2].dense_reason, DenseReason::MethodRule);
  EXPECT_EQ(dense.cells[2].rows[0].positions.size(), 16u);
  EXPECT_TRUE(dense.cells[2].rows[0].forced.empty());
  for (const int layer : {1, 3}) {
    const LayerRecord blocks = reader_.read_run(1, layer);
    EXPECT_FALSE(blocks.cells[0].blocks || blocks.cells[3].blocks);
    for (const std::size_t c : {std::size_t{1}, std::size_t{2}}) {
      const BlockMasks& masks = blocks.cells[c].blocks.value();
      const BlockGrid& grid = masks.grid;
      for (int head = 0; head < 4; ++head)
        for (int i = 0; i < grid.num_query_blocks(); ++i)
          for (int j = 0; j < grid.num_key_blocks(); ++j)
            EXPECT_EQ(masks.forced[masks.index(head, i, j)], j == grid.block_of_query_block(i));
      for (int i = 0; i < grid.num_query_blocks(); ++i)
        EXPECT_EQ(masks.votes(i), i == 0 || i + 1 < grid.num_query_blocks());
    }
  }
}

// Blocks of 5 tokens; the query block at block i keeps itself and every third block before it.
TEST_F(H5pyTest, BlockMasksAndTables) {
  EXPECT_EQ(reader_.info().runs[1].block_size, 5);
  EXPECT_TRUE(reader_.info().runs[1].block_tables);
  for (const int layer : {1, 3}) {
    const RunLayer run = reader_.read_run_layer(1, layer);
    EXPECT_EQ(run.block_size, 5);
    std::size_t byte = 0;
    for (std::size_t c = 0; c < 4; ++c) {
      const ChunkInfo& chunk = reader_.info().chunks[c];
      const BlockGrid grid = block_grid(chunk, 5);
      const auto bytes = static_cast<std::size_t>(packed_mask_bytes(grid, 4));
      const auto mask = unpack_mask(grid, 4, std::span(run.block_mask).subspan(byte, bytes));
      byte += bytes;
      const int first = chunk.begin / 5, blocks = (chunk.end() + 4) / 5;
      const bool dense = c == 0 || c == 3;
      std::vector<std::vector<std::int32_t>> tables(2);
      std::size_t at = 0;
      for (int head = 0; head < 4; ++head) {
        for (int own = first; own < blocks; ++own) {
          for (int j = 0; j < blocks; ++j, ++at) {
            const bool kept = j == own || (j < own && (dense || (j + head + layer) % 3 == 0));
            ASSERT_EQ(mask.at(at), kept ? 1 : 0) << c << " " << head << " " << own << " " << j;
            if (kept && j < first) tables[static_cast<std::size_t>(head / 2)].push_back(j);
          }
        }
      }
      EXPECT_EQ(at, mask.size());
      for (std::size_t row = 0; row < 2; ++row) {
        auto& expected = tables[row];
        for (int j = first; j < blocks; ++j) expected.push_back(j);
        std::sort(expected.begin(), expected.end());
        expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
        if (dense) expected.clear();
        const auto from = run.table_indices.begin();
        EXPECT_EQ(std::vector<std::int32_t>(from + run.table_indptr[2 * c + row],
                                            from + run.table_indptr[2 * c + row + 1]),
                  expected);
      }
    }
    EXPECT_EQ(byte, run.block_mask.size());
  }
}

TEST_F(H5pyTest, WhatIsLeftOutIsAbsent) {
  EXPECT_FALSE(reader_.read_key_mass(1, 0).has_value());
  EXPECT_TRUE(reader_.info().generated.empty());
}

TEST_F(H5pyTest, IsSound) {
  const Validation found = check_trace(kData / "v1_h5py_tiny.h5");
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
}

// Written by the first version of our writer; every later reader must read it.
TEST(OldTraceTest, TheFirstVersionStaysReadable) {
  const TraceReader reader(kData / "v1_tiny.h5");
  EXPECT_TRUE(reader.info().warnings.empty());
  EXPECT_EQ(reader.info().schema_version, "1.0");
  EXPECT_EQ(reader.info().num_tokens, 55);
  EXPECT_EQ(reader.info().runs.size(), 2u);
  EXPECT_TRUE(validate_trace(kData / "v1_tiny.h5").empty());
}

}  // namespace
}  // namespace kvloupe::trace::testing
