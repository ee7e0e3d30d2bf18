// Blocks, packed masks and tables: by hand, written, read back, cut short, damaged.
#include "core/trace/runs/block_mask.h"

#include "core/base/error.h"
#include "tests/trace/damaged_file.h"

#include <gtest/gtest.h>

namespace kvloupe::trace::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

// 10 past tokens and a chunk of 9 in blocks of 4: [0,4) [4,8) [8,12) [12,16) [16,19).
TEST(BlockGridTest, ByHand) {
  const BlockGrid grid = block_grid({10, 9, Phase::Prefill}, 4);
  EXPECT_EQ(grid.num_key_blocks(), 5);
  EXPECT_EQ(grid.num_past_blocks(), 2);
  EXPECT_EQ(grid.straddling_tokens(), 2);
  EXPECT_EQ(grid.num_query_blocks(), 3);
  EXPECT_EQ(grid.block_of_query_block(1), 3);
  EXPECT_EQ(grid.row_begin(0), 0);
  EXPECT_EQ(grid.row_end(0), 2);
  EXPECT_EQ(grid.row_begin(1), 2);
  EXPECT_EQ(grid.row_end(1), 6);
  EXPECT_EQ(grid.row_end(2), 9);
  EXPECT_EQ(grid.key_end(4), 19);
  EXPECT_EQ(page_id(grid, 2, 3), 13);
  EXPECT_EQ(block_grid({8, 1, Phase::Decode}, 4).num_query_blocks(), 1);
  const BlockGrid aligned{4, 8, 6};
  EXPECT_EQ(aligned.num_past_blocks(), 2);
  EXPECT_EQ(aligned.straddling_tokens(), 0);
  EXPECT_EQ(aligned.num_query_blocks(), 2);
  EXPECT_EQ(aligned.row_begin(1), 4);
  EXPECT_EQ(aligned.row_end(1), 6);
  const BlockGrid within{16, 10, 3};  // chunk and past in one block
  EXPECT_EQ(within.num_past_blocks(), 0);
  EXPECT_EQ(within.num_query_blocks(), 1);
  EXPECT_EQ(within.row_end(0), 3);
}

TEST(BlockMaskTest, BitsByHand) {
  const BlockGrid grid = block_grid({36, 4, Phase::Prefill}, 4);  // 10 key blocks, 1 query block
  const Bytes values = {1, 0, 0, 1, 0, 0, 0, 0, 0, 1,             // 0b00001001, 0b10
                        0, 1, 0, 0, 0, 0, 0, 1, 1, 0};            // 0b10000010, 0b01
  const Bytes packed = {0x09, 0x02, 0x82, 0x01};
  EXPECT_EQ(packed_row_bytes(grid), 2);
  EXPECT_EQ(packed_mask_bytes(grid, 2), 4);
  EXPECT_EQ(pack_mask(grid, values), packed);
  EXPECT_EQ(unpack_mask(grid, 2, packed), values);
  EXPECT_EQ(packed_causal_mask(grid, 1), (Bytes{0xFF, 0x03}));
  // Query blocks at blocks 2, 3 and 4 see the blocks up to their own.
  EXPECT_EQ(packed_causal_mask(block_grid({10, 9, Phase::Prefill}, 4), 2),
            (Bytes{0x07, 0x0F, 0x1F, 0x07, 0x0F, 0x1F}));
}

TEST(BlockTableTest, ByHand) {
  const BlockGrid grid = block_grid({10, 9, Phase::Prefill}, 4);
  using Table = std::vector<std::int32_t>;
  EXPECT_EQ(block_table(grid, Table{4, 5, 6, 7, 8, 9}), (Table{1, 2, 3, 4}));
  EXPECT_EQ(block_table(grid, Table{0, 7}), (Table{0, 1, 2, 3, 4}));
  EXPECT_EQ(block_table(grid, Table{}), (Table{2, 3, 4}));
}

ReferenceTrace reference_with_blocks() {
  ReferenceTrace reference = make_reference(DType::F16);
  add_blocks(reference);
  return reference;
}

void expect_blocks(const TraceReader& reader, const ReferenceTrace& reference) {
  const auto& chunks = reader.info().chunks;
  for (std::size_t index = 0; index < reference.layers.size(); ++index) {
    const int layer = reference.header.layers[index];
    EXPECT_TRUE(reader.read_run_layer(0, layer).block_mask.empty());
    EXPECT_EQ(reader.read_run_layer(0, layer).block_size, 0);
    for (const int run : {2, 3}) {
      const RunLayer found = reader.read_run_layer(run, layer);
      EXPECT_EQ(found.block_size, 6);
      Bytes expected;
      std::vector<std::int32_t> entries;
      std::vector<std::int64_t> indptr = {0};
      for (std::size_t c = 0; c < chunks.size(); ++c) {
        const RunChunk& data = reference.runs[run][index][c];
        const Bytes packed = packed_by_hand(chunks[c], layer);
        expected.insert(expected.end(), packed.begin(), packed.end());
        for (int head = 0; head < 4; ++head) {
          const bool dense = data.record.dense_reason.has_value();
          for (int j = 0; j < (chunks[c].end() + 5) / 6 && !dense; ++j) {
            bool kept = j >= chunks[c].begin / 6;  // the chunk is open
            for (int i = 0; i < (chunks[c].end() + 5) / 6 - chunks[c].begin / 6; ++i) {
              kept = kept || keeps_block(chunks[c], layer, head, i, j);
            }
            if (kept) entries.push_back(j);
          }
          indptr.push_back(static_cast<std::int64_t>(entries.size()));
        }
      }
      EXPECT_EQ(found.block_mask, expected);
      EXPECT_EQ(found.table_indices, run == 3 ? entries : std::vector<std::int32_t>{});
      EXPECT_EQ(found.table_indptr, run == 3 ? indptr : std::vector<std::int64_t>{});
    }
  }
}

TEST(BlockRunTest, MasksAndTablesAreReadBack) {
  const TemporaryFolder folder;
  const auto reference = reference_with_blocks();
  write_trace(folder / "t.h5", reference);
  const TraceReader reader(folder / "t.h5");
  EXPECT_TRUE(reader.info().warnings.empty());
  expect_blocks(reader, reference);
  EXPECT_EQ(reader.info().runs[0].block_size, 0);
  EXPECT_EQ(reader.info().runs[2].block_size, 6);
  EXPECT_FALSE(reader.info().runs[2].block_tables);
  EXPECT_TRUE(reader.info().runs[3].block_tables);
  const Validation found = check_trace(folder / "t.h5");
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
}

TEST(BlockRunTest, WhatWasCutShortIsReadUpToItsLastChunk) {
  const auto reference = reference_with_blocks();
  for (const bool finished : {true, false}) {
    const TemporaryFolder folder;
    {
      TraceWriter writer(folder / "t.h5", reference.header, false);
      write_chunks(writer, reference, 3);
      write_layer_of(writer, reference, 3, 0);
      writer.write_run(reference.chunks[3], reference.runs[3][0][3]);
      if (finished) writer.finish({}, false);
    }
    const fs::path path = folder / (finished ? "t.h5" : "t.h5.part");
    const TraceReader reader(path);
    ASSERT_EQ(reader.info().chunks.size(), 3u);
    expect_blocks(reader, reference);
    EXPECT_TRUE(validate_trace(path).empty());
  }
}

TEST(BlockRunTest, ASidecarHoldsBlocksToo) {
  const TemporaryFolder folder;
  write_trace(folder / "t.h5", reference_with_blocks());
  for (const int run : {2, 3}) {
    std::vector<LayerRecord> data;
    RunLayer own;
    RunInfo info;
    {
      const TraceReader reader(folder / "t.h5");
      info = reader.info().runs[run];
      own = reader.read_run_layer(run, 2);
      for (const int layer : {0, 2}) data.push_back(reader.read_run(run, layer));
    }
    const int id = append_sidecar_run(folder / "t.h5", info, {0, 2}, data);
    const TraceReader reader(folder / "t.h5");
    EXPECT_EQ(reader.info().runs.at(id).block_size, 6);
    EXPECT_EQ(reader.info().runs.at(id).block_tables, run == 3);
    const RunLayer found = reader.read_run_layer(id, 2);
    EXPECT_EQ(found.block_mask, own.block_mask);
    EXPECT_EQ(found.block_forced, own.block_forced);
    EXPECT_EQ(found.block_abstains, own.block_abstains);
    EXPECT_EQ(found.table_indptr, own.table_indptr);
    EXPECT_EQ(found.table_indices, own.table_indices);
    data[1].cells[1].blocks->grid.past_len += 6;
    EXPECT_THROW(append_sidecar_run(folder / "t.h5", info, {0, 2}, data), Error);
  }
  EXPECT_TRUE(validate_trace(folder / "t.h5").empty());
}

// What was decided comes back, and not only its bytes.
TEST(BlockRunTest, ChoicesAreReadBack) {
  const TemporaryFolder folder;
  const auto reference = reference_with_blocks();
  write_trace(folder / "t.h5", reference);
  const TraceReader reader(folder / "t.h5");
  for (const int run : {2, 3}) {
    for (std::size_t index = 0; index < reference.layers.size(); ++index) {
      const LayerRecord found = reader.read_run(run, reference.header.layers[index]);
      ASSERT_EQ(found.cells.size(), reference.chunks.size());
      for (std::size_t c = 0; c < found.cells.size(); ++c) {
        const CellRecord& expected = reference.runs[run][index][c].record;
        EXPECT_EQ(found.cells[c].blocks, expected.blocks);
        EXPECT_EQ(found.cells[c].rows, expected.rows);
        EXPECT_EQ(found.cells[c].dense_reason, expected.dense_reason);
      }
    }
  }
}

class DamagedBlocksTest : public DamagedFileTest {
 protected:
  DamagedBlocksTest() : DamagedFileTest(reference_with_blocks()) {}
};

// Chunk 0 has 4 heads x 3 query blocks x 1 byte; chunk 1 begins at byte 12 with head 0, whose query
// blocks stand at blocks 2 to 5 of 6.
constexpr const char* kMask = "/runs/2/layers/0/block_mask";

TEST_F(DamagedBlocksTest, Masks) {
  expect_defect("keeps a block of the future",
                [](hid_t f) { set_value<std::uint8_t>(f, kMask, {12}, 0x0F); });
  expect_defect("bits beyond the last block",
                [](hid_t f) { set_value<std::uint8_t>(f, kMask, {15}, 0xFF); });
  expect_defect("lacks a block in a dense row",
                [](hid_t f) { set_value<std::uint8_t>(f, kMask, {2}, 0x06); });
  expect_defect("which none of its heads keeps", [](hid_t f) {
    for (hsize_t i = 12; i < 20; ++i) {
      set_value<std::uint8_t>(f, kMask, {i}, 0x04);
      set_value<std::uint8_t>(f, "/runs/2/layers/0/block_forced", {i}, 0x04);
    }
  });
  const auto claim_bytes = [](hid_t f, hsize_t bytes) {
    claim(f, kMask, H5T_STD_U8LE, {bytes});
    set_attribute(f, kMask, "block_size", 6);
  };
  expect_defect("too short", [&](hid_t f) { claim_bytes(f, 40); });
  expect_defect("holds only", [&](hid_t f) { claim_bytes(f, 1ull << 40); });
  expect_defect("missing", [](hid_t f) { H5Ldelete(f, kMask, H5P_DEFAULT); });
  for (const std::int64_t size :
       {std::int64_t{0}, std::int64_t{-6}, std::int64_t{7}, std::int64_t{1} << 60}) {
    expect_defect("block_size", [&](hid_t f) { set_attribute(f, kMask, "block_size", size); });
  }
  expect_defect("run 2 cannot be read",
                [](hid_t f) { set_attribute(f, "/runs/2", "block_size", std::int64_t{1} << 40); });
}

TEST_F(DamagedBlocksTest, Rules) {
  const char* forced = "/runs/2/layers/0/block_forced";
  // Head 0, query block 0 of chunk 1 keeps blocks 0 and 2 only of [0, 6).
  expect_defect("block_forced has a block at byte 12",
                [&](hid_t f) { set_value<std::uint8_t>(f, forced, {12}, 0x02); });
  expect_defect("block_forced has a block at byte 12",
                [&](hid_t f) { set_value<std::uint8_t>(f, forced, {12}, 0x80); });
  expect_defect("its block_forced of 40 bytes is too short",
                [&](hid_t f) { claim(f, forced, H5T_STD_U8LE, {40}); });
  expect_defect("holds only", [&](hid_t f) { claim(f, forced, H5T_STD_U8LE, {1ull << 40}); });
  expect_defect("block_abstains",
                [&](hid_t f) { claim(f, "/runs/2/layers/0/block_abstains", H5T_STD_U8LE, {2}); });
}

// As runs of schema 1.2: what was kept by rule is not known.
TEST_F(DamagedBlocksTest, RulesNeedNotBeRecorded) {
  const fs::path path = edited([](hid_t f) {
    for (const char* name : {"block_forced", "block_abstains", "forced_offsets", "forced_bounds"}) {
      H5Ldelete(f, (std::string("/runs/2/layers/0/") + name).c_str(), H5P_DEFAULT);
    }
  });
  EXPECT_TRUE(validate_trace(path).empty());
  const LayerRecord without = TraceReader(path).read_run(2, 0);
  const LayerRecord with = TraceReader(sound_).read_run(2, 0);
  for (std::size_t c = 0; c < with.cells.size(); ++c) {
    ASSERT_EQ(without.cells[c].blocks.has_value(), with.cells[c].blocks.has_value());
    for (std::size_t row = 0; row < 2; ++row) {
      EXPECT_EQ(without.cells[c].rows[row].positions, with.cells[c].rows[row].positions);
      EXPECT_TRUE(without.cells[c].rows[row].forced.empty());
    }
    if (!with.cells[c].blocks) continue;
    EXPECT_EQ(without.cells[c].blocks->kept, with.cells[c].blocks->kept);
    EXPECT_TRUE(without.cells[c].blocks->forced.empty());
    EXPECT_TRUE(without.cells[c].blocks->abstains.empty());
  }
}

TEST_F(DamagedBlocksTest, Tables) {
  const char* indices = "/runs/3/layers/2/table_indices";
  const char* indptr = "/runs/3/layers/2/table_indptr";
  expect_defect("they must rise", [&](hid_t f) { set_value<std::int32_t>(f, indices, {1}, 0); });
  expect_defect("beyond its blocks",
                [&](hid_t f) { set_value<std::int32_t>(f, indices, {0}, -1); });
  expect_defect("beyond its blocks",
                [&](hid_t f) { set_value<std::int32_t>(f, indices, {3}, 1000000); });
  expect_defect("table_indptr fall", [&](hid_t f) { set_value<std::int64_t>(f, indptr, {6}, -4); });
  expect_defect("table entries",
                [&](hid_t f) { set_value<std::int64_t>(f, indptr, {24}, 1ll << 50); });
  expect_defect("missing", [&](hid_t f) { H5Ldelete(f, indptr, H5P_DEFAULT); });
  // Chunk 1 has 24 entries, chunk 2 has 32; then head 0 of chunk 3: blocks 0, 1, 4, 7 and 8.
  expect_defect("a table that is not its positions'",
                [&](hid_t f) { set_value<std::int32_t>(f, indices, {57}, 2); });
}

// As written by others: the size stands at the masks alone.
TEST_F(DamagedBlocksTest, TheRunNeedNotRepeatTheBlockSize) {
  const fs::path path =
      edited([](hid_t f) { H5Adelete_by_name(f, "/runs/2", "block_size", H5P_DEFAULT); });
  const TraceReader reader(path);
  EXPECT_EQ(reader.read_run_layer(2, 0).block_size, 6);
  EXPECT_EQ(reader.info().runs[2].block_size, 6);
  EXPECT_EQ(reader.read_run_layer(2, 0).block_mask,
            TraceReader(sound_).read_run_layer(2, 0).block_mask);
  EXPECT_TRUE(validate_trace(path).empty());
}

// Runs of older traces have no masks.
TEST_F(DamagedBlocksTest, ABlockRunMayHaveNoMasks) {
  const fs::path path = edited([](hid_t f) {
    H5Adelete_by_name(f, "/runs/2", "block_size", H5P_DEFAULT);
    for (const char* layer : {"0", "2"}) {
      H5Ldelete(f, (std::string("/runs/2/layers/") + layer + "/block_mask").c_str(), H5P_DEFAULT);
    }
  });
  EXPECT_TRUE(TraceReader(path).read_run_layer(2, 0).block_mask.empty());
  EXPECT_TRUE(validate_trace(path).empty());
}

}  // namespace
}  // namespace kvloupe::trace::testing
