// The pictures of `compare` and `latency`: that they are written, and what is refused before anything
// is computed.
#include "tests/base/matchers.h"
#include "tests/cli/cli_test.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

class ChartsTest : public ::testing::Test {
 protected:
  ChartsTest() { std::filesystem::remove(picture_); }
  ~ChartsTest() override { std::filesystem::remove(picture_); }

  ProgramResult run(const std::string& command, std::vector<std::string> more) {
    more.insert(more.begin(), {command, kTrace});
    more.insert(more.end(), {"--png", picture_});
    return run_program(more);
  }
  // Its first bytes; empty: there is no file.
  std::string head() const {
    std::ifstream file(picture_, std::ios::binary);
    std::string bytes(8, '\0');
    file.read(bytes.data(), 8);
    return file.gcount() == 8 ? bytes : "";
  }
  void expect_picture(const ProgramResult& result) const {
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_THAT(head(), StartsWith("\x89PNG"));
  }
  void expect_refused(const ProgramResult& result, const std::string& why) const {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.standard_error, HasSubstr(why));
    EXPECT_EQ(head(), "");
  }

  const std::string picture_ =
      (std::filesystem::temp_directory_path() /
       ("kvloupe_chart_" +
        std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".png"))
          .string();
};

TEST_F(ChartsTest, OfCompareShowWhatIsSweptPlacesAndOtherNumbers) {
  const std::vector<std::string> sweep = {"--method", "quoka:num_queries=4", "--method", "oracle",
                                          "--sweep",  "budget_tokens=8..32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sweep.begin(), sweep.end());
    return run("compare", more);
  };
  expect_picture(with({}));
  std::filesystem::remove(picture_);
  expect_picture(with({"--x", "layer", "--y", "gap"}));
  std::filesystem::remove(picture_);
  expect_picture(with({"--x", "density", "--y", "output_error"}));
  std::filesystem::remove(picture_);
  expect_picture(with({"--target", "topk_overlap=0.5", "--x", "layer"}));
}

TEST_F(ChartsTest, AreVectorsToo) {
  const std::string svg = picture_ + ".svg", pdf = picture_ + ".pdf";
  expect_picture(run("compare", {"--method", "oracle", "--sweep", "budget_tokens=8..32", "--svg",
                                 svg, "--pdf", pdf}));
  const auto read = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_THAT(read(svg), HasSubstr(">budget_tokens<"));  // text is text
  EXPECT_THAT(read(svg), HasSubstr("<path"));
  EXPECT_THAT(read(pdf), StartsWith("%PDF"));
  std::filesystem::remove(svg);
  std::filesystem::remove(pdf);
}

TEST_F(ChartsTest, HaveFilesOfTheirOwn) {
  const std::string file = picture_ + ".x";
  for (const char* command : {"compare", "latency"}) {
    Words words = {
        command,
        kTrace,
        "--method",
        "oracle:budget_tokens=8",
        "--svg",
        file,
        "--pdf",
        (std::filesystem::path(file).parent_path() / "." / std::filesystem::path(file).filename())
            .string()};
    const bool is_compare = std::string(command) == "compare";
    words.insert(words.end(), {is_compare ? "--sweep" : "--lengths",
                               is_compare ? "budget_tokens=8..16" : "64,128"});
    kvloupe::expect_refused(run_program(words), 2, "--svg and --pdf name one file");
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(ChartsTest, OfCompareNeedTwoAxesThatThereAre) {
  const auto compare = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--method", "oracle"});
    return run("compare", more);
  };
  expect_refused(compare({}), "the picture has no horizontal axis");
  expect_refused(compare({"--x", "nonsense"}), "--x nonsense is not known");
  expect_refused(compare({"--x", "layer", "--y", "beauty"}), "--y beauty is not known");
  expect_refused(compare({"--x", "layer", "--y", "solved"}), "there is no target");
  expect_refused(compare({"--x", "layer", "--y", "recall_at_10", "--phase", "prefill"}),
                 "not of prefill");
  expect_refused(run_program({"compare", kTrace, "--method", "oracle", "--x", "layer"}),
                 "no picture is asked for");
}

// Whatever is missing from the rows is an error of the input, and no empty picture.
TEST_F(ChartsTest, OfNumbersThatNoRowHasAreNotDrawn) {
  const ProgramResult result =
      run("compare", {"--method", "oracle", "--x", "layer", "--y", "native_density"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error, HasSubstr("nothing can be drawn"));
  EXPECT_EQ(head(), "");
}

TEST_F(ChartsTest, OfLatencyGoByLength) {
  const auto latency = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--method", "oracle:budget_tokens=24", "--repetitions", "2"});
    return run("latency", more);
  };
  expect_picture(latency({"--lengths", "64,1k"}));
  std::filesystem::remove(picture_);
  expect_picture(latency({"--lengths", "64,1k", "--y", "total_ms"}));
  std::filesystem::remove(picture_);
  expect_refused(latency({"--lengths", "1k"}), "the picture has no horizontal axis");
  expect_refused(latency({"--lengths", "64,1k", "--y", "beauty"}), "--y");
}

}  // namespace
}  // namespace kvloupe
