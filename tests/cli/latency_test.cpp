// What `latency` prints, and what it refuses. No time is looked at.
#include "tests/cli/cli_test.h"

#include <string>
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

std::vector<std::string> latency(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"latency", kTrace, "--repetitions", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Latency, HasTheContractsFields) {
  const json answer =
      answer_of(latency({"--method", "oracle:budget_tokens=24", "--method", "aqua:basis=self",
                         "--method", "dense", "--layer", "3", "--chunk", "3", "--json"}));
  EXPECT_EQ(answer["device"], "cpu");
  EXPECT_EQ(answer["dtype"], "fp32");
  EXPECT_GE(answer["threads"], 1);
  ASSERT_EQ(answer["rows"].size(), 3U);
  for (const json& row : answer["rows"]) {
    EXPECT_EQ(row["layer"], 3);
    EXPECT_EQ(row["chunk"], 3);
    EXPECT_EQ(row["phase"], "prefill");
    for (const char* key : {"past", "chunk_len", "dense_ms", "total_ms", "q25_ms", "q75_ms",
                            "floor_ms", "samples", "discarded"})
      EXPECT_TRUE(row[key].is_number()) << key;
    for (const char* part : {"select", "gather", "attend"})
      EXPECT_TRUE(row["parts"][part].is_number()) << part;
    EXPECT_TRUE(row["dense_variant"].is_string());
    EXPECT_EQ(row["dense_left_out"], json::array());
  }
  for (int row : {0, 1}) {
    EXPECT_EQ(answer["rows"][row]["kind"], "executed");
    EXPECT_TRUE(answer["rows"][row]["speedup"].is_number());
    EXPECT_TRUE(answer["rows"][row]["dense_reason"].is_null());
  }
  EXPECT_EQ(answer["rows"][2]["dense_reason"], "method_rule");
}

TEST(Latency, NativeMasksAreExecuted) {
  const json row = answer_of(
      latency({"--method", "flash_prefill:block_size=8,sink_blocks=0,alpha=0.5,lowering=native",
               "--layer", "3", "--chunk", "3", "--json"}))["rows"][0];
  EXPECT_EQ(row["kind"], "executed");
  EXPECT_TRUE(row["dense_reason"].is_null());
  EXPECT_TRUE(row["speedup"].is_number());
  for (const char* part : {"select", "gather", "attend"}) EXPECT_GE(row["parts"][part], 0.0);
}

TEST(Latency, AfterOtherLengthsOfThePast) {
  const json rows = answer_of(
      latency({"--method", "quoka:budget_tokens=24", "--lengths", "30,1k,4096", "--json"}))["rows"];
  std::vector<int> past;
  for (const json& row : rows) {
    past.push_back(row["past"]);
    EXPECT_EQ(row["lengthened"], true);
  }
  EXPECT_EQ(past, (std::vector<int>{30, 1024, 4096}));
}

TEST(Latency, TheTextSaysWhatIsDenseAndWhatPays) {
  const auto result = run_program(
      latency({"--method", "dense", "--method", "aqua:basis=self", "--lengths", "64,128"}));
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, HasSubstr("dense here"));
  EXPECT_THAT(result.standard_output, HasSubstr("faster than dense attention"));
  EXPECT_THAT(result.standard_output, HasSubstr("cut or repeated"));
}

TEST(Latency, WhatIsWrongIsOneSentence) {
  const std::pair<std::vector<std::string>, int> wrong[] = {
      {{"--lengths", "0"}, 2},  {{"--lengths", "1k,"}, 2},
      {{"--lengths", "1G"}, 2}, {{"--lengths", "2M"}, 2},
      {{"--device", "tpu"}, 2}, {{"--repetitions", "0"}, 2},
      {{"--layer", "99"}, 1},   {{"--chunk", "99"}, 1},
      {{"--layer", "x"}, 2},    {{"--chunk", "0", "--lengths", "64"}, 1},
  };
  for (const auto& [words, exit_code] : wrong) {
    std::vector<std::string> all = {"latency", kTrace, "--method", "oracle:budget_tokens=24"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_program(all);
    EXPECT_EQ(result.exit_code, exit_code) << words[0] << " " << words[1];
    EXPECT_EQ(result.standard_output, "");
    EXPECT_THAT(result.standard_error, HasSubstr("error: "));
  }
}

TEST(CompareCells, AreSaidAndTheSpanIsNamedOrRefused) {
  const std::vector<std::string> both = {"compare",  kTrace,
                                         "--method", "oracle:budget_tokens=24",
                                         "--method", "oracle:budget_tokens=70"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = both;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto own = run_program(with({"--json", "--cells", "own"}));
  EXPECT_THAT(own.standard_error, HasSubstr("--cells common"));
  const auto common =
      run_program(with({"--json", "--cells", "common", "--weights", "queries", "--span", "10-19"}));
  EXPECT_EQ(common.standard_error, "");
  const json answer = json::parse(common.standard_output);
  EXPECT_EQ(answer["cells"], "common");
  EXPECT_EQ(answer["weights"], "queries");
  std::vector<std::int64_t> cells;
  for (const json& row : answer["rows"])
    if (row["scope"] == "all" && row["phase"] == "prefill") {
      cells.push_back(row["cells"]);
      EXPECT_NEAR(row["gap"].get<double>(), 0, 1e-6);
      EXPECT_GE(row["span_kept"], 0.0);
    }
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0], cells[1]);
  for (const char* span : {"nothing", "5-4", "0-100000", "-3"})
    EXPECT_EQ(run_program(with({"--span", span})).exit_code, 1) << span;
  EXPECT_EQ(run_program(with({"--cells", "all"})).exit_code, 2);
}

}  // namespace
}  // namespace kvloupe
