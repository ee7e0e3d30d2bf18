// The attention over what page and block methods select: tables, and their execution, against
// masked dense attention in plain loops.
#include "core/selection/attend.h"

#include "core/base/error.h"
#include "core/selection/blocks/page_tables.h"
#include "tests/attention/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace kvloupe::selection {
namespace {

using attention::Inputs;

Cell cell_of(const Inputs& in) {
  Cell cell;
  cell.layer = 4;
  cell.chunk = 1;
  cell.chunk_len = in.q.size(1);
  cell.past_len = in.k.size(1) - cell.chunk_len;
  cell.softmax = in.scale;
  cell.q = in.q;
  cell.k = in.k;
  cell.v = in.v;
  return cell;
}

// Each page of the past with probability one half, the straddling one always.
SelectedRow random_pages(std::mt19937& random, std::int64_t past_len, std::int64_t page_size) {
  SelectedRow row;
  for (std::int64_t begin = 0; begin < past_len; begin += page_size) {
    const std::int64_t end = std::min(begin + page_size, past_len);
    if (random() % 2 == 0 && end < past_len) continue;
    for (std::int64_t j = begin; j < end; ++j)
      row.positions.push_back(static_cast<std::int32_t>(j));
  }
  return row;
}

double attention_error(const MethodSpec& spec, const RowLayout& layout, const Inputs& in,
                       const CellSelection& selection) {
  const Cell cell = cell_of(in);
  const attention::Reference want =
      attention::attend_slowly_by_head(in, [&](std::int64_t h, std::int64_t t, std::int64_t j) {
        if (j >= cell.past_len) return j <= cell.past_len + t;
        const auto& row = selection.rows[h / layout.q_heads_per_row].positions;
        return std::find(row.begin(), row.end(), j) != row.end();
      });
  return attention::largest_error(attend_selected(spec, {}, cell, layout, selection), want.output);
}

TEST(AttendSelected, WholePagesAgreeWithMaskedDenseAttention) {
  const MethodSpec spec = MethodSpec::parse("quest:page_size=16,budget_tokens=64");
  std::mt19937 random(3);
  for (const int group : {1, 3, 4, 8}) {
    for (const std::int64_t past : {160, 171}) {
      const Inputs in = attention::make_inputs(
          {.num_q_heads = 2 * group, .num_kv_heads = 2, .m = 37, .past = past, .dim = 16});
      for (const RowLayout layout :
           {RowLayout{trace::RowAxis::KvHead, group}, RowLayout{trace::RowAxis::QHead, 1},
            RowLayout{trace::RowAxis::Subgroup, group % 4 == 0 ? 4 : 1}}) {
        CellSelection selection;
        for (int row = 0; row < 2 * group / layout.q_heads_per_row; ++row)
          selection.rows.push_back(random_pages(random, past, 16));
        ASSERT_TRUE(page_tables(spec, layout, cell_of(in), selection));
        EXPECT_LT(attention_error(spec, layout, in, selection), 1e-5)
            << "group " << group << ", past " << past << ", rows of " << layout.q_heads_per_row;
      }
    }
  }
}

TEST(AttendSelected, SingleKeysAgreeToo) {
  // Rows of a page method that are not whole pages, and those of a method of single keys.
  const Inputs in =
      attention::make_inputs({.num_q_heads = 4, .num_kv_heads = 2, .m = 9, .past = 50, .dim = 8});
  const RowLayout layout{trace::RowAxis::KvHead, 2};
  CellSelection selection;
  selection.rows = {{{0, 1, 2, 3, 9, 10}}, {{4, 5, 6, 7, 49}}};
  for (const char* text : {"quest:page_size=4", "oracle:budget_tokens=8"}) {
    const MethodSpec spec = MethodSpec::parse(text);
    EXPECT_FALSE(page_tables(spec, layout, cell_of(in), selection)) << text;
    EXPECT_LT(attention_error(spec, layout, in, selection), 1e-5) << text;
  }
}

// The methods' own rows: query heads, KV heads, sub-groups, with pasts that end inside a page.
TEST(AttendSelected, WhatMethodsSelectAgreesWithMaskedDenseAttention) {
  for (const int group : {1, 3, 4, 8}) {
    Inputs in = attention::make_inputs(
        {.num_q_heads = 2 * group, .num_kv_heads = 2, .m = 30, .past = 203, .dim = 16});
    // The queries look for two blocks' keys: the others are dropped.
    for (const std::int64_t block : {2, 7}) in.k.narrow(1, 16 * block, 16) += 0.5;
    in.q += 2;
    const ModelShape shape = {
        .num_layers = 6, .num_q_heads = 2 * group, .num_kv_heads = 2, .head_dim = 16};
    for (const char* text :
         {"quest:budget_tokens=48", "quest:budget_tokens=48,gqa_reduce=union",
          "quest:budget_tokens=48,force_last_page=0", "quest:budget_tokens=48,prefill=per_query",
          "flash_prefill:lowering=union,block_size=16,alpha=0.3,window_blocks=1,sink_blocks=1",
          "flash_prefill:block_size=16,lowering=budget,budget_tokens=64",
          "xattention:lowering=union,block_size=16,stride=4,tau=0.5",
          "flex_prefill:lowering=union,block_size=16,gamma=0.5,min_budget=32",
          "compact_attention:block_size=16,alpha=0.6,window_blocks=1,sink_blocks=0",
          "compact_attention:selector=xattention,block_size=16,stride=4,tau=0.4"}) {
      const MethodSpec spec = MethodSpec::parse(text).resolved(shape);
      const RowLayout layout = row_layout(spec, shape);
      const CellSelection selection = make_selector(spec, shape)->select(cell_of(in));
      ASSERT_FALSE(selection.dense_reason);
      ASSERT_EQ(selection.rows.size(), 2U * group / layout.q_heads_per_row);
      std::size_t dropped = 0;
      for (const SelectedRow& row : selection.rows) dropped += 203 - row.positions.size();
      EXPECT_GT(dropped, 0U) << text << ", group " << group;
      EXPECT_TRUE(page_tables(spec, layout, cell_of(in), selection)) << text;
      EXPECT_LT(attention_error(spec, layout, in, selection), 1e-5) << text << ", group " << group;
    }
  }
}

// Whether row t of the chunk attends to key j in query head h, by the masks.
attention::MaySee by_masks(const trace::BlockMasks& masks) {
  return [&masks](std::int64_t h, std::int64_t t, std::int64_t j) {
    const trace::BlockGrid& grid = masks.grid;
    const std::int64_t query_block =
        (grid.past_len + t) / grid.block_size - grid.past_len / grid.block_size;
    return j <= grid.past_len + t && masks.kept[masks.index(h, query_block, j / grid.block_size)];
  };
}

ModelShape shape_of_heads(int q_heads, int kv_heads) {
  return {.num_layers = 6, .num_q_heads = q_heads, .num_kv_heads = kv_heads, .head_dim = 16};
}

TEST(AttendSelected, NativeMasksAgreeWithMaskedDenseAttention) {
  for (const int group : {1, 3, 4})
    for (const std::int64_t past : {192, 203}) {
      Inputs in = attention::make_inputs(
          {.num_q_heads = 2 * group, .num_kv_heads = 2, .m = 70, .past = past, .dim = 16});
      for (const std::int64_t block : {2, 7, 13}) in.k.narrow(1, 16 * block, 16) += 0.5;
      in.q += 2;
      const ModelShape shape = shape_of_heads(2 * group, 2);
      for (const char* text :
           {"flash_prefill:block_size=16,alpha=0.3,window_blocks=0,sink_blocks=1,lowering=native",
            "xattention:block_size=16,stride=4,tau=0.5,lowering=native",
            "flex_prefill:block_size=16,gamma=0.5,min_budget=32,lowering=native",
            "flash_prefill:block_size=7,alpha=0.6,lowering=native"}) {
        const MethodSpec spec = MethodSpec::parse(text).resolved(shape);
        const RowLayout layout = row_layout(spec, shape);
        EXPECT_EQ(layout.axis, trace::RowAxis::QHead);
        const Cell cell = cell_of(in);
        const CellSelection selection = make_selector(spec, shape)->select(cell);
        ASSERT_EQ(selection.rows.size(), 2U * group);
        const attention::Reference want =
            attention::attend_slowly_by_head(in, by_masks(*selection.blocks));
        EXPECT_LT(attention::largest_error(attend_selected(spec, {}, cell, layout, selection),
                                           want.output),
                  1e-5)
            << text << ", group " << group << ", past " << past;
      }
    }
}

// One head and one query block: there is nothing to unite.
TEST(AttendSelected, NativeEqualsTheUnionOfOneHeadAndQueryBlock) {
  Inputs in = attention::make_inputs(
      {.num_q_heads = 2, .num_kv_heads = 2, .m = 16, .past = 192, .dim = 16});
  for (const std::int64_t block : {2, 7}) in.k.narrow(1, 16 * block, 16) += 0.5;
  in.q += 2;
  const ModelShape shape = shape_of_heads(2, 2);
  const Cell cell = cell_of(in);
  for (const std::string text : {"flash_prefill:block_size=16,alpha=0.7,window_blocks=1",
                                 "xattention:block_size=16,stride=4,tau=0.4"}) {
    const MethodSpec together = MethodSpec::parse(text + ",lowering=union");
    const MethodSpec native = MethodSpec::parse(text + ",lowering=native");
    const CellSelection a = make_selector(together, shape)->select(cell);
    const CellSelection b = make_selector(native, shape)->select(cell);
    ASSERT_LT(a.rows[0].positions.size(), 192U);
    EXPECT_EQ(a.rows, b.rows);
    const at::Tensor by_table = attend_selected(together, {}, cell, row_layout(together, shape), a);
    const at::Tensor by_mask = attend_selected(native, {}, cell, row_layout(native, shape), b);
    EXPECT_LT((by_table - by_mask).abs().max().item<double>(), 1e-5);
  }
}

TEST(AttendSelected, RefusesRecordedMasksThatAreNone) {
  const Inputs in =
      attention::make_inputs({.num_q_heads = 1, .num_kv_heads = 1, .m = 8, .past = 16, .dim = 16});
  const ModelShape shape = shape_of_heads(1, 1);
  const MethodSpec spec = MethodSpec::parse("flash_prefill:block_size=4,lowering=native");
  const CellSelection sound = make_selector(spec, shape)->select(cell_of(in));
  CellSelection none = sound, blind = sound, prophetic = sound;
  none.blocks.reset();
  blind.blocks->kept[sound.blocks->index(0, 1, 5)] = 0;      // its own block
  prophetic.blocks->kept[sound.blocks->index(0, 0, 5)] = 1;  // one of the future
  for (const CellSelection* selection : {&none, &blind, &prophetic}) {
    try {
      attend_selected(spec, {}, cell_of(in), row_layout(spec, shape), *selection);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
    }
  }
}

TEST(PageTables, ListTheIdsOfWholePages) {
  // 22 past tokens in pages of 8 (the last one straddles), 30 tokens: 4 pages a KV head.
  const Inputs in =
      attention::make_inputs({.num_q_heads = 4, .num_kv_heads = 2, .m = 8, .past = 22, .dim = 4});
  const MethodSpec spec = MethodSpec::parse("quest:page_size=8");
  CellSelection selection;
  selection.rows = {{{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21}},
                    {{}},
                    {{8, 9, 10, 11, 12, 13, 14, 15}},
                    {{16, 17, 18, 19, 20, 21}}};
  const auto tables = page_tables(spec, {trace::RowAxis::QHead, 1}, cell_of(in), selection);
  ASSERT_TRUE(tables);
  EXPECT_EQ(tables->page_size, 8);
  EXPECT_EQ(tables->pages_per_head, 4);
  EXPECT_EQ(tables->q_heads_per_row, 1);
  EXPECT_EQ(tables->kv_indptr, (std::vector<std::int32_t>{0, 2, 2, 3, 4}));
  EXPECT_EQ(tables->kv_indices, (std::vector<std::int32_t>{0, 2, 4 + 1, 4 + 2}));
}

TEST(PageTables, APageThatLacksATokenIsNone) {
  const Inputs in =
      attention::make_inputs({.num_q_heads = 1, .num_kv_heads = 1, .m = 3, .past = 10, .dim = 4});
  const MethodSpec spec = MethodSpec::parse("quest:page_size=4");
  const auto tables_of = [&](std::vector<std::int32_t> positions) {
    CellSelection selection;
    selection.rows = {{std::move(positions)}};
    return page_tables(spec, {trace::RowAxis::KvHead, 1}, cell_of(in), selection).has_value();
  };
  EXPECT_TRUE(tables_of({0, 1, 2, 3, 8, 9}));
  EXPECT_TRUE(tables_of({}));
  EXPECT_FALSE(tables_of({0, 1, 2, 8, 9}));
  EXPECT_FALSE(tables_of({1, 2, 3, 8, 9}));
  EXPECT_FALSE(tables_of({0, 1, 3, 4, 8, 9}));
  EXPECT_FALSE(tables_of({0, 1, 2, 3, 8}));
  EXPECT_FALSE(tables_of({0, 1, 2, 3, 9}));
  EXPECT_FALSE(tables_of({12, 13, 14, 15}));  // of the chunk
}

TEST(PageTables, OfAPageThatAWindowCutsTheRestIsWhole) {
  // 18 past tokens in pages of 8; the first query sees tokens 10 to 17 before it: a part of page 1, and page 2.
  const Inputs in =
      attention::make_inputs({.num_q_heads = 1, .num_kv_heads = 1, .m = 3, .past = 18, .dim = 4});
  Cell cell = cell_of(in);
  cell.softmax.window = 9;
  ASSERT_EQ(cell.first_candidate(), 10);
  CellSelection selection;
  selection.rows = {{{10, 11, 12, 13, 14, 15, 16, 17}}};
  const MethodSpec spec = MethodSpec::parse("quest:page_size=8");
  const auto tables = page_tables(spec, {trace::RowAxis::KvHead, 1}, cell, selection);
  ASSERT_TRUE(tables);
  EXPECT_EQ(tables->kv_indices, (std::vector<std::int32_t>{1, 2}));
  selection.rows = {{{16, 17}}};
  const auto last = page_tables(spec, {trace::RowAxis::KvHead, 1}, cell, selection);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kv_indices, (std::vector<std::int32_t>{2}));
}

TEST(PageTables, TheMethodDecidesTheSizeOfAPage) {
  EXPECT_EQ(MethodSpec::parse("quest:page_size=8").traits().page_size, 8);
  EXPECT_EQ(MethodSpec::parse("flash_prefill").traits().page_size, 128);
  EXPECT_EQ(MethodSpec::parse("compact_attention:block_size=32").traits().page_size, 32);
  EXPECT_EQ(MethodSpec::parse("minference:lowering=union,config=patterns.json").traits().page_size,
            64);
  EXPECT_EQ(MethodSpec::parse("quoka").traits().page_size, 0);
}

}  // namespace
}  // namespace kvloupe::selection
