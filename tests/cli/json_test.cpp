// What all JSON of the program has in common, and what `capture --json` says.
#include "tests/base/temporary_folder.h"
#include "tests/cli/cli_test.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using nlohmann::ordered_json;

const std::string kData = KVLOUPE_TEST_DATA_DIR;
const std::string kTrace = kData + "/goldens/group3_f16.h5";

// The subcommands as the help lists them.
std::vector<std::string> subcommands() {
  std::istringstream lines(run_program({"--help"}).standard_output);
  std::vector<std::string> names;
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Subcommands")) listed = true;
    // A name stands two columns in, what follows of its text farther.
    if (!listed || line.size() < 3 || !line.starts_with("  ") || line[2] == ' ') continue;
    names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

bool has_json(const std::string& command) {
  return run_program({command, "--help"}).standard_output.find("\n  --json ") != std::string::npos;
}

// A tiny model with room for a task, whose answers are nonsense.
std::string model_with_room(const TemporaryFolder& folder) {
  const std::filesystem::path model = folder / "model";
  std::filesystem::copy(kData + "/models/llama", model);
  std::ifstream in(model / "config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  in.close();
  const std::string before = "\"max_position_embeddings\": 512";
  config.replace(config.find(before), before.size(), "\"max_position_embeddings\": 8192");
  std::ofstream(model / "config.json") << config;
  return model.string();
}

TEST(Json, OfEveryCommandBeginsWithItsSchema) {
  const TemporaryFolder folder;
  const Words quoka = {"--method", "quoka:budget_tokens=24"};
  const auto with = [&](Words words) {
    words.insert(words.end(), quoka.begin(), quoka.end());
    return words;
  };
  // By schema, so that one command may have several.
  const std::map<std::string, Words> calls = {
      {"kvloupe-bench/1", {}},  // takes minutes: tests/bench looks at what is interrupted
      {"kvloupe-capture/1",
       {"capture", "--model", kData + "/models/llama", "--raw", "--prompt",
        "the cat sat on the mat", "-o", (folder / "t.h5").string()}},
      {"kvloupe-compare/1", with({"compare", kTrace})},
      {"kvloupe-devices/1", {"devices"}},
      {"kvloupe-diff/1", with({"diff", kTrace, "--method", "random:budget_tokens=24"})},
      {"kvloupe-explain/1",
       with({"explain", kTrace, "--layer", "3", "--chunk", "3", "--kv-head", "1", "--key", "40"})},
      {"kvloupe-explain-worst/1", with({"explain", kTrace, "--worst", "3"})},
      {"kvloupe-info/1", {"info", kTrace}},
      {"kvloupe-latency/1", with({"latency", kTrace, "--repetitions", "1"})},
      {"kvloupe-methods/1", {"methods"}},
      {"kvloupe-models/1", {"models"}},
      {"kvloupe-select/1", with({"select", kTrace})},
      {"kvloupe-synthesize/1",
       {"synthesize", "--length", "4096", "--many", "4", "--method", "dense", "-o",
        (folder / "s.h5").string()}},
      {"kvloupe-views/1", {"views"}},
  };
  const std::vector<std::string> commands = subcommands();
  ASSERT_GE(commands.size(), 15U);
  for (const std::string& command : commands)
    EXPECT_TRUE(!has_json(command) || calls.contains("kvloupe-" + command + "/1"))
        << "no call of " << command;
  for (auto [schema, words] : calls) {
    if (words.empty()) continue;
    SCOPED_TRACE(schema);
    words.emplace_back("--json");
    const ProgramResult result = run_program(words);
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const auto answer = ordered_json::parse(result.standard_output);
    ASSERT_TRUE(answer.is_object());
    EXPECT_EQ(answer.begin().key(), "schema");
    EXPECT_EQ(answer["schema"], schema);
  }
}

TEST(CaptureJson, HasTheAnswerOfATask) {
  const TemporaryFolder folder;
  const std::string model = model_with_room(folder);
  const auto capture = [&](const Words& more) {
    Words words = {"capture",
                   "--model",
                   model,
                   "--task",
                   "niah:length=3000,seed=3",
                   "--json",
                   "--force",
                   "-o",
                   (folder / "t.h5").string()};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return json::parse(result.standard_output);
  };
  const json asked = capture({"--max-new-tokens", "4"});
  EXPECT_EQ(asked["path"], (folder / "t.h5").string());
  EXPECT_EQ(asked["bytes"], std::filesystem::file_size(folder / "t.h5"));
  EXPECT_GT(asked["tokens"], 1000);
  EXPECT_GT(asked["seconds"], 0.0);
  const json& answer = asked["answer"];
  ASSERT_TRUE(answer.is_object());
  EXPECT_TRUE(answer["text"].is_string());
  ASSERT_EQ(answer["expected"].size(), 1U);
  EXPECT_EQ(answer["found"], false);  // the weights are random
  EXPECT_EQ(answer["score"], 0.0);
  // The text form says the same.
  const ProgramResult text =
      run_program({"capture", "--model", model, "--task", "niah:length=3000,seed=3",
                   "--max-new-tokens", "4", "--force", "-o", (folder / "t.h5").string()});
  EXPECT_THAT(text.standard_output,
              HasSubstr("expected: " + answer["expected"][0].get<std::string>() + " (not found)"));
  EXPECT_EQ(capture({})["answer"], nullptr);
}

}  // namespace
}  // namespace kvloupe
