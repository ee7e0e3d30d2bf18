// Bytes, numbers and surroundings that a program is not glad to meet: none reaches a terminal as it
// is, none is passed over, and each ends in a sentence.
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using test::run_script;

const std::string kRuns = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
// Clears a screen, in two spellings, turns the direction of writing, and is no UTF-8.
const std::string kStrange =
    "\x1b[2J\xc2\x9b"
    "2J\xe2\x80\xae\n\xff";

// Nothing of kStrange but what is harmless.
void expect_harmless(const std::string& text) {
  for (const char* part : {"\x1b", "\xc2\x9b", "\xe2\x80\xae", "\xff"})
    EXPECT_EQ(text.find(part), std::string::npos) << text;
}

// The trace with some bytes replaced by others, as many.
void write_copy(const std::string& path, const std::string& old, const std::string& bytes) {
  std::ifstream in(kRuns, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  const auto at = content.find(old);
  ASSERT_NE(at, std::string::npos) << old;
  ASSERT_LE(bytes.size(), old.size());
  content.replace(at, bytes.size(), bytes);
  std::ofstream(path, std::ios::binary) << content;
}

TEST(StrangeText, OfATraceIsShownEscaped) {
  write_copy("strange.h5", "streaming_llm:", kStrange);
  const ProgramResult text = run_program({"info", "strange.h5"});
  EXPECT_EQ(text.exit_code, 0) << text.standard_error;
  expect_harmless(text.standard_output);
  EXPECT_THAT(text.standard_output, HasSubstr("1  \\x1B[2J\\xC2\\x9B2J\\xE2\\x80\\xAE\\x0A\\xFF"));

  const ProgramResult json = run_program({"info", "strange.h5", "--json"});
  expect_harmless(json.standard_output);
  const auto info = nlohmann::json::parse(json.standard_output);
  EXPECT_THAT(info["runs"][1]["method"].get<std::string>(),
              HasSubstr("\x1b[2J\xc2\x9b"
                        "2J\xe2\x80\xae\n\xef\xbf\xbd"));

  for (const char* command : {"validate", "select", "compare"}) {
    std::vector<std::string> arguments = {command, "strange.h5"};
    if (*command != 'v') arguments.insert(arguments.end(), {"--method", "dense"});
    const ProgramResult result = run_program(arguments);
    expect_harmless(result.standard_output + result.standard_error);
  }
}

TEST(StrangeText, OfAnArgumentIsShownEscaped) {
  const std::string file = "no_" + kStrange;
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"info", file},
           {"validate", file},
           {"methods", file},
           {file},
           {"select", kRuns, "--method", file},
           {"select", kRuns, "--method", "dense", "--layer", file},
           {"--" + kStrange, "1"},
           {"export", kRuns, "--view", file, "--csv", "f"},
           {"capture", "--model", file, "--prompt", "a", "-o", "t"},
           {"export", kRuns, "--view", "kv_map", "--csv", file + "/f"}}) {
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const ProgramResult result = run_program(arguments);
    EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2);
    expect_harmless(result.standard_error);
    expect_refused(result, result.exit_code, "\\x1B[2J");
  }
}

TEST(StrangeText, OfAFileNameIsValidJson) {
  const std::string name = "name_" + kStrange + ".h5";
  fs::copy_file(kRuns, name, fs::copy_options::overwrite_existing);
  const ProgramResult json = run_program({"info", name, "--json"});
  expect_harmless(json.standard_output);
  EXPECT_THAT(nlohmann::json::parse(json.standard_output)["path"].get<std::string>(),
              HasSubstr("name_\x1b"));
  const ProgramResult text = run_program({"info", name});
  expect_harmless(text.standard_output);
  EXPECT_EQ(text.standard_output.rfind("name_\\x1B[2J", 0), 0U) << text.standard_output;
  const ProgramResult unsound = run_program({"validate", name + "x"});
  expect_harmless(unsound.standard_error);
  fs::remove(name);
}

// As one writes them, not as C does.
TEST(StrangeNumbers, ThatAreWholeAreDecimal) {
  const std::string trace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";
  const std::vector<std::string> key = {"explain",   trace, "--method", "quoka:budget_tokens=24",
                                        "--layer",   "3",   "--chunk",  "3",
                                        "--kv-head", "1",   "--json",   "--key"};
  const auto with = [](std::vector<std::string> words, const char* number) {
    words.emplace_back(number);
    return words;
  };
  EXPECT_EQ(answer_of(with(key, "040"))["key"], 40);
  EXPECT_EQ(answer_of(with(key, "09"))["key"], 9);
  for (const char* number : {"0x10", "1e1", "4.0", "+4", " 4", "4k", "99999999999999999999"})
    expect_refused(run_program(with(key, number)), 2,
                   std::string("--key: ") + number + " is not a whole number");
  expect_refused(run_program({"select", trace, "--method", "dense", "--chunk-size", "9999999999"}),
                 2, "--chunk-size: 9999999999 is too large");
  expect_refused(run_program({"calibrate", "seer", kRuns, "-o", "never", "--seed", "-1"}), 2,
                 "--seed: -1 is too small");
  expect_refused(run_program({"--threads", "0x2", "info", kRuns}), 2,
                 "--threads: 0x2 is not a whole number");
}

TEST(StrangeNumbers, AreUsageErrors) {
  const std::vector<std::vector<std::string>> options = {
      {"export", kRuns, "--view", "kv_map", "--png", "never.png", "--scale"},
      {"calibrate", "seer", kRuns, "-o", "never", "--learning-rate"},
      {"calibrate", "seer", kRuns, "-o", "never", "--weight-decay"},
      {"calibrate", "minference", kRuns, "-o", "never", "--max-density"},
      {"--threads"}};
  for (std::vector<std::string> arguments : options)
    for (const char* number : {"nan", "-nan", "inf", "-1", "1e999", "100000"}) {
      arguments.emplace_back(number);
      SCOPED_TRACE(::testing::PrintToString(arguments));
      expect_refused(run_program(arguments), 2, arguments[arguments.size() - 2]);  // its name
      arguments.pop_back();
    }
  EXPECT_FALSE(fs::exists("never") || fs::exists("never.png"));
}

TEST(Threads, HaveALimitAndASentence) {
  expect_refused(run_program({"--threads", "1024", "methods"}), 2, "--threads");
  // Two stacks of this size fit into no process: the second thread is refused.
  expect_refused(run_script("ulimit -Ss $((1 << 36)); exec $kvloupe --threads 8 select " + kRuns +
                            " --method dense"),
                 1, "8 threads cannot be started");
}

TEST(Prompt, HasAnEnd) {
  for (const char* option : {"--prompt-file", "--messages"})
    expect_refused(
        run_program({"capture", "--model", "none.gguf", option, "/dev/zero", "-o", "n.h5"}), 1,
        "/dev/zero has more than 64.0 MiB");
  expect_refused(run_script("exec $kvloupe capture --model none.gguf --prompt-file - -o n.h5 "
                            "< /dev/zero"),
                 1, "standard input has more than 64.0 MiB");
}

// Sanitized programs have Torch linked in, whose matrix library ends them before main().
#ifndef __SANITIZE_ADDRESS__
TEST(WorkingFolder, ThatIsGoneIsASentence) {
  for (const std::string& command : std::vector<std::string>{
           "select " + kRuns + " --method dense", "export " + kRuns + " --view kv_map --csv c"}) {
    SCOPED_TRACE(command);
    const ProgramResult result =
        run_script("mkdir gone; cd gone; rmdir ../gone; exec $kvloupe " + command);
    expect_refused(result, 1, "the working folder");
    EXPECT_EQ(std::count(result.standard_error.begin(), result.standard_error.end(), '\n'), 1)
        << result.standard_error;
  }
}
#endif

}  // namespace
}  // namespace kvloupe
