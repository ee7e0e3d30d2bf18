// What one shot of eviction keeps, against the scores of NVIDIA kvpress for the same queries and
// keys (tests/tools/kvpress_goldens.py), for every budget: so the whole ranking is theirs.
#include "tests/selection/oracles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <numeric>

namespace kvloupe::selection::testing {
namespace {

nlohmann::json read_golden() {
  std::ifstream file(KVLOUPE_TEST_DATA_DIR "/goldens/kvpress_scores.json");
  EXPECT_TRUE(file);
  return nlohmann::json::parse(file);
}

// All tokens in one chunk.
Sequence sequence_of(const nlohmann::json& golden) {
  Sequence sequence = random_sequence({.num_q_heads = golden["num_q_heads"],
                                       .num_kv_heads = golden["num_kv_heads"],
                                       .head_dim = golden["head_dim"],
                                       .chunk_lengths = {golden["num_tokens"]},
                                       .decoded = 0},
                                      1);
  sequence.q = golden["q"].get<std::vector<float>>();
  sequence.k = golden["k"].get<std::vector<float>>();
  return sequence;
}

class Kvpress : public ::testing::TestWithParam<int> {};

TEST_P(Kvpress, RanksAsTheyDo) {
  const nlohmann::json golden = read_golden();
  const Sequence sequence = sequence_of(golden);
  const nlohmann::json& one = golden["cases"].at(static_cast<std::size_t>(GetParam()));
  const std::string spec = one["spec"];
  SCOPED_TRACE(spec);
  for (int budget = one["smallest_budget"]; budget < sequence.num_tokens(); ++budget) {
    const char* separator = spec.find(':') == std::string::npos ? ":" : ",";
    const MethodRun run =
        run_method(sequence, fmt::format("{}{}budget_tokens={}", spec, separator, budget));
    ASSERT_EQ(run.alive.size(), one["scores"].size());
    for (std::size_t head = 0; head < run.alive.size(); ++head) {
      Scores scores;
      scores.values = one["scores"][head].get<std::vector<double>>();
      scores.pool.resize(scores.values.size());
      std::iota(scores.pool.begin(), scores.pool.end(), 0);
      scores.probabilities = spec != "keydiff";
      EXPECT_EQ(defect(scores, run.alive[head], budget), "")
          << "budget " << budget << " head " << head;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presses, Kvpress, ::testing::Range(0, 4));

}  // namespace
}  // namespace kvloupe::selection::testing
