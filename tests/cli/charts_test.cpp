// The pictures of `compare` and `latency`: that they are written, and what is refused before anything
// is computed.
#include "tests/base/matchers.h"
#include "tests/cli/cli_test.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
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

const std::string kTiny = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
// Its run 0 is of a closed loop.
const std::string kClosed = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_h5py_tiny.h5";

std::string svg_of(Words words) {
  words.insert(words.end(), {"--svg", "-"});
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  return result.standard_output;
}

// All that is written in it, with one space between two words.
std::string words_of(const std::string& svg) {
  std::string text;
  for (std::size_t end = 0; (end = svg.find("</text>", end)) != std::string::npos; ++end) {
    for (std::size_t at = svg.rfind('>', end) + 1; at < end; ++at)
      if (svg[at] != ' ' || !text.ends_with(' ')) text += svg[at];
    text += ' ';
  }
  return text;
}

TEST(CompareChart, NamesRecordedRunsBesideAllMethods) {
  const std::string svg = svg_of({"compare", kClosed, "--method", "run:0", "--method",
                                  "all:budget_tokens=4", "--cells", "own", "--x", "layer"});
  EXPECT_THAT(svg, HasSubstr(">run:0<"));
  EXPECT_THAT(svg, HasSubstr(">oracle<"));
}

TEST(CompareChart, SaysWhichLoopTheRowsAreOf) {
  const auto words = [](const Words& methods) {
    Words all = {"compare", kClosed, "--cells", "own", "--x", "layer"};
    for (const std::string& method : methods) all.insert(all.end(), {"--method", method});
    return words_of(svg_of(all));
  };
  const std::string open = words({"oracle:budget_tokens=4"}), closed = words({"run:0"});
  EXPECT_THAT(open, HasSubstr("open loop"));
  EXPECT_THAT(open, Not(HasSubstr("closed loop")));
  EXPECT_THAT(closed, HasSubstr("recorded in closed loop"));
  EXPECT_THAT(closed, Not(HasSubstr("open loop")));
  EXPECT_THAT(words({"oracle:budget_tokens=4", "run:0"}),
              HasSubstr("open loop and recorded in closed loop"));
}

TEST(CompareChart, HasALineForEachOfTwoMethodsOfOneId) {
  const std::string written = svg_of({"compare", kTrace, "--method", "quoka:num_queries=1",
                                      "--method", "all", "--sweep", "budget_tokens=8,16"});
  EXPECT_THAT(written, HasSubstr(">quoka:num_queries=1<"));
  EXPECT_THAT(written, HasSubstr(">quoka<"));
  const std::string of_all = svg_of({"compare", kTrace, "--method", "quoka", "--method",
                                     "all:num_queries=1", "--sweep", "budget_tokens=8,16"});
  EXPECT_THAT(of_all, HasSubstr(">quoka<"));
  EXPECT_THAT(of_all, HasSubstr(">quoka:num_queries=1<"));
}

TEST(CompareChart, SaysWhichCellsAreAveraged) {
  const std::string words = words_of(
      svg_of({"compare", kTiny, "--method", "random:seed=5", "--sweep", "budget_tokens=6,8",
              "--layer", "0", "--from", "question", "--weights", "queries", "--chunk-size", "8"}));
  for (const char* part : {"each as often as its chunk has queries", "layer 0",
                           "the chunks from question on (chunk 5)", "cut anew into chunks of 8"})
    EXPECT_THAT(words, HasSubstr(part));
  const std::string all =
      words_of(svg_of({"compare", kTiny, "--method", "random", "--sweep", "budget_tokens=6,8"}));
  for (const char* part : {"queries", "layer", "question", "anew"})
    EXPECT_THAT(all, Not(HasSubstr(part)));
}

// Dense attention has no recall, and so no line.
TEST(CompareChart, DrawsWhatHasNoSuchParameterAllAlong) {
  const Words both = {"compare",  kTrace,          "--method", "oracle",
                      "--method", "flash_prefill", "--method", "dense"};
  Words swept = both;
  swept.insert(swept.end(), {"--sweep", "budget_tokens=8,16"});
  const std::string svg = svg_of(swept);
  EXPECT_THAT(svg, HasSubstr(">oracle<"));
  EXPECT_THAT(svg, HasSubstr(">flash_prefill<"));
  EXPECT_THAT(svg, Not(HasSubstr(">dense<")));
}

// A mark is one shape; a square of the legend has a border, too.
TEST(CompareChart, TheLegendHasTheMarksOfTheCurves) {
  Words words = {"compare", kTrace, "--sweep", "budget_tokens=8,16"};
  for (int seed = 1; seed <= 9; ++seed)
    words.insert(words.end(), {"--method", "random:seed=" + std::to_string(seed)});
  const std::string svg = svg_of(words);
  const auto shapes_before = [&](int seed) {
    const auto name_at = [&](int of) {
      return svg.find(">random:seed=" + std::to_string(of) + "<");
    };
    const std::size_t begin = name_at(seed - 1), end = name_at(seed);
    EXPECT_LT(begin, end);
    EXPECT_NE(end, std::string::npos);
    int shapes = 0;
    for (const char* shape : {"<path ", "<rect "})
      for (std::size_t at = begin; (at = svg.find(shape, at + 1)) < end;) ++shapes;
    return shapes;
  };
  EXPECT_EQ(shapes_before(8), 1);
  EXPECT_GT(shapes_before(9), 1);
}

TEST(LatencyChart, NamesLayersAndChunksWhereThereAreSeveral) {
  const auto drawn = [](const Words& more) {
    Words words = {"latency",   kTrace,   "--method",      "oracle:budget_tokens=24",
                   "--lengths", "64,128", "--repetitions", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return svg_of(words);
  };
  const std::string svg = drawn({"--layers", "all", "--chunks", "2,3", "--y", "total_ms"});
  for (const char* name :
       {">oracle:budget_tokens=24, layer 1, chunk 2", ">oracle:budget_tokens=24, layer 3, chunk 3",
        ">dense attention, layer 1, chunk 3<", ">floor of attention, layer 3, chunk 2<"})
    EXPECT_THAT(svg, HasSubstr(name));
  EXPECT_THAT(words_of(svg), HasSubstr("layers 1, 3 \u00B7 chunks 2, 3 \u00B7 32 queries a chunk"));
  const std::string one = drawn({"--layer", "3", "--chunk", "2"});
  EXPECT_THAT(one, HasSubstr(">dense attention<"));
  EXPECT_THAT(one, Not(HasSubstr(">oracle:budget_tokens=24,")));
  EXPECT_THAT(words_of(one), HasSubstr("layer 3 \u00B7 chunk 2 \u00B7 32 queries a chunk"));
}

// Builds that are to be the same, byte by byte, say what the date is.
TEST(CompareChart, AsPdfHasTheDateThatTheEnvironmentGives) {
  const Words words = {"compare",           kTiny,   "--method", "random", "--sweep",
                       "budget_tokens=6,8", "--pdf", "-"};
  const auto pdf = [&](const std::string& epoch) {
    return run_program(words, {}, {"SOURCE_DATE_EPOCH=" + epoch}).standard_output;
  };
  const std::string dated = pdf("1700000000");
  EXPECT_THAT(dated, HasSubstr("20231114221320"));
  EXPECT_EQ(pdf("1700000000"), dated);
  for (const char* nonsense : {"-1", "soon", "99999999999999"}) {
    EXPECT_THAT(pdf(nonsense), StartsWith("%PDF")) << nonsense;
    EXPECT_THAT(pdf(nonsense), Not(HasSubstr("20231114221320")));
  }
}

}  // namespace
}  // namespace kvloupe
