// `compare --sweep`, `--target` and `--scope` as a user meets them: the form of the rows, the CSV's
// columns, notes and exit codes.
#include "tests/base/matchers.h"
#include "tests/cli/cli_test.h"

#include <sstream>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

ProgramResult compare(std::vector<std::string> more) {
  more.insert(more.begin(), {"compare", kTrace});
  return run_program(more);
}

TEST(CompareSweep, RowsCarryTheirValuesAndEqualThoseOfTheMethodAlone) {
  const ProgramResult run = compare({"--method", "quoka:num_queries=4", "--method", "dense",
                                     "--sweep", "budget_tokens=8..32", "--cells", "own", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  EXPECT_THAT(run.standard_error, HasSubstr("one row each: dense"));
  std::vector<int> budgets;
  const json rows = json::parse(run.standard_output)["rows"];
  for (const json& row : rows) {
    if (row["method"] == "dense") {
      EXPECT_EQ(row["sweep"], json::object());
      continue;
    }
    if (row["scope"] != "all" || row["phase"] != "prefill") continue;
    const int budget = row["sweep"]["budget_tokens"];
    budgets.push_back(budget);
    json alone =
        answer_of({"compare", kTrace, "--json", "--method",
                   "quoka:num_queries=4,budget_tokens=" + std::to_string(budget)})["rows"][0];
    EXPECT_FALSE(alone.contains("sweep"));
    EXPECT_FALSE(alone.contains("solved"));
    alone["sweep"] = row["sweep"];
    EXPECT_EQ(row, alone);
  }
  EXPECT_EQ(budgets, (std::vector<int>{8, 16, 32}));
}

TEST(CompareSweep, TheTargetNamesTheSmallestValueOfEachPlace) {
  const json rows = answer_of({"compare", kTrace, "--method", "oracle", "--method", "random",
                               "--sweep", "budget_tokens=48,8,16,32", "--target", "mass_recall=0.8",
                               "--scope", "layer,kv_head", "--json"})["rows"];
  const auto same_place = [](const json& a, const json& b) {
    return a["method"].get<std::string>()[0] == b["method"].get<std::string>()[0] &&
           a["phase"] == b["phase"] && a["scope"] == b["scope"] && a["index"] == b["index"];
  };
  int solved = 0, unsolved = 0, grid = 0;
  for (const json& row : rows) {
    json smallest = nullptr;
    for (const json& other : rows)
      if (same_place(row, other) && !other["mass_recall"].is_null() &&
          other["mass_recall"] >= 0.8 &&
          (smallest.is_null() || other["sweep"]["budget_tokens"] < smallest))
        smallest = other["sweep"]["budget_tokens"];
    EXPECT_EQ(row["solved"], (json{{"budget_tokens", smallest}})) << row;
    ++(smallest.is_null() ? unsolved : solved);
    if (row["scope"] == "layer,kv_head") {
      ++grid;
      EXPECT_EQ(row["index"].size(), 2U);
    }
  }
  EXPECT_GT(solved, 0);
  EXPECT_GT(unsolved, 0);
  EXPECT_EQ(grid, 2 * 4 * 2 * 2 * 2);  // methods, budgets, layers, KV heads, phases
}

TEST(CompareSweep, CsvHasAColumnForEachName) {
  const ProgramResult run = compare({"--method", "quoka", "--method", "keydiff", "--sweep",
                                     "budget_tokens=8,16", "--sweep", "num_queries=2,4", "--target",
                                     "density=0.5", "--scope", "layer,chunk", "--csv", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  std::istringstream lines(run.standard_output);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, EndsWith("recall_at_64,budget_tokens,num_queries,solved_budget_tokens,"
                             "solved_num_queries"));
  int keydiff = 0, grid = 0;
  while (std::getline(lines, line)) {
    grid += line.find(",prefill,\"layer,chunk\",\"") != std::string::npos;
    if (line.find("keydiff") == std::string::npos || line.find(",all,0,") == std::string::npos)
      continue;
    ++keydiff;
    EXPECT_THAT(line, ::testing::ContainsRegex(",(8|16),,[0-9]*,$"));
  }
  EXPECT_EQ(keydiff, 2 * 2);  // budgets, phases
  EXPECT_GT(grid, 0);
}

TEST(CompareSweep, ChunkSizesCutThePromptAnew) {
  const json rows = answer_of({"compare", kTrace, "--method", "oracle:budget_tokens=8", "--sweep",
                               "chunk_size=20,50", "--json"})["rows"];
  for (const int size : {20, 50}) {
    const json alone = answer_of({"compare", kTrace, "--method", "oracle:budget_tokens=8",
                                  "--chunk-size", std::to_string(size), "--json"})["rows"][0];
    for (const json& row : rows)
      if (row["sweep"]["chunk_size"] == size && row["scope"] == "all" &&
          row["phase"] == "prefill") {
        EXPECT_EQ(row["visible_recall"], alone["visible_recall"]);
        EXPECT_EQ(row["cells"], alone["cells"]);
      }
  }
}

TEST(CompareSweep, DecodeRowsHaveRecallAtFixedK) {
  int decode = 0;
  const json rows =
      answer_of({"compare", kTrace, "--method", "oracle:budget_tokens=10", "--json"})["rows"];
  for (const json& row : rows) {
    EXPECT_EQ(row.contains("recall_at_k"), row["phase"] == "decode");
    if (row["phase"] != "decode") continue;
    ++decode;
    EXPECT_EQ(row["recall_at_k"]["1"], 1.0);
    EXPECT_EQ(row["recall_at_k"]["10"], 1.0);
    EXPECT_DOUBLE_EQ(row["recall_at_k"]["64"].get<double>(), 10.0 / 64);
  }
  EXPECT_GT(decode, 0);
}

// Chunks are named as the prompt is cut, decode steps behind it too.
TEST(CompareSweep, ChunksAreThoseOfTheCut) {
  const ProgramResult absent = compare(
      {"--method", "oracle:budget_tokens=24", "--chunk-size", "16", "--scope-chunks", "900"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.last_error_line(), HasSubstr("chunk 900 is not in this trace"));
  // Ten chunks of the prompt, of 149 tokens, then three steps of one token.
  const ProgramResult from =
      compare({"--method", "oracle:budget_tokens=24", "--chunk-size", "16", "--from", "151"});
  EXPECT_EQ(from.exit_code, 0) << from.standard_error;
  EXPECT_THAT(from.standard_output, HasSubstr("(chunk 12)"));
}

TEST(CompareSweep, WrongArgumentsAreUsageErrors) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--sweep", "nonesuch=1,2"},
      {"--sweep", "metric=1,2"},
      {"--sweep", "num_queries"},
      {"--sweep", "num_queries=0..4"},
      {"--sweep", "num_queries=99999999"},
      {"--sweep", "budget_ratio=0.5,2"},
      {"--sweep", "num_queries=2", "--sweep", "num_queries=4"},
      {"--sweep", "chunk_size=16", "--chunk-size", "16"},
      {"--sweep", "chunk_size=16,32", "--scope-chunks", "1"},
      {"--target", "mass_recall=0.9"},
      {"--sweep", "num_queries=2", "--target", "cells=4"},
      {"--sweep", "num_queries=2", "--target", "span_kept=1"},
      {"--scope", "head"},
  };
  for (std::vector<std::string> more : wrong) {
    more.insert(more.begin(), {"--method", "quoka"});
    const ProgramResult run = compare(more);
    EXPECT_EQ(run.exit_code, 2) << more[3];
    EXPECT_EQ(run.standard_output, "");
    EXPECT_THAT(run.last_error_line(), StartsWith("error: "));
  }
}

}  // namespace
}  // namespace kvloupe
