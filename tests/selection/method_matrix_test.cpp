// Properties that every method has, for every parameter: sizes, causality, determinism, symmetry.
#include "tests/selection/sequences.h"
#include "tests/selection/variants.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Positions = std::vector<std::vector<std::int32_t>>;

class Matrix : public ::testing::TestWithParam<std::string> {
 protected:
  std::string id() const { return GetParam().substr(0, GetParam().find(':')); }
  MethodSpec spec() const { return MethodSpec::parse(GetParam()); }
  bool evicts() const { return spec().state_action() == trace::StateAction::Eviction; }
};

std::vector<Positions> all_positions(const MethodRun& run) {
  std::vector<Positions> result;
  for (const CellSelection& cell : run.cells) result.push_back(positions_of(cell));
  return result;
}

// P takes the values 0, 1, B-1, B, B+1 and more, chunks the lengths 1 to 30, with B = 11.
SequenceShape edge_shape(int num_q_heads, int num_kv_heads) {
  SequenceShape shape;
  shape.num_q_heads = num_q_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = 8;
  shape.chunk_lengths = {1, 9, 1, 1, 1, 30, 7, 16};
  return shape;
}

void expect_sound(const Sequence& sequence, const MethodSpec& spec, const MethodRun& run) {
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    SCOPED_TRACE(fmt::format("chunk {}", c));
    const CellSelection& cell = run.cells[c];
    const trace::ChunkInfo& span = sequence.chunks[c];
    const std::int64_t candidates = spec.scope() == BudgetScope::All ? span.end() : span.begin;
    const std::int64_t budget = spec.budget(span.begin);
    EXPECT_EQ(cell.budget_tokens, budget);
    EXPECT_EQ(cell.dense_fallback, span.begin == 0 || candidates <= budget);
    if (span.begin == 0) {
      EXPECT_EQ(cell.dense_reason, DenseReason::EmptyPast);
    } else if (candidates <= budget) {
      EXPECT_EQ(cell.dense_reason, DenseReason::FitsBudget);
    }
    for (const RowSelection& row : cell.rows) {
      EXPECT_TRUE(std::is_sorted(row.positions.begin(), row.positions.end()));
      EXPECT_EQ(std::set<std::int32_t>(row.positions.begin(), row.positions.end()).size(),
                row.positions.size());
      if (!row.positions.empty()) {
        EXPECT_GE(row.positions.front(), 0);
        EXPECT_LT(row.positions.back(), candidates);
      }
      EXPECT_LE(row.forced, static_cast<std::int64_t>(row.positions.size()));
      const bool grows = spec.state_action() == trace::StateAction::Eviction &&
                         span.phase == trace::Phase::Decode && !spec.info().active_in_decode;
      const auto size = static_cast<std::int64_t>(row.positions.size());
      if (cell.dense_reason) {
        EXPECT_EQ(size, candidates);
      } else if (!grows) {
        EXPECT_EQ(size, budget);
      }
    }
  }
}

TEST_P(Matrix, SelectsSortedUniqueKeysWithinTheBudget) {
  for (const auto& [q_heads, kv_heads] : std::vector<std::pair<int, int>>{{4, 4}, {4, 2}, {8, 1}}) {
    const Sequence sequence = random_sequence(edge_shape(q_heads, kv_heads), 7);
    expect_sound(sequence, spec(), run_method(sequence, GetParam()));
  }
}

TEST_P(Matrix, ABudgetThatHoldsAllIsDense) {
  const Sequence sequence = random_sequence(edge_shape(4, 2), 8);
  const MethodRun run = run_method(
      sequence, GetParam().substr(0, GetParam().find("budget_tokens=11")) + "budget_tokens=100000" +
                    GetParam().substr(GetParam().find("=11") + 3));
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    EXPECT_TRUE(run.cells[c].dense_fallback);
    for (const RowSelection& row : run.cells[c].rows)
      EXPECT_EQ(static_cast<int>(row.positions.size()), spec().scope() == BudgetScope::All
                                                            ? sequence.chunks[c].end()
                                                            : sequence.chunks[c].begin);
  }
}

TEST_P(Matrix, AnEvictedKeyNeverReturns) {
  const Sequence sequence = random_sequence(edge_shape(4, 2), 9);
  const MethodRun run = run_method(sequence, GetParam());
  if (!evicts()) {
    EXPECT_TRUE(run.alive.empty());
    return;
  }
  std::vector<std::set<std::int32_t>> dead(2);
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    for (std::size_t head = 0; head < dead.size(); ++head) {
      for (const std::int32_t position : run.cells[c].rows[head].positions)
        EXPECT_EQ(dead[head].count(position), 0U);
      for (const std::int32_t position : run.evicted[c][head])
        EXPECT_TRUE(dead[head].insert(position).second);
    }
  }
  // Alive and dead together are everything.
  for (std::size_t head = 0; head < dead.size(); ++head)
    EXPECT_EQ(static_cast<int>(run.alive[head].size() + dead[head].size()), sequence.num_tokens());
}

TEST_P(Matrix, DoesNotDependOnMemoryOrThreads) {
  const Sequence sequence = random_sequence({}, 10);
  const auto expected = all_positions(run_method(sequence, GetParam()));
  EXPECT_EQ(all_positions(run_method(sequence, GetParam(), 13)), expected);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  EXPECT_EQ(all_positions(run_method(sequence, GetParam())), expected);
  at::set_num_threads(threads);
}

// What comes later cannot matter: the first chunks of a longer sequence.
TEST_P(Matrix, IsCausal) {
  const Sequence sequence = random_sequence({}, 11);
  Sequence other = sequence;
  const int from = sequence.chunks[2].begin;
  for (int head = 0; head < other.shape.num_kv_heads; ++head)
    for (int position = from; position < other.num_tokens(); ++position)
      const_cast<float*>(other.key(head, position))[0] += 3;
  const auto a = all_positions(run_method(sequence, GetParam()));
  const auto b = all_positions(run_method(other, GetParam()));
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
}

// All query heads of a group alike: the same as one head.
TEST_P(Matrix, AGroupOfEqualHeadsIsOneHead) {
  SequenceShape shape;
  shape.num_q_heads = 2;
  const Sequence single = random_sequence(shape, 12);
  Sequence grouped = single;
  grouped.shape.num_q_heads = 6;
  grouped.q.clear();
  for (int head = 0; head < 6; ++head)
    grouped.q.insert(grouped.q.end(), single.query(head / 3, 0),
                     single.query(head / 3, 0) + single.num_tokens() * shape.head_dim);
  EXPECT_EQ(all_positions(run_method(grouped, GetParam())),
            all_positions(run_method(single, GetParam())));
}

TEST_P(Matrix, KvHeadsDoNotKnowOfEachOther) {
  if (id() == "random") GTEST_SKIP() << "draws by the number of the head";
  const Sequence sequence = random_sequence({}, 13);
  Sequence swapped = sequence;
  std::rotate(swapped.q.begin(), swapped.q.begin() + swapped.q.size() / 2, swapped.q.end());
  std::rotate(swapped.k.begin(), swapped.k.begin() + swapped.k.size() / 2, swapped.k.end());
  auto expected = all_positions(run_method(sequence, GetParam()));
  for (auto& rows : expected) std::reverse(rows.begin(), rows.end());
  EXPECT_EQ(all_positions(run_method(swapped, GetParam())), expected);
}

TEST_P(Matrix, ZerosAreTiesAndTheOldestKeysStay) {
  Sequence sequence = random_sequence({}, 14);
  std::fill(sequence.q.begin(), sequence.q.end(), 0.0F);
  std::fill(sequence.k.begin(), sequence.k.end(), 0.0F);
  const MethodRun run = run_method(sequence, GetParam());
  expect_sound(sequence, spec(), run);
  if (evicts() || spec().scope() == BudgetScope::All) return;
  for (const char* scoring : {"quoka", "uniform_queries", "keydiff"}) {
    if (id() != scoring || run.cells[2].dense_reason) continue;
    for (const RowSelection& row : run.cells[2].rows) {
      EXPECT_EQ(row.positions.back(), 10);
      EXPECT_EQ(row.ties_at_cut, 32 - 11);
    }
  }
}

// Powers of two scale without rounding.
TEST_P(Matrix, ScalingQueriesLeavesCosinesAlone) {
  const std::set<std::string> invariant = {"quoka",  "uniform_queries", "keydiff",
                                           "random", "sliding_window",  "streaming_llm"};
  if (invariant.count(id()) == 0) GTEST_SKIP() << "scores by softmax";
  const Sequence sequence = random_sequence({}, 15);
  Sequence scaled = sequence;
  for (float& value : scaled.q) value *= 4;
  EXPECT_EQ(all_positions(run_method(scaled, GetParam())),
            all_positions(run_method(sequence, GetParam())));
  if (GetParam().find("metric=dot") != std::string::npos) return;
  scaled = sequence;
  for (int position = 0; position < scaled.num_tokens(); position += 3)
    for (int i = 0; i < scaled.shape.head_dim; ++i)
      const_cast<float*>(scaled.key(1, position))[i] *= 8;
  EXPECT_EQ(all_positions(run_method(scaled, GetParam())),
            all_positions(run_method(sequence, GetParam())));
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Matrix, ::testing::ValuesIn(variants("budget_tokens=11")), name_of);

}  // namespace
}  // namespace kvloupe::selection::testing
