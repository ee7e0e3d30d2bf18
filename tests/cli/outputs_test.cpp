// What the program writes: never over what it reads, never a result that nobody gets.
#include "tests/base/matchers.h"
#include "tests/cli/cli_test.h"

#include <sys/stat.h>

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

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Outputs : public ::testing::Test {
 protected:
  void SetUp() override {
    old_folder_ = fs::current_path();
    fs::remove_all("outputs_test");
    fs::create_directories("outputs_test");
    fs::current_path("outputs_test");
    fs::copy_file(kTrace, "in.h5");
  }
  void TearDown() override {
    fs::current_path(old_folder_);
    fs::remove_all("outputs_test");
  }

  static ProgramResult export_csv(const std::string& file,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"export", "in.h5", "--view", "trace_info", "--csv", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

 private:
  fs::path old_folder_;
};

TEST_F(Outputs, NeverReplaceAnInput) {
  fs::create_symlink("in.h5", "link.h5");
  fs::create_hard_link("in.h5", "same.h5");
  const std::string before = content("in.h5");
  const std::vector<std::vector<std::string>> wrong = {
      {"export", "in.h5", "--view", "kv_map", "--png", "in.h5"},
      {"export", "in.h5", "--view", "kv_map", "--csv", "./in.h5"},
      {"export", "in.h5", "--view", "kv_map", "--npy", "link.h5"},
      {"export", "link.h5", "--view", "kv_map", "--csv", "in.h5"},
      {"export", "in.h5", "--view", "kv_map", "--csv", "same.h5"},
      {"export", "in.h5", "--view", "kv_map", "--csv", "in.h5.runs.h5"},
      {"export", "in.h5", "--view", "kv_map", "--csv", "in.h5.part"},
      {"compare", "in.h5", "--method", "dense", "--csv", "in.h5"},
      {"compare", "in.h5", "--method", "loki:budget_tokens=24,basis=link.h5", "--csv", "same.h5"},
      {"calibrate", "seer", "in.h5", "-o", "in.h5"},
      {"calibrate", "minference", "in.h5", "-o", "in.h5"},
      {"calibrate", "loki", "--model", "in.h5", "-o", "in.h5"},
      {"calibrate", "loki", "--corpus", "in.h5", "-o", "link.h5"},
      {"capture", "--model", "in.h5", "--prompt", "a", "-o", "link.h5"},
      {"capture", "--model", "none.gguf", "--prompt-file", "in.h5", "-o", "in.h5"},
      {"capture", "--model", "none.gguf", "--prompt", "a", "--method", "loki:basis=in.h5", "-o",
       "in.h5"},
      {"synthesize", "--method", "loki:basis=in.h5", "-o", "in.h5"},
  };
  for (std::vector<std::string> arguments : wrong) {
    arguments.emplace_back("--force");
    SCOPED_TRACE(::testing::PrintToString(arguments));
    expect_refused(run_program(arguments), 1, "it is a file that this command reads");
  }
  EXPECT_EQ(content("in.h5"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator("."), fs::directory_iterator()), 3);
}

TEST_F(Outputs, ReplaceATraceOrAModelByForceAlone) {
  fs::copy_file(kTrace, "other.h5");
  std::ofstream("model.gguf", std::ios::binary) << "GGUF" << std::string(100, '\0');
  std::ofstream("w.safetensors", std::ios::binary) << std::string("\2\0\0\0\0\0\0\0{}", 10);
  for (const auto& [file, kind] :
       {std::pair{"other.h5", "an HDF5 file"}, std::pair{"model.gguf", "a GGUF file"},
        std::pair{"w.safetensors", "a safetensors file"}}) {
    SCOPED_TRACE(file);
    const std::string before = content(file);
    expect_refused(export_csv(file), 1, kind);
    expect_refused(run_program({"compare", "in.h5", "--method", "dense", "--csv", file}), 1, kind);
    EXPECT_EQ(content(file), before);
    EXPECT_EQ(export_csv(file, {"--force"}).exit_code, 0);
    EXPECT_NE(content(file), before);
  }
}

TEST_F(Outputs, ReplaceAPlainFileAndKeepItsMode) {
  std::ofstream("plain.csv") << "old";
  fs::permissions("plain.csv", fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_EQ(export_csv("plain.csv").exit_code, 0);
  EXPECT_THAT(content("plain.csv"), HasSubstr("span needle"));
  EXPECT_EQ(fs::status("plain.csv").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Outputs, WriteWhereALinkLeads) {
  fs::create_directory("elsewhere");
  fs::create_symlink("elsewhere/table.csv", "table.csv");
  for (int time = 0; time < 2; ++time) {  // to a file that is not there yet, and to one that is
    ASSERT_EQ(export_csv("table.csv").exit_code, 0);
    EXPECT_TRUE(fs::is_symlink("table.csv"));
    EXPECT_THAT(content("elsewhere/table.csv"), HasSubstr("span needle"));
  }
}

TEST_F(Outputs, WriteThroughAFifoAndToStandardOutput) {
  ASSERT_EQ(export_csv("table.csv").exit_code, 0);
  const ProgramResult fifo = run_script(
      "mkfifo fifo; cat fifo > got & $kvloupe export in.h5 --view trace_info --csv fifo; "
      "code=$?; wait; exit $code");
  EXPECT_EQ(fifo.exit_code, 0) << fifo.standard_error;
  EXPECT_TRUE(fs::is_fifo("fifo"));
  EXPECT_EQ(content("got"), content("table.csv"));

  EXPECT_EQ(export_csv("-").standard_output, content("table.csv"));
  EXPECT_FALSE(fs::exists("-"));
  const std::string rows =
      run_program({"compare", "in.h5", "--method", "dense", "--csv", "-"}).standard_output;
  EXPECT_EQ(rows.rfind("method,phase,", 0), 0U) << rows;
  const ProgramResult picture = run_program(
      {"compare", "in.h5", "--method", "oracle", "--sweep", "budget_tokens=8,16", "--svg", "-"});
  EXPECT_EQ(picture.exit_code, 0) << picture.standard_error;
  EXPECT_EQ(picture.standard_output.rfind("<svg", 0), 0U);
  EXPECT_TRUE(picture.standard_output.ends_with("</svg>\n") ||
              picture.standard_output.ends_with("</svg>"))
      << "the picture alone";
  expect_refused(run_program({"compare", "in.h5", "--method", "dense", "--csv", "-", "--json"}), 2,
                 "--csv -");
}

TEST_F(Outputs, OfCapturesAndCalibrationsNeedARegularFile) {
  ASSERT_EQ(::mkfifo("fifo", 0600), 0);
  const std::vector<std::vector<std::string>> commands = {
      {"capture", "--model", "none.gguf", "--prompt", "a", "--force"},
      {"synthesize", "--force"},
      {"calibrate", "minference", "in.h5", "--force"}};
  for (std::vector<std::string> arguments : commands) {
    SCOPED_TRACE(arguments.front());
    arguments.insert(arguments.end(), {"-o", "fifo"});
    expect_refused(run_program(arguments), 1, "needs a regular file");
    arguments.back() = "-";
    expect_refused(run_program(arguments), 2, "cannot write to standard output");
  }
  EXPECT_TRUE(fs::is_fifo("fifo"));
}

TEST_F(Outputs, OfACaptureGoWhereALinkLeads) {
  fs::create_directory("elsewhere");
  fs::create_symlink("elsewhere/s.h5", "s.h5");
  const ProgramResult result = run_program(
      {"synthesize", "--length", "8192", "--many", "4", "--method", "dense", "-o", "s.h5"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(fs::is_symlink("s.h5"));
  EXPECT_EQ(run_program({"validate", "elsewhere/s.h5"}).exit_code, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator("elsewhere"), fs::directory_iterator()), 1);
}

// The name says what the user means to have.
TEST_F(Outputs, OfAnotherFormatsNameAreRefused) {
  const std::vector<std::string> view = {"export", "in.h5", "--view", "kv_map"};
  const std::vector<std::string> compare = {"compare", "in.h5", "--method", "oracle"};
  const std::vector<std::string> latency = {"latency", "in.h5",     "--method",
                                            "oracle",  "--lengths", "64,128"};
  const auto refused = [](std::vector<std::string> words, const std::string& option,
                          const std::string& file, const std::string& remedy) {
    words.insert(words.end(), {option, file});
    SCOPED_TRACE(::testing::PrintToString(words));
    expect_refused(run_program(words), 2, option + " " + file + " is not valid");
    EXPECT_THAT(run_program(words).last_error_line(), HasSubstr(remedy));
    EXPECT_FALSE(fs::exists(file));
  };
  refused(view, "--png", "k.svg", "; write --svg k.svg, or end the name in .png");
  refused(view, "--png", "k.PDF", "; write --pdf k.PDF, or end the name in .png");
  refused(view, "--gif", "k.jpg", "; end the name in .gif");
  refused(view, "--png", "k.csv", "; write --csv k.csv, or end the name in .png");
  refused(view, "--csv", "k.png", "; write --png k.png, or end the name in .csv");
  refused(view, "--csv", "k.npy", "; write --npy k.npy, or end the name in .csv");
  refused(view, "--npy", "k.csv", "; write --csv k.csv, or end the name in .npy");
  refused(compare, "--csv", "k.png", "; write --png k.png, or end the name in .csv");
  refused(compare, "--csv", "k.json", "; end the name in .csv");
  refused(compare, "--png", "k.csv", "; write --csv k.csv, or end the name in .png");
  refused(latency, "--png", "k.jpg", "; end the name in .png");
  for (const char* file : {"table.csv", "table.CSV", "table", "table.txt", "table.v2"})
    EXPECT_EQ(export_csv(file).exit_code, 0) << file;
}

// Every way in which a command answers.
const std::vector<std::string> kAnswers = {
    "--version",
    "--help",
    "info --help",
    "info in.h5",
    "info in.h5 --json",
    "validate in.h5",
    "views",
    "views --json",
    "methods",
    "methods quoka --json",
    "select in.h5 --method dense",
    "select in.h5 --method dense --json",
    "compare in.h5 --method dense",
    "compare in.h5 --method dense --json",
    "compare in.h5 --method dense --csv -",
    "export in.h5 --view trace_info --csv -",
    "calibrate minference in.h5 --force -o patterns.json",
};

TEST_F(Outputs, AResultThatIsNotDeliveredIsAFailure) {
  const std::vector<std::pair<std::string, std::string>> streams = {
      {"exec >/dev/full", "No space left on device"},
      {"exec >&-", "standard output is closed"},
      // A pipe whose reader is gone.
      {"rm -f pipe; mkfifo pipe; exec 3<>pipe; exec >pipe; exec 3<&-", "Broken pipe"}};
  for (const std::string& answer : kAnswers)
    for (const auto& [stream, reason] : streams) {
      SCOPED_TRACE(answer + " with " + stream);
      const ProgramResult result = run_script(stream + "; exec $kvloupe " + answer);
      expect_refused(result, 1, "the result was not delivered");
      EXPECT_THAT(result.last_error_line(), HasSubstr(reason));
    }
}

// As head does: it has what it wanted, and nobody is told.
TEST_F(Outputs, AReaderThatTookSomeAndWentAwayEndsItQuietly) {
  const std::vector<std::string> large = {
      "select in.h5 --method quoka:budget_tokens=24 --json --scores",
      "export in.h5 --view layer_head_overview --method oracle:budget_tokens=24 --png -",
      "compare in.h5 --method all:budget_tokens=24,basis=self --scope layer,chunk --csv -",
  };
  for (const std::string& answer : large) {
    SCOPED_TRACE(answer);
    const auto length = run_script("exec $kvloupe --quiet " + answer).standard_output.size();
    const ProgramResult result = run_script(
        "rm -f pipe; mkfifo pipe; (head -c 1 >/dev/null; sleep 0.2) <pipe & $kvloupe --quiet " +
        answer + " >pipe; code=$?; wait; exit $code");
    ASSERT_GT(length, 65536U + 1);  // more than a pipe holds, so that writing waits for the reader
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.standard_output, "");
    EXPECT_THAT(result.standard_error, Not(HasSubstr("error")));
    const ProgramResult head =
        run_script("set -o pipefail; $kvloupe --quiet " + answer + " | head -c 100");
    EXPECT_EQ(head.exit_code, 0);
    EXPECT_EQ(head.standard_output.size(), 100U);
    EXPECT_THAT(head.standard_error, Not(HasSubstr("error")));
  }
}

// Otherwise the first file that is opened takes the place of a closed stream, and gets what is
// printed.
TEST_F(Outputs, AClosedStreamHarmsNoFile) {
  const std::string before = content("in.h5");
  const ProgramResult saved =
      run_script("exec <&- >&- 2>&-; exec $kvloupe select in.h5 --method dense --save");
  EXPECT_EQ(saved.exit_code, 1);
  EXPECT_EQ(content("in.h5"), before);
  const ProgramResult info = run_program({"info", "in.h5"});
  EXPECT_THAT(info.standard_output, HasSubstr("in the sidecar"));
  EXPECT_EQ(info.standard_error, "");
}

TEST_F(Outputs, NoResultNeedsNoStandardOutput) {
  const ProgramResult result =
      run_script("exec >&-; exec $kvloupe export in.h5 --view trace_info --csv t.csv");
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(fs::exists("t.csv"));
}

}  // namespace
}  // namespace kvloupe
