// `calibrate seer` and `calibrate minference` as a user runs them, and the methods that take what
// they wrote.
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/cli/run_program.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace kvloupe::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

class CalibrateOnTraces : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  bool is_empty() const { return fs::is_empty(folder_.path()); }

  const TemporaryFolder folder_;
};

TEST_F(CalibrateOnTraces, AGateIsTrainedAndServes) {
  const std::string gate = at("gate.safetensors");
  const std::vector<std::string> train = {"calibrate", "seer",         kTrace, "-o",
                                          gate,        "--block-size", "8",    "--hidden",
                                          "16",        "--steps",      "30"};
  const ProgramResult run = run_program(train);
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  EXPECT_THAT(run.standard_output, HasSubstr("KL held out"));
  EXPECT_THAT(run.standard_output, HasSubstr("flash_prefill"));
  const std::string spec = "seer_attention:lowering=union,block_size=8,threshold=0.05,gate=" + gate;
  const ProgramResult select = run_program({"select", kTrace, "--method", spec, "--json"});
  ASSERT_EQ(select.exit_code, 0) << select.standard_error;
  const json answer = json::parse(select.standard_output);
  const json& cell = answer["layers"][0]["chunks"][3];
  EXPECT_EQ(cell["dense_reason"], nullptr);
  EXPECT_EQ(cell["kv_heads"][0]["selected"].size() % 8, 0U);
  // Again: not over the file, unless asked to; then the same bytes.
  const ProgramResult again = run_program(train);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.last_error_line(), HasSubstr("exists"));
  const auto bytes = [&] {
    std::stringstream text;
    text << std::ifstream(gate, std::ios::binary).rdbuf();
    return text.str();
  };
  const std::string before = bytes();
  std::vector<std::string> forced = train;
  forced.emplace_back("--force");
  EXPECT_EQ(run_program(forced).exit_code, 0);
  EXPECT_EQ(bytes(), before);
  // A gate of other blocks, and none.
  for (const std::string& wrong : {"seer_attention:lowering=union,gate=" + gate,
                                   "seer_attention:lowering=union,gate=" + at("none")}) {
    const ProgramResult refused = run_program({"select", kTrace, "--method", wrong});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_EQ(refused.standard_output, "");
  }
}

TEST_F(CalibrateOnTraces, PatternsAreSearchedAndServe) {
  const std::string patterns = at("patterns.json");
  const ProgramResult run =
      run_program({"calibrate", "minference", kTrace, "-o", patterns, "--max-density", "0.9"});
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  std::ifstream stream(patterns);
  const json list = json::parse(stream);
  EXPECT_EQ(list.size(), 4U);  // the model's layers; those not in the trace have no entries
  EXPECT_EQ(list[0].size(), 0U);
  EXPECT_EQ(list[1].size(), list[3].size());
  EXPECT_GT(list[1].size(), 0U);
  const ProgramResult select = run_program(
      {"select", kTrace, "--method", "minference:lowering=union,config=" + patterns, "--json"});
  EXPECT_EQ(select.exit_code, 0) << select.standard_error;
}

TEST_F(CalibrateOnTraces, WrongArgumentsAreToldFromWrongFiles) {
  const auto code = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "calibrate");
    const ProgramResult run = run_program(arguments);
    EXPECT_EQ(run.standard_output, "");
    EXPECT_EQ(run.last_error_line().rfind("error: ", 0), 0U) << run.standard_error;
    return run.exit_code;
  };
  EXPECT_EQ(code({}), 2);
  EXPECT_EQ(code({"nonesuch"}), 2);
  EXPECT_EQ(code({"seer", kTrace}), 2);
  EXPECT_EQ(code({"seer", "-o", at("g")}), 2);
  EXPECT_EQ(code({"seer", kTrace, "-o", at("a,b")}), 2);
  EXPECT_EQ(code({"seer", kTrace, "-o", at("g"), "--hidden", "7"}), 2);
  EXPECT_EQ(code({"seer", kTrace, "-o", at("g"), "--target", "mean"}), 2);
  EXPECT_EQ(code({"seer", kTrace, "-o", at("g"), "--model", "smollm2"}), 2);
  EXPECT_EQ(code({"minference", kTrace, "-o", at("g"), "--sequences", "3"}), 2);
  EXPECT_EQ(code({"minference", kTrace, "-o", at("g"), "--max-density", "2"}), 2);
  EXPECT_EQ(code({"seer", at("none.h5"), "-o", at("g")}), 1);
  EXPECT_EQ(code({"seer", kTrace, "-o", folder_.path().string()}), 1);
  EXPECT_EQ(code({"seer", kTrace, "-o", at("g"), "--block-size", "64"}), 1);  // too short a text
  EXPECT_EQ(code({"minference", at("none.h5"), "-o", at("g")}), 1);
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace kvloupe::test
