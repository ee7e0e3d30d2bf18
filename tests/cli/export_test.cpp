// What `export` draws beside a trace, averages over chunks, and refuses.
#include "tests/base/temporary_folder.h"
#include "tests/cli/cli_test.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kGoldens = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/";
const std::string kTrace = kGoldens + "group3_f16.h5";
const std::string kResults = std::string(KVLOUPE_TEST_DATA_DIR) + "/results/needles.h5";

ProgramResult lanes(const Words& more) {
  Words words = {"export",          kTrace,  "--view", "aqua_lanes", "--method",
                 "aqua:basis=self", "--csv", "-"};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

void expect_refused(const ProgramResult& result, int exit_code, const std::string& what,
                    const std::string& why) {
  kvloupe::expect_refused(result, exit_code, why);
  EXPECT_THAT(result.last_error_line(), HasSubstr("error: " + what));
}

TEST(OtherTrace, SpeaksOfItself) {
  const TemporaryFolder folder;
  const std::string copy = (folder / "copy.h5").string(), text = (folder / "text.h5").string();
  std::filesystem::copy_file(kTrace, copy);
  std::ofstream(text) << "plain text";
  EXPECT_EQ(lanes({"--other-trace", copy}).exit_code, 0)
      << lanes({"--other-trace", copy}).standard_error;
  EXPECT_EQ(lanes({"--other-trace", copy, "--beside", "other"}).exit_code, 0);
  expect_refused(lanes({"--other-trace", "none.h5"}), 1, "--other-trace none.h5 cannot be shown",
                 "");
  expect_refused(lanes({"--other-trace", text}), 1, "--other-trace " + text + " cannot be shown",
                 "");
  const std::string model = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
  expect_refused(lanes({"--other-trace", model}), 1, "the view aqua_lanes cannot be exported",
                 "v1_tiny.h5 cannot be drawn beside");
  const std::string layers = kGoldens + "group1_f32.h5";
  expect_refused(lanes({"--other-trace", layers, "--goto", "layer=1"}), 1,
                 "the view aqua_lanes cannot be exported", "it does not hold layer 1");
  expect_refused(lanes({"--other-trace", kTrace}), 2, "--other-trace " + kTrace,
                 "is the trace itself");
  expect_refused(lanes({"--other-trace", copy, "--beside", "none"}), 2,
                 "--other-trace is not drawn", "--beside none");
  expect_refused(lanes({"--beside", "other"}), 2, "--beside other has no other trace",
                 "--other-trace");
  expect_refused(
      run_program({"export", kTrace, "--view", "latency", "--other-trace", copy, "--csv", "-"}), 2,
      "--other-trace does not go with the view latency", "aqua_lanes");
}

// Of a copy both halves are the same numbers; of another model there is no such head.
TEST(OtherTrace, IsTheSecondHalfOfATableOfTwo) {
  const TemporaryFolder folder;
  const std::string copy = (folder / "copy.h5").string();
  std::filesystem::copy_file(kTrace, copy);
  const auto map = [&](const Words& more) {
    Words words{"export", kTrace, "--view", "kv_map", "--method", "quoka:budget_tokens=24"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const ProgramResult alone = map({"--csv", "-"});
  const ProgramResult both = map({"--other-trace", copy, "--csv", "-"});
  ASSERT_EQ(both.exit_code, 0) << both.standard_error;
  std::string expected = "trace,";
  const std::string here = std::filesystem::path(kTrace).filename().string();
  std::istringstream lines(alone.standard_output);
  std::string line, rows_here, rows_there;
  std::getline(lines, line);
  expected += line + "\n";
  while (std::getline(lines, line)) {
    rows_here += here + "," + line + "\n";
    rows_there += "copy.h5," + line + "\n";
  }
  EXPECT_EQ(both.standard_output, expected + rows_here + rows_there);
  expect_refused(map({"--show", "traces", "--csv", "-"}), 2, "--show traces has no other trace",
                 "--other-trace");
  expect_refused(map({"--show", "one", "--other-trace", copy, "--csv", "-"}), 2,
                 "--other-trace is not drawn", "--show one");
  const std::string model = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
  expect_refused(map({"--other-trace", model, "--csv", "-"}), 1,
                 "the view kv_map cannot be exported; v1_tiny.h5 has 3 layers",
                 "this trace 4 layers, 6 query heads and 2 KV heads; choose another trace");
}

TEST(Table, MarksTheBestWhereThatIsAskedFor) {
  const auto table = [](const std::string& view, const Words& more) {
    Words words{"export",   kTrace,
                "--view",   view,
                "--method", "oracle:budget_tokens=24",
                "--method", "random:budget_tokens=12"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const ProgramResult plain = table("method_compare", {"--markdown", "-"});
  ASSERT_EQ(plain.exit_code, 0) << plain.standard_error;
  EXPECT_THAT(plain.standard_output, Not(HasSubstr("**")));
  const ProgramResult marked = table("method_compare", {"--markdown", "-", "--mark-best"});
  ASSERT_EQ(marked.exit_code, 0) << marked.standard_error;
  EXPECT_THAT(marked.standard_output, HasSubstr("**"));
  EXPECT_THAT(marked.standard_output, ::testing::ContainsRegex(" [*][^*]"));
  // The marks apart it is the same table.
  std::string unmarked = marked.standard_output;
  std::erase(unmarked, '*');
  EXPECT_EQ(unmarked, plain.standard_output);
  const ProgramResult latex = table("method_compare", {"--latex", "-", "--mark-best"});
  EXPECT_THAT(latex.standard_output, HasSubstr("\\textbf{"));
  EXPECT_THAT(latex.standard_output, HasSubstr("\\underline{"));
  expect_refused(table("method_compare", {"--csv", "-", "--mark-best"}), 2,
                 "--mark-best marks nothing here", "only --latex and --markdown have marks");
  expect_refused(
      run_program({"export", kTrace, "--view", "trace_info", "--latex", "-", "--mark-best"}), 2,
      "--mark-best marks nothing here", "trace_info");
}

TEST(Table, SaysUnitsInTheHeadOfItsCsvWhereThatIsAskedFor) {
  const auto table = [](const Words& more) {
    Words words{"export",         kTrace,     "--view",
                "method_compare", "--method", "random:budget_tokens=12"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const std::string plain = table({"--csv", "-"}).standard_output;
  const ProgramResult result = table({"--csv", "-", "--units"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const std::string with_units = result.standard_output;
  EXPECT_THAT(plain, HasSubstr(",effective_budget,"));
  EXPECT_THAT(with_units, HasSubstr(",effective_budget (KVs),"));
  // The head apart it is the same table.
  EXPECT_EQ(with_units.substr(with_units.find('\n')), plain.substr(plain.find('\n')));
  expect_refused(table({"--latex", "-", "--units"}), 2, "--units changes nothing here", "--csv F");
  expect_refused(run_program({"export", kTrace, "--view", "trace_info", "--csv", "-", "--units"}),
                 2, "--units changes nothing here", "no column of the view trace_info has a unit");
}

// A table is of what the picture of the same call shows.
TEST(Table, OfTwoMethodsHoldsBothUnlessOneIsAskedFor) {
  const auto head = [](const Words& more) {
    Words words{"export", kTrace, "--view",   "selected_vs_true",
                "--csv",  "-",    "--method", "random:budget_tokens=12"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output.substr(0, result.standard_output.find('\n'));
  };
  const std::string other = "oracle:budget_tokens=12";
  EXPECT_THAT(head({"--method", other}), HasSubstr(",selected_b,verdict_b"));
  EXPECT_EQ(head({"--method", other}), head({"--method", other, "--show", "both"}));
  EXPECT_EQ(head({"--method", other, "--show", "one"}), head({}));
  EXPECT_THAT(head({}), Not(HasSubstr("selected_b")));
}

// What is refused has written nothing, also where another file of the call could be made.
TEST(Outputs, AreWrittenOnceAllOfThemCouldBeMade) {
  const TemporaryFolder folder;
  const std::string csv = (folder.path() / "a.csv").string();
  const ProgramResult result = run_program(
      {"export", kTrace, "--view", "selected_vs_true", "--method", "random:budget_tokens=12",
       "--csv", csv, "--latex", (folder.path() / "a.tex").string(), "--mark-best"});
  expect_refused(result, 2, "--mark-best marks nothing here", "selected_vs_true");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Width and height by the header of the file.
std::pair<int, int> size_of_png(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(24, '\0');
  stream.read(bytes.data(), 24);
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      value = value * 256 + static_cast<unsigned char>(bytes[i]);
    return value;
  };
  return {number(16), number(20)};
}

// The size that was asked for; without one nothing is cut.
TEST(Picture, IsAsHighAsItNeeds) {
  const TemporaryFolder folder;
  const std::string png = (folder / "picture.png").string();
  const auto size = [&](const Words& more) {
    Words words{"export",   kTrace,
                "--goto",   "chunk=3,span=8-15",
                "--method", "quoka:budget_tokens=24",
                "--method", "random:budget_tokens=24",
                "--png",    png};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return size_of_png(png);
  };
  for (const std::string view : {"kv_map", "attention_map", "layer_head_overview", "token_strip"})
    EXPECT_EQ(size({"--view", view}), std::pair(1600, 900)) << view;
  EXPECT_EQ(size({"--view", "miss_inspector", "--size", "900x600"}), std::pair(900, 600));
  const auto [width, height] = size({"--view", "miss_inspector"});
  EXPECT_EQ(width, 1600);
  EXPECT_GT(height, 900);
  EXPECT_LE(height, 3600);
  EXPECT_EQ(size({"--view", "miss_inspector", "--scale", "2"}), std::pair(3200, 2 * height));
}

struct HeadValue {
  int layer = 0, head = 0;
  std::string value;
};

std::vector<HeadValue> overview(const std::string& metric, const std::string& method) {
  const ProgramResult result =
      run_program({"export", kTrace, "--view", "layer_head_overview", "--metric", metric,
                   "--chunks", "all", "--method", method, "--csv", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  std::istringstream lines(result.standard_output);
  std::string line;
  std::getline(lines, line);
  std::vector<HeadValue> values;
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::string layer, head;
    HeadValue value;
    std::getline(cells, layer, ',');
    std::getline(cells, head, ',');
    std::getline(cells, value.value, ',');
    value.layer = std::stoi(layer);
    value.head = std::stoi(head);
    values.push_back(value);
  }
  return values;
}

// A method that is dense in the prompt and selects at each decoded token: the mean over these.
TEST(Overview, OfAllChunksIsOfTheDecodeStepsWhereThePromptIsDense) {
  const std::string method = "quest:budget_tokens=32,page_size=8,skip_layers=0,prefill=dense";
  const json run = answer_of({"select", kTrace, "--method", method, "--json"});
  const auto values = overview("mass_recall", method);
  ASSERT_EQ(values.size(), 2U * 6U);
  for (const HeadValue& value : values) {
    double sum = 0;
    int cells = 0;
    for (const json& layer : run["layers"])
      for (const json& chunk : layer["chunks"]) {
        EXPECT_EQ(chunk["dense_reason"].is_null(), chunk["phase"] == "decode");
        if (layer["layer"] != value.layer || chunk["phase"] != "decode") continue;
        sum += chunk["q_heads"][static_cast<std::size_t>(value.head)]["mass_recall"].get<double>();
        ++cells;
      }
    ASSERT_EQ(cells, 3);
    ASSERT_NE(value.value, "");
    EXPECT_NEAR(std::stod(value.value), sum / cells, 1e-6);
  }
  for (const HeadValue& value : overview("merge_loss", "oracle:budget_tokens=24"))
    EXPECT_NE(value.value, "");
}

TEST(Overview, OfAllChunksIsOfThePromptWhereItSelects) {
  const std::string method = "oracle:budget_tokens=24";
  const json run = answer_of({"select", kTrace, "--method", method, "--json"});
  for (const HeadValue& value : overview("mass_recall", method)) {
    double sum = 0;
    int cells = 0;
    for (const json& layer : run["layers"])
      for (const json& chunk : layer["chunks"]) {
        if (layer["layer"] != value.layer || chunk["phase"] != "prefill" ||
            !chunk["dense_reason"].is_null())
          continue;
        sum += chunk["kv_heads"][static_cast<std::size_t>(value.head)]["mass_recall"].get<double>();
        ++cells;
      }
    EXPECT_NEAR(std::stod(value.value), sum / cells, 1e-6);
  }
}

std::size_t lines_in(const std::string& file, const std::string& end) {
  std::ifstream stream(file);
  std::size_t count = 0;
  for (std::string line; std::getline(stream, line);) count += line.ends_with(end);
  return count;
}

TEST(TableFormats, HoldTheRowsOfTheCsvInEveryViewThatHasOne) {
  const TemporaryFolder folder;
  int tables = 0;
  const json views = answer_of({"views", "--json"})["views"];
  for (const json& view : views) {
    std::map<std::string, std::string> files;
    const bool results = view["shows"] == "results";
    Words words = {"export", results ? kResults : kTrace, "--view", view["id"]};
    if (!results) words.insert(words.end(), {"--goto", "chunk=3"});
    const std::string method = view["id"] == "aqua_lanes"    ? "aqua:basis=self"
                               : view["id"] == "quest_pages" ? "quest:budget_tokens=24"
                               : view["id"] == "block_tables"
                                   ? "flash_prefill:lowering=union,block_size=16"
                                   : "quoka:budget_tokens=6,num_queries=2";
    if (!results) words.insert(words.end(), {"--method", method});
    for (const std::string format : view["formats"])
      if (format == "csv" || format == "markdown" || format == "latex") {
        files[format] = (folder / (view["id"].get<std::string>() + "." + format)).string();
        words.insert(words.end(), {"--" + format, files[format]});
      }
    if (files.empty()) continue;
    ASSERT_EQ(files.size(), 3U) << view["id"];
    const ProgramResult result = run_program(words);
    if (view["id"] == "decode_drift") continue;  // the trace has none
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const std::size_t rows = lines_in(files["csv"], "") - 1;
    EXPECT_GT(rows, 0U) << view["id"];
    EXPECT_EQ(lines_in(files["markdown"], " |"), rows + 1) << view["id"];
    EXPECT_EQ(lines_in(files["latex"], " \\\\"), rows + 1) << view["id"];
    ++tables;
  }
  EXPECT_GT(tables, 15);
}

TEST(TableFormats, OfCompareStandAloneOnStandardOutput) {
  Words words = {
      "compare", kTrace, "--method", "quoka:budget_tokens=6", "--method", "random:budget_tokens=6"};
  words.insert(words.end(), {"--columns", "mass_recall,effective_budget", "--markdown", "-"});
  const std::string page = run_program(words).standard_output;
  EXPECT_THAT(page,
              HasSubstr("| method | cells | mass recall | kept (KVs) |\n|---|---:|---:|---:|\n"
                        "| quoka:budget_tokens=6 | "));
  EXPECT_THAT(page, Not(HasSubstr("means over")));
  words.insert(words.end(), {"--latex", "-"});
  expect_refused(run_program(words), 2, "--latex - cannot be combined with --markdown -", "room");
}

TEST(TableFormats, AreKnownByTheEndingsOfTheirFiles) {
  const Words words = {"export", kTrace, "--view", "trace_info"};
  const auto with = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  expect_refused(with({"--latex", "table.md"}), 2, "--latex table.md is not valid",
                 "write --markdown table.md, or end the name in .tex");
  expect_refused(with({"--markdown", "table.csv"}), 2, "--markdown table.csv is not valid",
                 "write --csv table.csv, or end the name in .md");
  expect_refused(with({"--markdown", "a", "--latex", "a"}), 2,
                 "--markdown and --latex name one file", "");
}

// A small KV map, with more options.
ProgramResult exported(const Words& more) {
  Words words = {"export", kTrace,   "--view", "kv_map", "--method", "oracle:budget_tokens=24",
                 "--size", "400x300"};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

// A file of each chunk is the one that the chunk alone has.
TEST(Frames, AreFilesWhereTheNameHasANumber) {
  const TemporaryFolder folder;
  const auto bytes_of = [&](const std::string& name) {
    std::ifstream stream(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string pattern = (folder / "kept-%02d.svg").string();
  ASSERT_EQ(exported({"--frames", "chunks", "--svg", pattern}).exit_code, 0);
  const std::string chunk3 = (folder / "three.svg").string();
  ASSERT_EQ(exported({"--goto", "chunk=3", "--svg", chunk3}).exit_code, 0);
  const auto drawing = [](const std::string& svg) { return svg.substr(svg.find("</desc>")); };
  EXPECT_EQ(drawing(bytes_of("kept-03.svg")), drawing(bytes_of("three.svg")));
  EXPECT_NE(drawing(bytes_of("kept-03.svg")), drawing(bytes_of("kept-04.svg")));
  EXPECT_TRUE(std::filesystem::exists(folder / "kept-00.svg"));
  EXPECT_THAT(bytes_of("kept-03.svg"), HasSubstr("chunk=3"));  // the command that draws it again
  kvloupe::expect_refused(exported({"--frames", "chunks", "--svg", pattern, "--png",
                                    (folder / "." / "kept-01.svg").string()}),
                          2, "write --svg");
  kvloupe::expect_refused(exported({"--frames", "chunks", "--png", (folder / "f-%d.x").string(),
                                    "--gif", (folder / "." / "f-3.x").string()}),
                          2, "is named for two outputs");
  EXPECT_FALSE(std::filesystem::exists(folder / "f-0.x"));
  // Without --frames a name is a name.
  ASSERT_EQ(exported({"--png", (folder / "100%d.png").string()}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "100%d.png"));
  for (const char* name : {"k.png", "k-%d-%d.png", "k-%s.png"})
    kvloupe::expect_refused(exported({"--frames", "chunks", "--png", (folder / name).string()}), 2,
                            "--frames needs a file of frames");
  ASSERT_EQ(exported({"--apng", (folder / "all.png").string()}).exit_code, 0);
  EXPECT_NE(bytes_of("all.png").find("acTL"), std::string::npos);
}

// With every kind of file, and before any is written it is known whether it may be.
TEST(StateFile, IsWrittenBesideEveryKindOfFileOrNothingIs) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  const auto all_chunks = [&](const char* csv, const char* state) {
    return run_program({"export", kTrace, "--view", "token_strip", "--method",
                        "oracle:budget_tokens=24", "--all-chunks", "--csv", file(csv), "--state",
                        file(state)});
  };
  ASSERT_EQ(all_chunks("all.csv", "all.json").exit_code, 0);
  EXPECT_TRUE(has("all.csv"));
  EXPECT_TRUE(has("all.json"));
  ASSERT_EQ(exported({"--csv", file("one.csv"), "--state", file("one.json")}).exit_code, 0);
  EXPECT_TRUE(has("one.json"));

  std::filesystem::copy_file(kTrace, folder / "other.h5");
  kvloupe::expect_refused(exported({"--csv", file("a.csv"), "--state", file("other.h5")}), 1,
                          "an HDF5 file");
  kvloupe::expect_refused(all_chunks("a.csv", "other.h5"), 1, "an HDF5 file");
  EXPECT_FALSE(has("a.csv"));
  kvloupe::expect_refused(
      exported({"--frames", "chunks", "--png", file("k%d.png"), "--state", file("k3.png")}), 2,
      "is named for two outputs");
  EXPECT_FALSE(has("k0.png"));
  EXPECT_FALSE(has("k3.png"));
}

}  // namespace
}  // namespace kvloupe
