// Lane methods against plain fp64 loops that sum over the chosen lanes of rotated queries and keys,
// and the numbers of the paper.
#include "core/selection/lanes/lanes.h"
#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/selection/attend.h"
#include "tests/selection/lane_loops.h"
#include "tests/selection/sequences.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {
namespace {

using Doubles = std::vector<double>;

// The queries whose scores with the stored keys the method computes, [num_q_heads, m, head_dim].
at::Tensor pruned_queries(const Sequence& sequence, const MethodRun& run, std::size_t chunk) {
  return whole_queries(cell_of(sequence, static_cast<int>(chunk)), run.cells[chunk].lanes.value());
}

const float* row_of(const at::Tensor& queries, int head, int row) {
  return queries[head][row].const_data_ptr<float>();
}

bool same_lanes(const CellSelection& a, const CellSelection& b) {
  const attention::LaneQueries &left = a.lanes.value().queries, &right = b.lanes.value().queries;
  return at::equal(left.values, right.values) && left.by_lane() == right.by_lane() &&
         (!left.by_lane() || at::equal(left.lanes, right.lanes));
}

double dot(const float* a, const float* b, int dim) {
  double sum = 0;
  for (int i = 0; i < dim; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double norm(const float* a, int dim) { return std::sqrt(dot(a, a, dim)); }

std::vector<int> counts_of(const CellSelection& cell, int head) {
  const auto counts =
      cell.lane_counts_of(head, static_cast<int>(cell.lanes.value().basis->head_dim));
  return {counts.begin(), counts.end()};
}

void expect_lane_sums(const Sequence& sequence, const Pruning& pruning) {
  const int dim = sequence.shape.head_dim;
  const MethodRun run = run_method(sequence, pruning.spec);
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    const trace::ChunkInfo& span = sequence.chunks[c];
    ASSERT_TRUE(run.cells[c].lanes.has_value());
    const at::Tensor queries = pruned_queries(sequence, run, c);
    for (int head = 0; head < sequence.shape.num_q_heads; ++head) {
      const int kv_head = head / sequence.gqa_group_size();
      std::vector<int> counts(static_cast<std::size_t>(dim), 0);
      for (int row = 0; row < span.length; ++row) {
        const Doubles query = rotated(sequence, kv_head, sequence.query(head, span.begin + row));
        const auto chosen = lanes_by_hand(query, pruning.usable, pruning.kept, pruning.leading);
        for (const int lane : chosen) ++counts[lane];
        for (int key = 0; key <= span.begin + row; ++key) {
          const Doubles lanes = rotated(sequence, kv_head, sequence.key(kv_head, key));
          double score = 0;
          for (const int lane : chosen) score += query[lane] * lanes[lane];
          ASSERT_NEAR(dot(row_of(queries, head, row), sequence.key(kv_head, key), dim), score, 1e-4)
              << pruning.spec << " chunk " << c << " head " << head << " row " << row;
        }
      }
      EXPECT_EQ(counts_of(run.cells[c], head), counts) << pruning.spec << " chunk " << c;
    }
  }
}

TEST(Lanes, PrunedScoresAreSumsOverTheChosenLanes) {
  for (const auto& [q_heads, kv_heads] : std::vector<std::pair<int, int>>{{4, 2}, {3, 1}, {2, 2}}) {
    const Sequence sequence =
        random_sequence({.num_q_heads = q_heads, .num_kv_heads = kv_heads}, 3);
    for (const Pruning& pruning : std::vector<Pruning>{
             {"aqua", 16, 12, false},
             {"aqua:dim_ratio=0.3", 16, 4, false},  // 4.8
             {"aqua:dim_ratio=0.01", 16, 1, false},
             {"aqua:dim_ratio=1", 16, 16, false},
             {"static_slicing:dim_ratio=0.5", 16, 8, true},
             {"aqua_memory", 15, 11, false},  // 1.6 lanes dropped, 11.25 of the rest
             {"aqua_memory:dim_ratio=0.5,slice_ratio=0.25", 12, 6, false},
             {"aqua_h2o:dim_ratio=0.6", 16, 9, false}})
      expect_lane_sums(sequence, pruning);
  }
}

// One head of two channels; one query (1, 2) after one key (3, 1); P = [[.6, .8], [.8, -.6]].
// q^ = (2.2, -.4), k^ = (2.6, 1.8): 5.0 with both lanes, 5.72 with lane 0.
TEST(Lanes, WorkedExample) {
  Sequence sequence = one_head_sequence(2, {1, 1}, 1);
  sequence.q = {0, 0, 1, 2};
  sequence.k = {3, 1, 0, 0};
  sequence.basis.layers[0].vectors = {0.6F, 0.8F, 0.8F, -0.6F};
  const auto score = [&](const std::string& spec) {
    const MethodRun run = run_method(sequence, spec);
    return dot(row_of(pruned_queries(sequence, run, 1), 0, 0), sequence.key(0, 0), 2);
  };
  EXPECT_NEAR(score("aqua:dim_ratio=0.5"), 5.72, 1e-6);
  EXPECT_NEAR(score("aqua:dim_ratio=1"), 5.0, 1e-6);
  sequence.q = {0, 0, -2, 1.5F};  // q^ = (0, -2.5): lane 1 by magnitude, lane 0 by slicing
  EXPECT_NEAR(score("aqua:dim_ratio=0.5"), -2.5 * 1.8, 1e-6);
  EXPECT_NEAR(score("static_slicing:dim_ratio=0.5"), 0.0, 1e-6);
}

TEST(Lanes, AZeroQueryTakesTheFirstLanes) {
  Sequence sequence = random_sequence({}, 2);
  std::fill(sequence.q.begin(), sequence.q.end(), 0.0F);
  const MethodRun run = run_method(sequence, "aqua:dim_ratio=0.25");
  const std::vector<int> counts = counts_of(run.cells[1], 0);
  for (int lane = 0; lane < 16; ++lane) EXPECT_EQ(counts[lane], lane < 4 ? 16 : 0);
}

TEST(Lanes, CountsRoundDownAndAreNeverZero) {
  EXPECT_EQ(lanes_kept(0.9, 128), 115);
  EXPECT_EQ(lanes_kept(0.3, 128), 38);
  EXPECT_EQ(lanes_kept(0.75, 64), 48);
  EXPECT_EQ(lanes_kept(0.29, 100), 29);  // 28.999999999999996 in binary
  EXPECT_EQ(lanes_kept(0.001, 64), 1);
  EXPECT_EQ(lanes_kept(1, 64), 64);
}

// E = (1 - S) * k_ratio of Table 3, where the lanes are whole.
TEST(Lanes, MemoryKeepsTheShareOfMultiplicationsThatThePaperSays) {
  struct Row {
    int head_dim;
    std::string spec;
    double share;
  };
  for (const Row& row : std::vector<Row>{{40, "dim_ratio=0.75,slice_ratio=0.1", 0.675},
                                         {100, "dim_ratio=0.9,slice_ratio=0.1", 0.81},
                                         {16, "dim_ratio=0.75,slice_ratio=0.25", 0.5625}}) {
    const MethodRun run =
        run_method(random_sequence({.head_dim = row.head_dim, .chunk_lengths = {5}}, 4),
                   "aqua_memory:" + row.spec);
    const std::vector<int> counts = counts_of(run.cells[0], 0);
    const double used = std::accumulate(counts.begin(), counts.end(), 0) / 5.0;
    EXPECT_DOUBLE_EQ(used / row.head_dim, row.share);
  }
}

TEST(Lanes, MemoryWithoutSlicingIsAqua) {
  const Sequence sequence = random_sequence({}, 5);
  const MethodRun plain = run_method(sequence, "aqua:dim_ratio=0.6");
  const MethodRun memory = run_method(sequence, "aqua_memory:dim_ratio=0.6,slice_ratio=0");
  const MethodRun sliced = run_method(sequence, "aqua_memory:dim_ratio=0.6,slice_ratio=0.25");
  for (std::size_t c = 0; c < plain.cells.size(); ++c) {
    EXPECT_TRUE(same_lanes(plain.cells[c], memory.cells[c]));
    EXPECT_TRUE(plain.cells[c].lane_counts == memory.cells[c].lane_counts);
    for (int head = 0; head < 4; ++head) {
      const std::vector<int> counts = counts_of(sliced.cells[c], head);
      EXPECT_EQ(std::accumulate(counts.begin() + 12, counts.end(), 0), 0);  // the last quarter
    }
  }
}

TEST(Lanes, AllLanesAreDenseInAnyBasis) {
  Sequence sequence = random_sequence({}, 6);
  const Sequence other = random_sequence({}, 60);
  for (int turn = 0; turn < 2; ++turn) {
    for (const char* method : {"aqua:dim_ratio=1", "static_slicing:dim_ratio=1",
                               "aqua_memory:dim_ratio=1,slice_ratio=0"}) {
      const MethodRun run = run_method(sequence, method);
      const auto spec = MethodSpec::parse(method).resolved(sequence.model());
      for (std::size_t c = 0; c < run.cells.size(); ++c) {
        const Cell cell = cell_of(sequence, static_cast<int>(c));
        EXPECT_TRUE(at::allclose(pruned_queries(sequence, run, c), cell.q, 1e-5, 1e-5));
        const at::Tensor output =
            attend_selected(spec, {}, cell, row_layout(spec, sequence.model()), run.cells[c]);
        const at::Tensor dense =
            attention::dense_chunk_attention(cell.q, cell.k, cell.v, cell.softmax, false).output;
        EXPECT_TRUE(at::allclose(output, dense, 1e-4, 1e-5)) << method;
      }
    }
    sequence.basis = other.basis;
  }
}

// ||query'|| is the norm of the lanes kept.
TEST(Lanes, MagnitudeKeepsMoreOfAVectorThanSlicing) {
  const Sequence sequence = random_sequence({}, 7);
  for (const char* ratio : {"0.1", "0.25", "0.5", "0.9"}) {
    const MethodRun magnitude = run_method(sequence, std::string("aqua:dim_ratio=") + ratio);
    const MethodRun slicing =
        run_method(sequence, std::string("static_slicing:dim_ratio=") + ratio);
    const at::Tensor by_magnitude = pruned_queries(sequence, magnitude, 1);
    const at::Tensor sliced = pruned_queries(sequence, slicing, 1);
    for (int head = 0; head < 4; ++head)
      for (int row = 0; row < 16; ++row) {
        const double kept = norm(row_of(by_magnitude, head, row), 16);
        EXPECT_GE(kept, norm(row_of(sliced, head, row), 16) - 1e-5);
        EXPECT_LE(kept, norm(sequence.query(head, 16 + row), 16) + 1e-4);
      }
  }
}

TEST(Lanes, HeadsOfAGroupChooseTheirOwn) {
  const MethodRun run = run_method(random_sequence({}, 8), "aqua:dim_ratio=0.25");
  EXPECT_NE(counts_of(run.cells[1], 0), counts_of(run.cells[1], 1));
  const MethodRun sliced = run_method(random_sequence({}, 8), "static_slicing:dim_ratio=0.25");
  EXPECT_EQ(counts_of(sliced.cells[1], 0), counts_of(sliced.cells[1], 1));
}

TEST(Lanes, EveryCellHasThemAndKeepsAllKeys) {
  const Sequence sequence = random_sequence({}, 9);
  for (const char* method : {"aqua", "static_slicing", "aqua_memory"}) {
    const MethodRun run = run_method(sequence, method);
    for (std::size_t c = 0; c < run.cells.size(); ++c) {
      const CellSelection& cell = run.cells[c];
      const trace::ChunkInfo& span = sequence.chunks[c];
      EXPECT_TRUE(cell.lanes.has_value());
      EXPECT_FALSE(cell.budget_tokens.has_value());
      EXPECT_EQ(cell.dense_fallback(), c == 0);
      EXPECT_EQ(cell.dense_reason, c == 0 ? std::optional(DenseReason::EmptyPast) : std::nullopt);
      ASSERT_EQ(cell.rows.size(), 2u);
      for (const SelectedRow& row : cell.rows) {
        ASSERT_EQ(row.positions.size(), static_cast<std::size_t>(span.begin));
        if (span.begin > 0) {
          EXPECT_EQ(row.positions.back(), span.begin - 1);
        }
      }
    }
  }
}

TEST(AquaH2o, WithAllLanesIsH2o) {
  const Sequence sequence = random_sequence({.decoded = 9}, 10);
  const MethodRun aqua =
      run_method(sequence, "aqua_h2o:dim_ratio=1,token_ratio=0.4,recent_ratio=0.25");
  const MethodRun plain = run_method(sequence, "h2o:budget_ratio=0.4,recent_ratio=0.25");
  EXPECT_EQ(positions_of(aqua), positions_of(plain));
  EXPECT_EQ(aqua.alive, plain.alive);
  EXPECT_EQ(aqua.alive[0].size(), 25u);  // 0.4 * (55 + 9), rounded down
  const MethodRun pruned =
      run_method(sequence, "aqua_h2o:dim_ratio=0.1,token_ratio=0.4,recent_ratio=0.25");
  EXPECT_NE(pruned.alive, plain.alive);  // the tally is of pruned scores
}

TEST(AquaH2o, KeepingAllTokensIsAqua) {
  const Sequence sequence = random_sequence({}, 11);
  const MethodRun all = run_method(sequence, "aqua_h2o:dim_ratio=0.5,token_ratio=1");
  const MethodRun plain = run_method(sequence, "aqua:dim_ratio=0.5");
  EXPECT_EQ(positions_of(all), positions_of(plain));
  for (std::size_t c = 0; c < all.cells.size(); ++c) {
    EXPECT_TRUE(same_lanes(all.cells[c], plain.cells[c]));
    for (const auto& row : all.evicted[c]) EXPECT_TRUE(row.empty());
  }
}

TEST(AquaH2o, EvictsAtEachDecodedToken) {
  const Sequence sequence = random_sequence({.decoded = 5}, 12);
  const MethodRun run = run_method(sequence, "aqua_h2o:token_ratio=0.5");
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    const std::int64_t seen = sequence.chunks[c].end();
    // One token came; half of all seen stay.
    const bool room_grew = seen / 2 > (seen - 1) / 2;
    for (const auto& row : run.evicted[c]) {
      if (sequence.chunks[c].phase == trace::Phase::Decode) {
        EXPECT_EQ(row.size(), room_grew ? 0u : 1u) << c;
      } else {
        EXPECT_FALSE(row.empty()) << c;
      }
    }
  }
  EXPECT_EQ(run.alive[0].size(), 30u);  // half of 55 + 5
}

TEST(Lanes, BitsDependOnTheRowAlone) {
  const Sequence sequence = random_sequence({}, 13);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const MethodRun one = run_method(sequence, "aqua_h2o");
  at::set_num_threads(4);
  const MethodRun four = run_method(sequence, "aqua_h2o", 5);
  at::set_num_threads(threads);
  for (std::size_t c = 0; c < one.cells.size(); ++c)
    EXPECT_TRUE(same_lanes(one.cells[c], four.cells[c]));
  EXPECT_EQ(one.alive, four.alive);
}

TEST(Lanes, ALayerOutsideTheBasisIsRefused) {
  Sequence sequence = random_sequence({}, 14);
  sequence.basis.layers = {{3, sequence.basis.layers.at(0)}};
  EXPECT_THROW(run_method(sequence, "aqua"), Error);
}

}  // namespace
}  // namespace kvloupe::selection::testing
