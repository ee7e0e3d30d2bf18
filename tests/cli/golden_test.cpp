// Runs `kvloupe select --json` and `compare --json` on traces made by h5py and holds every cell
// against what tests/tools/selection_oracle computed: plain fp64 loops in Python, no code in
// common.
#include "tests/cli/run_program.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using nlohmann::json;

json read_json(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file);
}

std::set<int> as_set(const json& positions) {
  return std::set<int>(positions.begin(), positions.end());
}

// Positions in one set but not the other, those in `near_ties` left out.
std::vector<int> difference(const json& expected, const json& actual, const json& near_ties) {
  const std::set<int> a = as_set(expected), b = as_set(actual), near = as_set(near_ties);
  std::vector<int> odd, real;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(odd));
  for (int position : odd)
    if (!near.count(position)) real.push_back(position);
  return real;
}

void expect_row(const json& expected, const json& actual, bool dense) {
  EXPECT_EQ(difference(expected["selected"], actual["selected"], expected["near_ties"]),
            std::vector<int>{});
  if (!dense) {
    EXPECT_EQ(expected["forced"], actual["forced"]);
  }
  if (expected["selected"] != actual["selected"]) return;  // a near tie: the metrics may differ too
  EXPECT_NEAR(expected["mass_recall"], actual["mass_recall"], 1e-4);
  EXPECT_NEAR(expected["topk_overlap"], actual["topk_overlap"], 1e-6);
}

void expect_layer(const json& expected, const json& actual) {
  ASSERT_EQ(expected["layer"], actual["layer"]);
  ASSERT_EQ(expected["chunks"].size(), actual["chunks"].size());
  for (std::size_t c = 0; c < expected["chunks"].size(); ++c) {
    const json& want = expected["chunks"][c];
    const json& have = actual["chunks"][c];
    SCOPED_TRACE("layer " + expected["layer"].dump() + " chunk " + want["chunk"].dump());
    EXPECT_EQ(want["dense_fallback"], have["dense_fallback"]);
    EXPECT_EQ(want["dense_reason"], have["dense_reason"]);
    const char* axis = have.contains("q_heads")     ? "q_heads"
                       : have.contains("subgroups") ? "subgroups"
                                                    : "kv_heads";
    const json& rows = have[axis];
    ASSERT_EQ(want["rows"].size(), rows.size());
    for (std::size_t r = 0; r < want["rows"].size(); ++r) {
      SCOPED_TRACE("row " + std::to_string(r));
      expect_row(want["rows"][r], rows[r], !want["dense_reason"].is_null());
    }
  }
  if (expected["final_alive"].is_null()) {
    EXPECT_FALSE(actual.contains("final_alive"));
    return;
  }
  ASSERT_EQ(expected["final_alive"].size(), actual["final_alive"].size());
  for (std::size_t r = 0; r < expected["final_alive"].size(); ++r)
    EXPECT_EQ(expected["final_alive"][r], actual["final_alive"][r]["positions"]);
}

class Goldens : public ::testing::TestWithParam<const char*> {
 protected:
  std::string base() const { return std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/" + GetParam(); }
  // "gate=@gate.safetensors" names the golden's own file.
  std::string with_files(std::string spec) const {
    const std::size_t at = spec.find("=@");
    return at == std::string::npos ? spec : spec.replace(at + 1, 1, base() + "_");
  }
};

TEST_P(Goldens, EveryCellAgreesWithTheOracle) {
  const json answers = read_json(base() + ".json");
  for (const auto& [spec, layers] : answers.items()) {
    SCOPED_TRACE(spec);
    const auto result =
        test::run_program({"select", base() + ".h5", "--method", with_files(spec), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const json answer = json::parse(result.standard_output);
    ASSERT_EQ(layers.size(), answer["layers"].size());
    for (std::size_t l = 0; l < layers.size(); ++l) expect_layer(layers[l], answer["layers"][l]);
  }
}

// Lanes of one query head. Rows whose lanes hang on a hair are `close`.
void expect_lanes(const json& expected, const json& actual) {
  const int close = expected["close"];
  const auto& want = expected["counts"];
  const auto& have = actual["counts"];
  ASSERT_EQ(want.size(), have.size());
  int odd = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    odd += std::abs(want[i].get<int>() - have[i].get<int>());
  EXPECT_LE(odd, 2 * close);
  for (const char* error : {"score_error", "output_error"})
    EXPECT_NEAR(expected[error], actual[error], 1e-4 * (1 + close)) << error;
}

TEST_P(Goldens, LanesAgreeWithTheOracle) {
  const json answers = read_json(base() + "_lanes.json");
  ASSERT_FALSE(answers.empty());
  for (const auto& [spec, layers] : answers.items()) {
    const auto result = test::run_program({"select", base() + ".h5", "--method", spec, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const json answer = json::parse(result.standard_output);
    ASSERT_EQ(layers.size(), answer["layers"].size());
    for (const json& layer : answer["layers"]) {
      const json& want = layers[layer["layer"].dump()];
      ASSERT_EQ(want["chunks"].size(), layer["chunks"].size());
      for (std::size_t c = 0; c < want["chunks"].size(); ++c) {
        SCOPED_TRACE(spec + " layer " + layer["layer"].dump() + " chunk " + std::to_string(c));
        const json& cell = want["chunks"][c];
        EXPECT_EQ(cell["reason"], layer["chunks"][c]["dense_reason"]);
        ASSERT_EQ(cell["heads"].size(), layer["chunks"][c]["lanes"].size());
        for (std::size_t head = 0; head < cell["heads"].size(); ++head)
          expect_lanes(cell["heads"][head], layer["chunks"][c]["lanes"][head]);
        if (want["final_alive"].is_null() || !cell["reason"].is_null()) continue;
        for (std::size_t row = 0; row < cell["alive"].size(); ++row)
          EXPECT_EQ(difference(cell["alive"][row], layer["chunks"][c]["kv_heads"][row]["selected"],
                               cell["near"][row]),
                    std::vector<int>{});
      }
      ASSERT_EQ(want["final_alive"].is_null(), !layer.contains("final_alive"));
      if (want["final_alive"].is_null()) continue;
      for (std::size_t row = 0; row < want["final_alive"].size(); ++row)
        EXPECT_EQ(difference(want["final_alive"][row], layer["final_alive"][row]["positions"],
                             want["chunks"].back()["near"][row]),
                  std::vector<int>{});
    }
  }
}

// The means of `compare`, rebuilt from the oracle's cells: prefill cells without a dense reason.
TEST_P(Goldens, CompareAveragesTheOraclesCells) {
  const json answers = read_json(base() + ".json");
  for (const char* spec :
       {"quoka:budget_tokens=24,num_queries=4", "keydiff:budget_tokens=24",
        "oracle:budget_tokens=24", "quoka:budget_tokens=24,num_queries=4,budget_scope=all"}) {
    SCOPED_TRACE(spec);
    double recall = 0, error = 0;
    int rows = 0, heads = 0;
    for (const json& layer : answers[spec])
      for (const json& chunk : layer["chunks"]) {
        const bool decode =
            chunk["chunk"].get<int>() >= (std::string(GetParam()) == "group3_f16" ? 5 : 3);
        if (!chunk["dense_reason"].is_null() || decode) continue;
        for (const json& row : chunk["rows"]) recall += row["mass_recall"].get<double>(), ++rows;
        for (const json& e : chunk["output_error"]) error += e.get<double>(), ++heads;
      }
    const auto result =
        test::run_program({"compare", base() + ".h5", "--method", with_files(spec), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const json answer = json::parse(result.standard_output);
    int found = 0;
    for (const json& row : answer["rows"]) {
      if (row["scope"] != "all" || (row.contains("phase") && row["phase"] == "decode")) continue;
      ++found;
      EXPECT_EQ(row["cells"], rows);
      EXPECT_NEAR(row["mass_recall"], recall / rows, 1e-4);
      EXPECT_NEAR(row["output_error"], error / heads, 1e-4);
    }
    EXPECT_EQ(found, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, Goldens, ::testing::Values("group3_f16", "group1_f32"));

}  // namespace
}  // namespace kvloupe
