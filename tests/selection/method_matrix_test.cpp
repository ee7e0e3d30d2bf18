// Properties that every method has, for every parameter: sizes, causality, determinism, symmetry.
#include "tests/selection/sequences.h"
#include "tests/selection/variants.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace kvloupe::selection::testing {
namespace {

using Positions = std::vector<std::vector<std::int32_t>>;

class Matrix : public ::testing::TestWithParam<std::string> {
 protected:
  std::string id() const { return GetParam().substr(0, GetParam().find(':')); }
  MethodSpec spec() const { return MethodSpec::parse(GetParam()); }
  bool evicts() const { return spec().traits().evicts(); }
};

// All that a method decided, lanes included.
struct Answer {
  Positions positions;
  std::vector<float> lane_values;
  std::vector<std::int32_t> lanes;
  std::vector<std::int32_t> lane_counts;
  bool operator==(const Answer&) const = default;
};

template <typename T>
std::vector<T> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return std::vector<T>(flat.const_data_ptr<T>(), flat.const_data_ptr<T>() + flat.numel());
}

std::vector<Answer> answers_of(const MethodRun& run) {
  std::vector<Answer> answers;
  for (const CellSelection& cell : run.cells) {
    Answer answer{positions_of(cell), {}, {}, {}};
    if (cell.lanes) {
      answer.lane_values = values_of<float>(cell.lanes->queries.values);
      if (cell.lanes->queries.by_lane())
        answer.lanes = values_of<std::int32_t>(cell.lanes->queries.lanes);
    }
    answer.lane_counts = cell.lane_counts;
    answers.push_back(std::move(answer));
  }
  return answers;
}

// By default a layer that reuses the sets of another one, where the method does that.
Sequence plain_sequence(unsigned seed, SequenceShape shape = {}) {
  shape.layer = 5;
  return random_sequence(shape, seed);
}

// P takes the values 0, 1, B-1, B, B+1 and more, chunks the lengths 1 to 30, with B = 11.
SequenceShape edge_shape(int num_q_heads, int num_kv_heads, int layer = 5) {
  return {.num_q_heads = num_q_heads,
          .num_kv_heads = num_kv_heads,
          .head_dim = 8,
          .chunk_lengths = {1, 9, 1, 1, 1, 30, 7, 16},
          .layer = layer};
}

bool keeps_blocks(const MethodSpec& spec) {
  return spec.traits().granularity == trace::Granularity::Block;
}

bool scores_by_cosine(const MethodSpec& spec) {
  return std::set<std::string>{"quoka", "uniform_queries", "keydiff"}.count(spec.id()) != 0 &&
         !(spec.has("metric") && spec.text("metric") == "dot");
}

bool scores_by_logits(const MethodSpec& spec) {
  return std::set<std::string>{"sparq", "loki", "tidal_decode", "less_is_more", "quest"}.count(
             spec.id()) != 0;
}

// Of queries that are scaled alike; probabilities change.
bool ranks_alike_when_scaled(const MethodSpec& spec) {
  const bool by_rule_or_cosine = std::set<std::string>{"quoka",  "uniform_queries", "keydiff",
                                                       "random", "sliding_window",  "streaming_llm"}
                                     .count(spec.id()) != 0;
  return (by_rule_or_cosine || scores_by_logits(spec)) &&
         !(spec.has("agg") && spec.text("agg") == "prob_mean");
}

// Sizes that the mass decides, not the budget alone.
bool may_keep_less(const MethodSpec& spec) {
  return spec.has("mode") && spec.text("mode") == "coverage";
}

// Sizes that depend on where pages end: pages_test.cpp and the oracle know them.
bool keeps_pages(const MethodSpec& spec) {
  return spec.traits().granularity == trace::Granularity::Page;
}

void expect_sound_rows(const CellSelection& cell, std::int64_t candidates) {
  for (const SelectedRow& row : cell.rows) {
    EXPECT_TRUE(std::is_sorted(row.positions.begin(), row.positions.end()));
    EXPECT_EQ(std::set<std::int32_t>(row.positions.begin(), row.positions.end()).size(),
              row.positions.size());
    if (!row.positions.empty()) {
      EXPECT_GE(row.positions.front(), 0);
      EXPECT_LT(row.positions.back(), candidates);
    }
    EXPECT_TRUE(std::includes(row.positions.begin(), row.positions.end(), row.forced.begin(),
                              row.forced.end()));
  }
}

void expect_sound(const Sequence& sequence, const MethodSpec& spec, const MethodRun& run) {
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    SCOPED_TRACE(fmt::format("chunk {}", c));
    const CellSelection& cell = run.cells[c];
    const trace::ChunkInfo& span = sequence.chunks[c];
    const std::int64_t candidates = spec.scope() == BudgetScope::All ? span.end() : span.begin;
    expect_sound_rows(cell, candidates);
    if (span.begin == 0) {
      EXPECT_EQ(cell.dense_reason, DenseReason::EmptyPast);
    }
    if (!spec.has_budget()) {
      EXPECT_EQ(cell.dense_fallback(), span.begin == 0);
      continue;
    }
    const std::int64_t budget = spec.budget(span.begin);
    EXPECT_EQ(cell.budget_tokens, budget);
    const bool fits = candidates <= budget && !keeps_blocks(spec);
    EXPECT_EQ(cell.dense_fallback(), span.begin == 0 || fits);
    if (span.begin > 0 && fits) {
      EXPECT_EQ(cell.dense_reason, DenseReason::FitsBudget);
    }
    const bool grows = spec.traits().evicts() && span.phase == trace::Phase::Decode &&
                       !spec.traits().acts_in_decode;
    for (const SelectedRow& row : cell.rows) {
      const auto size = static_cast<std::int64_t>(row.positions.size());
      if (cell.dense_reason) {
        EXPECT_EQ(size, candidates);
      } else if (keeps_blocks(spec)) {
        // Whole blocks, and what straddles the chunk's begin outside the budget.
        const std::int64_t block_size = spec.integer("block_size");
        EXPECT_EQ(size, std::min(budget / block_size, span.begin / block_size) * block_size +
                            span.begin % block_size);
      } else if (may_keep_less(spec)) {
        EXPECT_GE(size, 1);
        EXPECT_LE(size, budget);
      } else if (!grows && !keeps_pages(spec)) {
        EXPECT_EQ(size, budget);
      }
    }
  }
}

TEST_P(Matrix, SelectsSortedUniqueKeysWithinTheBudget) {
  // Layers: that choose, that reuse, of the dense ones.
  for (const auto& [q_heads, kv_heads, layer] :
       std::vector<std::array<int, 3>>{{4, 4, 2}, {4, 2, 5}, {8, 1, 3}, {4, 2, 1}}) {
    const Sequence sequence = random_sequence(edge_shape(q_heads, kv_heads, layer), 7);
    expect_sound(sequence, spec(), run_method(sequence, GetParam()));
  }
}

// Block methods fall back without a past only.
class MatrixOfBudgets : public Matrix {};
TEST_P(MatrixOfBudgets, ABudgetThatHoldsAllIsDense) {
  const Sequence sequence = random_sequence(edge_shape(4, 2), 8);
  const MethodRun run = run_method(
      sequence, GetParam().substr(0, GetParam().find("budget_tokens=11")) + "budget_tokens=100000" +
                    GetParam().substr(GetParam().find("=11") + 3));
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    EXPECT_TRUE(run.cells[c].dense_fallback());
    for (const SelectedRow& row : run.cells[c].rows)
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
  const Sequence sequence = plain_sequence(10);
  const auto expected = answers_of(run_method(sequence, GetParam()));
  EXPECT_TRUE(answers_of(run_method(sequence, GetParam(), 13)) == expected);
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  EXPECT_TRUE(answers_of(run_method(sequence, GetParam())) == expected);
  at::set_num_threads(threads);
}

// What comes later cannot matter: the first chunks of a longer sequence.
TEST_P(Matrix, IsCausal) {
  const Sequence sequence = plain_sequence(11);
  Sequence other = sequence;
  const int from = sequence.chunks[2].begin;
  for (int head = 0; head < other.shape.num_kv_heads; ++head)
    for (int position = from; position < other.num_tokens(); ++position)
      const_cast<float*>(other.key(head, position))[0] += 3;
  const auto a = answers_of(run_method(sequence, GetParam()));
  const auto b = answers_of(run_method(other, GetParam()));
  EXPECT_TRUE(a[0] == b[0]);
  EXPECT_TRUE(a[1] == b[1]);
}

// All query heads of a group alike: the same as one head.
TEST_P(Matrix, AGroupOfEqualHeadsIsOneHead) {
  SequenceShape shape = {.num_q_heads = 2};
  const Sequence single = plain_sequence(12, shape);
  Sequence grouped = single;
  grouped.shape.num_q_heads = 6;
  grouped.q.clear();
  for (int head = 0; head < 6; ++head)
    grouped.q.insert(grouped.q.end(), single.query(head / 3, 0),
                     single.query(head / 3, 0) + single.num_tokens() * shape.head_dim);
  const auto got = positions_of(run_method(grouped, GetParam()));
  const auto expected = positions_of(run_method(single, GetParam()));
  for (std::size_t chunk = 0; chunk < expected.size(); ++chunk) {
    // Methods whose rows are query heads have one row for each of the equal ones.
    const std::size_t times = got[chunk].size() / expected[chunk].size();
    for (std::size_t row = 0; row < got[chunk].size(); ++row)
      EXPECT_EQ(got[chunk][row], expected[chunk][row / times]);
  }
}

// `random` draws by the number of the head, `less_is_more` hears the heads in their order.
class MatrixOfHeads : public Matrix {};
TEST_P(MatrixOfHeads, KvHeadsDoNotKnowOfEachOther) {
  const Sequence sequence = plain_sequence(13);
  Sequence swapped = sequence;
  std::rotate(swapped.q.begin(), swapped.q.begin() + swapped.q.size() / 2, swapped.q.end());
  std::rotate(swapped.k.begin(), swapped.k.begin() + swapped.k.size() / 2, swapped.k.end());
  auto& vectors = swapped.basis.layers.at(swapped.shape.layer).vectors;
  std::rotate(vectors.begin(), vectors.begin() + vectors.size() / 2, vectors.end());
  auto expected = positions_of(run_method(sequence, GetParam()));
  for (auto& rows : expected) std::rotate(rows.begin(), rows.begin() + rows.size() / 2, rows.end());
  EXPECT_EQ(positions_of(run_method(swapped, GetParam())), expected);
}

TEST_P(Matrix, ZerosAreTiesAndTheOldestKeysStay) {
  Sequence sequence = plain_sequence(14);
  std::fill(sequence.q.begin(), sequence.q.end(), 0.0F);
  std::fill(sequence.k.begin(), sequence.k.end(), 0.0F);
  const MethodRun run = run_method(sequence, GetParam());
  expect_sound(sequence, spec(), run);
  if (evicts() || spec().scope() == BudgetScope::All) return;
  // Not those by probabilities: rows of a chunk that see more keys give each of them less.
  for (const char* scoring : {"quoka", "uniform_queries", "keydiff", "sparq", "loki"}) {
    if (id() != scoring || run.cells[2].dense_reason) continue;
    if (spec().has("agg") && spec().text("agg") == "prob_mean") continue;
    for (const SelectedRow& row : run.cells[2].rows) {
      EXPECT_EQ(row.positions.back(), 10);
      EXPECT_EQ(row.ties_at_cut, 32 - 11);
    }
  }
}

// Numbers at which squares and products of fp32 come close to its end.
TEST_P(Matrix, HugeValuesAreNoTrouble) {
  Sequence sequence = plain_sequence(16);
  for (float& value : sequence.q) value = std::clamp(value, -1.0F, 1.0F) * 1e18F;
  for (float& value : sequence.k) value = std::clamp(value, -1.0F, 1.0F) * 1e18F;
  expect_sound(sequence, spec(), run_method(sequence, GetParam()));
}

// Keys whose squared length is beyond fp32: a cosine does not know how long they are.
class MatrixOfCosines : public Matrix {};
TEST_P(MatrixOfCosines, TheLengthOfHugeKeysLeavesThemAlone) {
  const Sequence sequence = plain_sequence(17);
  Sequence huge = sequence;
  for (float& value : huge.k) value *= 0x1p100F;
  EXPECT_EQ(positions_of(run_method(huge, GetParam())),
            positions_of(run_method(sequence, GetParam())));
}

// Powers of two scale without rounding.
class MatrixOfLogits : public Matrix {};
TEST_P(MatrixOfLogits, ScalingQueriesLeavesThemAlone) {
  const Sequence sequence = plain_sequence(15);
  Sequence scaled = sequence;
  for (float& value : scaled.q) value *= 4;
  EXPECT_EQ(positions_of(run_method(scaled, GetParam())),
            positions_of(run_method(sequence, GetParam())));
  if (scores_by_logits(spec()) || GetParam().find("metric=dot") != std::string::npos) return;
  scaled = sequence;
  for (int position = 0; position < scaled.num_tokens(); position += 3)
    for (int i = 0; i < scaled.shape.head_dim; ++i)
      const_cast<float*>(scaled.key(1, position))[i] *= 8;
  EXPECT_EQ(positions_of(run_method(scaled, GetParam())),
            positions_of(run_method(sequence, GetParam())));
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

const std::string kBudget = "budget_tokens=11";

// All variants, those without a budget too, of which it holds.
std::vector<std::string> variants_that(bool (*holds)(const MethodSpec&)) {
  std::vector<std::string> chosen = variants(kBudget);
  for (const std::string& text : variants_without_budget()) chosen.push_back(text);
  std::erase_if(chosen, [&](const std::string& text) { return !holds(MethodSpec::parse(text)); });
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(All, Matrix, ::testing::ValuesIn(variants(kBudget)), name_of);
INSTANTIATE_TEST_SUITE_P(WithoutBudget, Matrix, ::testing::ValuesIn(variants_without_budget()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, MatrixOfBudgets,
                         ::testing::ValuesIn(variants_that([](const MethodSpec& spec) {
                           return spec.has_budget() && !keeps_blocks(spec);
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, MatrixOfHeads,
                         ::testing::ValuesIn(variants_that([](const MethodSpec& spec) {
                           return spec.id() != "random" && spec.id() != "less_is_more";
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, MatrixOfCosines, ::testing::ValuesIn(variants_that(scores_by_cosine)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, MatrixOfLogits,
                         ::testing::ValuesIn(variants_that(ranks_alike_when_scaled)), name_of);

}  // namespace
}  // namespace kvloupe::selection::testing
