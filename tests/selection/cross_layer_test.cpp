// TidalDecode and LessIsMore: which layers choose, reuse or are dense, and LessIsMore's shared set.
#include "core/base/error.h"
#include "tests/selection/oracle_loops.h"
#include "tests/selection/sequences.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;

constexpr const char* kMethods[] = {"tidal_decode", "less_is_more"};

std::optional<int> source_in(const std::string& spec, int layer, int num_layers = 10) {
  const ModelShape shape{num_layers, 4, 2, 16};
  return source_layer(MethodSpec::parse(spec).resolved(shape), shape, layer);
}

TEST(CrossLayer, LayersReuseTheLastSelectionLayer) {
  for (const std::string method : kMethods) {
    // 10 layers: 2 and floor(0.4 * 10) = 4.
    const std::optional<int> none;
    const std::vector<std::optional<int>> expected = {none, none, none, 2, none, 4, 4, 4, 4, 4};
    for (int layer = 0; layer < 10; ++layer)
      EXPECT_EQ(source_in(method, layer), expected[static_cast<std::size_t>(layer)]) << layer;
    // A correction layer that is not above the first is ignored: 4 layers, floor(1.6) = 1.
    EXPECT_EQ(source_in(method, 3, 4), 2);
    EXPECT_EQ(source_in(method + ":first_layer=4", 4), none);
    EXPECT_EQ(source_in(method + ":first_layer=4", 9), 4);
    EXPECT_EQ(source_in(method + ":first_layer=0,correction_layer=0", 1), 0);
  }
  EXPECT_EQ(source_in("quoka", 5), std::nullopt);
}

// `spec` in several layers, in the order of a live model (the layers of a chunk) or of a replay.
std::vector<std::vector<CellSelection>> run_layers(const std::vector<Sequence>& layers,
                                                   const std::string& spec, bool chunks_outside) {
  const auto selector = selector_for(layers.front(), spec);
  const std::size_t num_chunks = layers.front().chunks.size();
  std::vector cells(layers.size(), std::vector<CellSelection>(num_chunks));
  for (std::size_t item = 0; item < layers.size() * num_chunks; ++item) {
    const std::size_t layer = chunks_outside ? item % layers.size() : item / num_chunks;
    const std::size_t chunk = chunks_outside ? item / layers.size() : item % num_chunks;
    cells[layer][chunk] = selector->select(cell_of(layers[layer], static_cast<int>(chunk)));
  }
  return cells;
}

std::vector<Sequence> ten_layers(unsigned seed) {
  std::vector<Sequence> layers;
  SequenceShape shape;
  for (int layer = 0; layer < 10; ++layer) {
    shape.layer = layer;
    layers.push_back(random_sequence(shape, seed + static_cast<unsigned>(layer)));
  }
  return layers;
}

TEST(CrossLayer, DenseLayersAndReusedSets) {
  const auto layers = ten_layers(50);
  for (const std::string method : kMethods)
    for (const bool dense : {true, false}) {
      SCOPED_TRACE(method);
      const auto cells = run_layers(
          layers, method + ":budget_tokens=9,sel_layers=" + (dense ? "dense" : "set"), true);
      for (std::size_t chunk = 1; chunk < layers.front().chunks.size(); ++chunk)
        for (std::size_t layer = 0; layer < 10; ++layer) {
          const CellSelection& cell = cells[layer][chunk];
          const bool is_dense = layer < 2 || (dense && (layer == 2 || layer == 4));
          EXPECT_EQ(cell.dense_reason.has_value(), is_dense) << layer;
          EXPECT_FALSE(cell.dense_fallback());
          if (is_dense) {
            EXPECT_EQ(cell.dense_reason, DenseReason::MethodRule);
          } else {
            // Layers above a selection layer all have its set, in decoding too.
            const std::size_t chooser = layer < 4 ? 2 : 4;
            EXPECT_EQ(positions_of(cell), positions_of(cells[chooser + 1][chunk])) << layer;
            if (!dense) {
              EXPECT_EQ(positions_of(cell), positions_of(cells[chooser][chunk])) << layer;
            }
            EXPECT_EQ(cell.rows[0].positions.size(), 9U);
          }
        }
      // The two selection layers disagree, or the test shows nothing.
      EXPECT_NE(positions_of(cells[3][2]), positions_of(cells[5][2]));
      EXPECT_EQ(cells[5][0].dense_reason, DenseReason::EmptyPast);
    }
}

TEST(CrossLayer, TheOrderOfLayersAndChunksDoesNotMatter) {
  const auto layers = ten_layers(60);
  for (const std::string method : kMethods)
    for (const char* options : {":budget_tokens=9", ":budget_ratio=0.3,sel_layers=set"}) {
      const auto live = run_layers(layers, method + options, true);
      const auto replay = run_layers(layers, method + options, false);
      for (std::size_t layer = 0; layer < layers.size(); ++layer)
        for (std::size_t chunk = 0; chunk < live[layer].size(); ++chunk)
          EXPECT_EQ(positions_of(live[layer][chunk]), positions_of(replay[layer][chunk]));
    }
}

TEST(CrossLayer, AModelWithTooFewLayersIsDense) {
  for (const std::string method : kMethods) {
    const MethodRun run =
        run_method(random_sequence({.layer = 1, .num_layers = 2}, 51), method + ":budget_tokens=9");
    for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk)
      EXPECT_EQ(run.cells[chunk].dense_reason, DenseReason::MethodRule);
  }
}

TEST(CrossLayer, AMissingSourceIsSaid) {
  const Sequence sequence = random_sequence({.layer = 5}, 52);
  for (const std::string method : kMethods) {
    const auto selector = selector_for(sequence, method + ":budget_tokens=9");
    try {
      selector->select(cell_of(sequence, 1));
      FAIL() << method;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_NE(std::string(error.what()).find("layer 4"), std::string::npos) << error.what();
    }
  }
}

// Three heads that rank 9 7 2, 7 5 9 and 1 9 8: first choices 9 7 1 fill the three places.
// A live run asks for no chunk again that all layers have taken.
TEST(CrossLayer, WhatIsForgottenIsNotThereForAnyLayer) {
  const auto layers = ten_layers(80);
  for (const std::string method : kMethods) {
    const auto selector = selector_for(layers.front(), method + ":budget_tokens=9,sel_layers=set");
    const auto whole = run_layers(layers, method + ":budget_tokens=9,sel_layers=set", true);
    for (const int chunk : {0, 1, 2})
      for (const std::size_t layer : {0U, 1U, 2U}) selector->select(cell_of(layers[layer], chunk));
    selector->forget_before(2);
    EXPECT_THROW(selector->select(cell_of(layers[3], 1)), Error) << method;
    EXPECT_EQ(positions_of(selector->select(cell_of(layers[3], 2))), positions_of(whole[3][2]));
  }
}

TEST(LessIsMore, TheUnionGoesRankByRank) {
  Sequence sequence = random_sequence({.num_q_heads = 3,
                                       .num_kv_heads = 1,
                                       .head_dim = 3,
                                       .chunk_lengths = {12, 1},
                                       .decoded = 0,
                                       .layer = 2},
                                      53);
  std::fill(sequence.q.begin(), sequence.q.end(), 0.0F);
  std::fill(sequence.k.begin(), sequence.k.end(), -1.0F);
  const std::vector<Ints> ranks = {{9, 7, 2}, {7, 5, 9}, {1, 9, 8}};
  for (int head = 0; head < 3; ++head) {
    const_cast<float*>(sequence.query(head, 12))[head] = 1;
    for (int rank = 0; rank < 3; ++rank)
      const_cast<float*>(sequence.key(0, ranks[head][rank]))[head] = static_cast<float>(3 - rank);
  }
  const auto kept = [&](int budget) {
    return run_method(
               sequence,
               fmt::format("less_is_more:recent_ratio=0,sel_layers=set,budget_tokens={}", budget))
        .cells[1]
        .rows[0]
        .positions;
  };
  EXPECT_EQ(kept(1), (Ints{9}));
  EXPECT_EQ(kept(2), (Ints{7, 9}));
  EXPECT_EQ(kept(3), (Ints{1, 7, 9}));  // not 1, 2, 5: the oldest of the union
  EXPECT_EQ(kept(4), (Ints{1, 5, 7, 9}));
  EXPECT_EQ(kept(5), (Ints{1, 2, 5, 7, 9}));
}

// The repositories' lim_ratio 0.25, 0.75 and 1 of the Qwen file are recent shares of 0.75, 0.25
// and 0; those of the Llama file are recent shares themselves.
TEST(LessIsMore, TheMiddleIsWhatTheRecentKeysLeave) {
  const Sequence sequence = one_head_sequence(2, {2000, 2}, 54, 2);
  struct Case {
    const char* recent_ratio;
    int middle;
  };
  for (const Case& c : {Case{"0.75", 256}, Case{"0.25", 768}, Case{"0", 1024}, Case{"1", 0}}) {
    const MethodRun run =
        run_method(sequence, fmt::format("less_is_more:budget_tokens=1024,sel_layers=set,"
                                         "recent_ratio={}",
                                         c.recent_ratio));
    const SelectedRow& row = run.cells[1].rows[0];
    EXPECT_EQ(row.positions.size(), 1024U);
    EXPECT_EQ(static_cast<int>(row.forced.size()), 1024 - c.middle);
    EXPECT_EQ(row.ties_at_cut, 0);
    if (row.forced.empty()) continue;
    EXPECT_EQ(Ints(row.forced.begin(), row.forced.begin() + 5),
              (Ints{0, 1, 2, 3, 2000 - (1024 - c.middle - 4)}));
    EXPECT_EQ(row.forced.back(), 1999);
    const std::set<std::int32_t> kept(row.positions.begin(), row.positions.end());
    for (int sink = 0; sink < 4; ++sink) EXPECT_EQ(kept.count(sink), 1U);
    for (int position = 2000 - (1024 - c.middle - 4); position < 2000; ++position)
      EXPECT_EQ(kept.count(position), 1U);
  }
}

// The contract's sentence, plainly.
Ints shared_set(const Sequence& s, const MethodSpec& spec, const trace::ChunkInfo& span) {
  const std::int64_t budget = spec.budget(span.begin);
  const auto middle = static_cast<std::int64_t>(
      std::floor(static_cast<double>(budget) * (1 - spec.real("recent_ratio")) + 1e-9));
  std::int64_t recent = budget - middle, sinks = spec.integer("sink_tokens");
  if (recent < sinks) sinks = 0;
  recent -= sinks;
  std::vector<Ints> orders;
  for (int head = 0; head < s.shape.num_q_heads; ++head) {
    std::vector<double> mean(static_cast<std::size_t>(span.begin), 0.0);
    for (int query = span.begin; query < span.end(); ++query)
      for (int key = 0; key < span.begin; ++key)
        mean[key] += dot(as_row(s.query(head, query), s.shape.head_dim),
                         as_row(s.key(head / s.gqa_group_size(), key), s.shape.head_dim));
    Ints order = range(static_cast<int>(sinks), static_cast<int>(span.begin - recent));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return mean[a] > mean[b]; });
    orders.push_back(order);
  }
  std::set<std::int32_t> chosen;
  for (std::size_t rank = 0; rank < orders.front().size(); ++rank)
    for (const Ints& order : orders)
      if (static_cast<std::int64_t>(chosen.size()) < middle) chosen.insert(order[rank]);
  for (int position = 0; position < sinks; ++position) chosen.insert(position);
  for (auto position = span.begin - recent; position < span.begin; ++position)
    chosen.insert(static_cast<std::int32_t>(position));
  return Ints(chosen.begin(), chosen.end());
}

TEST(LessIsMore, EqualsPlainLoops) {
  int compared = 0;
  for (const int layer : {2, 3, 5})
    for (const char* options :
         {"budget_tokens=11", "budget_tokens=11,recent_ratio=0.6,sink_tokens=3",
          "budget_tokens=5,recent_ratio=0.5", "budget_ratio=0.4,sink_tokens=0",
          "budget_tokens=11,recent_ratio=0,first_layer=1,correction_layer=5",
          "budget_tokens=9,first_layer=5"}) {
      SCOPED_TRACE(options);
      const Sequence sequence = random_sequence({.num_q_heads = 6, .layer = layer}, 55);
      const std::string text = std::string("less_is_more:sel_layers=set,") + options;
      const MethodSpec spec = MethodSpec::parse(text).resolved(sequence.model());
      const MethodRun run = run_method(sequence, text);
      const auto source = source_layer(spec, sequence.model(), layer);
      const Sequence chooser = source ? in_layer(sequence, *source) : sequence;
      for (std::size_t chunk = 0; chunk < run.cells.size(); ++chunk) {
        if (run.cells[chunk].dense_reason) continue;
        ++compared;
        for (const SelectedRow& row : run.cells[chunk].rows)
          EXPECT_EQ(row.positions, shared_set(chooser, spec, sequence.chunks[chunk]));
      }
    }
  EXPECT_GT(compared, 60);
}

}  // namespace
}  // namespace kvloupe::selection::testing
