// Every method and parameter against the slow loops of oracles.h, chunk by chunk. An eviction is
// judged step by step from the set that the method itself had, so that a near tie at one step does
// not excuse the next.
#include "tests/selection/oracles.h"
#include "tests/selection/variants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace kvloupe::selection::testing {
namespace {

class AgainstOracle : public ::testing::TestWithParam<std::string> {};

const std::vector<SequenceShape>& shapes() {
  static const std::vector<SequenceShape> all = [] {
    SequenceShape grouped;  // ragged last chunk, two decoded tokens
    grouped.layer = 2;
    SequenceShape single = grouped;
    single.num_kv_heads = 4;
    single.layer = 5;
    single.head_dim = 8;
    single.chunk_lengths = {40, 1, 23, 3};
    SequenceShape wide = grouped;  // three heads a group, a head_dim that fills no vector
    wide.num_q_heads = 6;
    wide.head_dim = 20;
    wide.chunk_lengths = {7, 30, 30};
    wide.layer = 3;
    return std::vector<SequenceShape>{grouped, single, wide};
  }();
  return all;
}

// Whether the best `size` are the fewest, of at most `budget`, that hold the coverage.
bool is_covering_size(std::vector<double> scores, std::int64_t size, double coverage,
                      std::int64_t budget) {
  if (size < 1 || size > budget) return false;
  std::sort(scores.rbegin(), scores.rend());
  double total = 0;
  for (const double score : scores) total += score;
  const double before = std::accumulate(scores.begin(), scores.begin() + size - 1, 0.0);
  const double held = before + scores[static_cast<std::size_t>(size - 1)];
  const double near = 1e-5 * total;
  return before < coverage * total + near && (size == budget || held >= coverage * total - near);
}

void check_visibility(const Sequence& sequence, const MethodSpec& spec, const MethodRun& run) {
  for (std::size_t chunk = 0; chunk < sequence.chunks.size(); ++chunk) {
    const CellSelection& cell = run.cells[chunk];
    if (cell.dense_reason) continue;
    const trace::ChunkInfo& span = sequence.chunks[chunk];
    const int candidates = spec.scope() == BudgetScope::All ? span.end() : span.begin;
    for (std::size_t head = 0; head < cell.rows.size(); ++head) {
      const Scores scores = visibility_scores(sequence, spec, static_cast<int>(chunk),
                                              static_cast<int>(head), candidates);
      const auto& selected = cell.rows[head].positions;
      std::int64_t budget = spec.budget(span.begin);
      if (spec.has("mode") && spec.text("mode") == "coverage") {
        EXPECT_TRUE(is_covering_size(scores.values, static_cast<std::int64_t>(selected.size()),
                                     spec.real("coverage"), budget));
        budget = static_cast<std::int64_t>(selected.size());
      }
      EXPECT_EQ(defect(scores, selected, budget), "") << "chunk " << chunk << " head " << head;
    }
  }
}

void check_pages(const Sequence& sequence, const MethodSpec& spec, const MethodRun& run) {
  for (std::size_t chunk = 0; chunk < sequence.chunks.size(); ++chunk) {
    const CellSelection& cell = run.cells[chunk];
    if (cell.dense_reason) continue;
    for (std::size_t row = 0; row < cell.rows.size(); ++row)
      EXPECT_EQ(page_defect(sequence, spec, static_cast<int>(chunk), static_cast<int>(row),
                            cell.rows[row]),
                "")
          << "chunk " << chunk << " row " << row;
  }
}

// The contract's paragraph on decoding: what evicts at each step, and in prefill only.
const std::map<std::string, bool>& evicts_in_decode() {
  static const std::map<std::string, bool> table = {
      {"h2o", true},     {"tova", true},     {"streaming_llm", true},
      {"snapkv", false}, {"keydiff", false}, {"infinipot", false},
  };
  return table;
}

TEST(Decode, EvictsAsTheContractSays) {
  for (const auto& [id, evicts] : evicts_in_decode()) {
    ASSERT_NE(find_method(id), nullptr) << id;
    EXPECT_EQ(find_method(id)->active_in_decode, evicts) << id;
  }
}

void check_eviction(const Sequence& sequence, const MethodSpec& spec, const MethodRun& run) {
  for (std::size_t head = 0; head < run.alive.size(); ++head) {
    History alive;
    for (const CellSelection& cell : run.cells) alive.push_back(cell.rows[head].positions);
    for (std::size_t chunk = 0; chunk < sequence.chunks.size(); ++chunk) {
      const trace::ChunkInfo& span = sequence.chunks[chunk];
      const auto& after = chunk + 1 < run.cells.size() ? run.cells[chunk + 1].rows[head].positions
                                                       : run.alive[head];
      const bool waits = spec.has("start") && spec.text("start") == "decode";
      const bool rests =
          span.phase == trace::Phase::Decode ? !evicts_in_decode().at(spec.id()) : waits;
      const std::int64_t budget = rests ? 1 << 20 : spec.budget(span.end());
      EXPECT_EQ(defect(eviction_scores(sequence, spec, static_cast<int>(chunk),
                                       static_cast<int>(head), alive, budget),
                       after, budget),
                "")
          << "chunk " << chunk << " head " << head;
    }
  }
}

void check(const Sequence& sequence, const std::string& text) {
  const MethodSpec spec = MethodSpec::parse(text).resolved(sequence.model());
  const MethodRun run = run_method(sequence, text);
  if (spec.traits().evicts())
    check_eviction(sequence, spec, run);
  else if (spec.traits().granularity == trace::Granularity::Page)
    check_pages(sequence, spec, run);
  else
    check_visibility(sequence, spec, run);
}

TEST_P(AgainstOracle, ChoosesTheSameKeys) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    SCOPED_TRACE(i);
    check(random_sequence(shapes()[i], 100 + static_cast<unsigned>(i)), GetParam());
  }
}

// Kernels work through keys by tiles and blocks of some hundred.
TEST(ManyKeys, TilesHaveNoSeams) {
  const Sequence sequence =
      random_sequence({.head_dim = 8, .chunk_lengths = {1100, 150}, .decoded = 1, .layer = 5}, 110);
  for (const char* spec :
       {"quoka:budget_tokens=300", "quoka:budget_tokens=300,group_query_mode=post_agg",
        "uniform_queries:budget_tokens=300,num_queries=20,budget_scope=all",
        "sample_attention:budget_tokens=300", "sparq:budget_tokens=300",
        "tidal_decode:budget_tokens=300,sel_layers=set,first_layer=5", "oracle:budget_tokens=300",
        "snapkv:budget_tokens=300", "snapkv:budget_tokens=300,state=select",
        "keydiff:budget_tokens=300", "keydiff:budget_tokens=300,state=select",
        "h2o:budget_tokens=300", "tova:budget_tokens=300"}) {
    SCOPED_TRACE(spec);
    check(sequence, spec);
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

// Others choose not by scores of keys: methods_test.cpp, cross_layer_test.cpp and
// block_methods_test.cpp hold them to their own loops.
std::vector<std::string> scored_variants(const std::string& budget) {
  std::vector<std::string> scored = variants(budget);
  std::erase_if(scored, [](const std::string& text) {
    const MethodSpec spec = MethodSpec::parse(text);
    return spec.id() == "random" || spec.id() == "less_is_more" ||
           spec.traits().granularity == trace::Granularity::Block;
  });
  return scored;
}

INSTANTIATE_TEST_SUITE_P(Tokens, AgainstOracle,
                         ::testing::ValuesIn(scored_variants("budget_tokens=11")), name_of);
INSTANTIATE_TEST_SUITE_P(Ratio, AgainstOracle,
                         ::testing::ValuesIn(scored_variants("budget_ratio=0.3")), name_of);

}  // namespace
}  // namespace kvloupe::selection::testing
