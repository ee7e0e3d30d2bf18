// The pages of `report`: of a method, of several, of two traces.
#include "tests/base/temporary_folder.h"
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kGoldens = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/";
const std::string kTrace = kGoldens + "group3_f16.h5";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The cells of the first line of a Markdown table that holds `text`.
std::vector<std::string> cells_of(const std::string& page, const std::string& text) {
  std::vector<std::string> cells;
  const std::size_t at = page.find("| " + text + " |");
  if (at == std::string::npos) return cells;
  std::string cell;
  for (std::size_t i = at + 1; i < page.size() && page[i] != '\n'; ++i) {
    if (page[i] != '|') {
      if (page[i] != '*' && page[i] != ' ') cell += page[i];
      continue;
    }
    cells.push_back(cell);
    cell.clear();
  }
  return cells;
}

TEST(Report, IsOnePageWithItsPictures) {
  const TemporaryFolder folder;
  const std::string out = (folder / "report").string();
  const ProgramResult result =
      run_program({"report", kTrace, "--method", "quoka:budget_tokens=24", "-o", out});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  std::ifstream file(out + "/report.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(page.find("## What it loses, and why"), std::string::npos);
  EXPECT_NE(page.find("| query sampling |"), std::string::npos);
  // 5 chunks of the prompt in 2 layers and 2 KV heads; the first has nothing before it.
  EXPECT_NE(page.find("| cells chosen in | all cells |"), std::string::npos);
  EXPECT_NE(page.find("| 16 | 20 |"), std::string::npos);
  for (const char* picture :
       {"worst_misses.png", "miss_inspector.png", "layer_head_overview.png", "kv_map.png"}) {
    EXPECT_NE(page.find(picture), std::string::npos);
    EXPECT_GT(std::filesystem::file_size(std::filesystem::path(out) / picture), 10000U);
  }
  // A file where the folder should be.
  const std::string file_name = (folder / "f").string();
  std::ofstream(file_name) << "x";
  EXPECT_EQ(run_program({"report", kTrace, "--method", "quoka:budget_tokens=24", "-o", file_name})
                .exit_code,
            1);
}

TEST(Report, IsNoFileOfAnotherKind) {
  const TemporaryFolder folder;
  for (const char* name : {"a.PDF", "a.md"}) {
    const std::string file = (folder / name).string();
    expect_refused(
        run_program({"report", kTrace, "--method", "quoka:budget_tokens=24", "-o", file}), 2,
        "a report is no");
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

// One file, which loads nothing, and in which a trace's text is text.
TEST(Report, IsOneHtmlFileThatStandsAlone) {
  const TemporaryFolder folder;
  const std::string file = (folder / "report.html").string();
  const ProgramResult result =
      run_program({"report", kTrace, "--method", "quoka:budget_tokens=24", "-o", file});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, HasSubstr("report.html"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  std::ifstream stream(file);
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (std::size_t at = 0; (at = page.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<svg"), 4);
  EXPECT_GE(count("<table>"), 2);
  EXPECT_EQ(count("<script"), 0);
  EXPECT_EQ(count("<link"), 0);
  EXPECT_EQ(count("src=\"http"), 0);
  // Names inside a picture are its own.
  std::set<std::string> ids;
  for (std::size_t at = 0; (at = page.find(" id=\"", at)) != std::string::npos; ++at) {
    const std::string id = page.substr(at + 5, page.find('"', at + 5) - at - 5);
    EXPECT_TRUE(ids.insert(id).second) << id;
  }
}

TEST(Report, WhatAFileIsCalledIsTextInThePage) {
  const TemporaryFolder folder;
  const std::string trace = (folder / "[x](javascript:a) ![y](u) <b>.h5").string();
  std::filesystem::copy_file(kTrace, trace);
  const std::string file = (folder / "report.html").string();
  ASSERT_EQ(
      run_program({"report", trace, "--method", "quoka:budget_tokens=24", "-o", file}).exit_code,
      0);
  std::ifstream stream(file);
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_THAT(page, HasSubstr("[x](javascript:a) ![y](u) &lt;b&gt;.h5</h1>"));
  for (const char* part : {"<a ", "<img", "<b>"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

// The numbers are those that compare gives over the same cells.
TEST(Report, OfSeveralMethodsSetsTheirNumbersBesideEachOther) {
  const TemporaryFolder folder;
  const std::string out = (folder / "report").string();
  const Words methods = {"--method", "quoka:budget_tokens=24", "--method",
                         "snapkv:budget_tokens=24"};
  Words words = {"report", kTrace, "-o", out};
  words.insert(words.end(), methods.begin(), methods.end());
  const ProgramResult result = run_program(words);
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const std::string page = text_of(out + "/report.md");
  EXPECT_TRUE(page.starts_with("# 2 methods on group3_f16.h5\n"));
  Words compared = {"compare", kTrace, "--csv", "-"};
  compared.insert(compared.end(), methods.begin(), methods.end());
  std::istringstream csv(run_program(compared).standard_output);
  std::string header, line;
  std::getline(csv, header);
  const auto value_of = [&](const std::string& of_line, const std::string& column) {
    // The first cell is a quoted SPEC, which has commas of its own.
    const auto fields = [](const std::string& text) {
      std::vector<std::string> all{""};
      bool quoted = false;
      for (const char c : text) {
        if (c == '"')
          quoted = !quoted;
        else if (c == ',' && !quoted)
          all.emplace_back();
        else
          all.back() += c;
      }
      return all;
    };
    const auto names = fields(header), values = fields(of_line);
    const auto found = std::find(names.begin(), names.end(), column);
    return std::stod(values.at(static_cast<std::size_t>(found - names.begin())));
  };
  int rows = 0;
  while (std::getline(csv, line)) {
    if (line.find(",prefill,all,") == std::string::npos) continue;
    const std::string method =
        line.find("quoka") < 3 ? "quoka:budget_tokens=24" : "snapkv:budget_tokens=24";
    const auto cells = cells_of(page, method);
    ASSERT_GE(cells.size(), 4U) << page;
    EXPECT_NEAR(std::stod(cells[1]), value_of(line, "mass_recall"), 6e-5);
    EXPECT_NEAR(std::stod(cells[2]), value_of(line, "topk_overlap"), 6e-5);
    EXPECT_NEAR(std::stod(cells[3]), value_of(line, "output_error"), 6e-5);
    EXPECT_THAT(page, HasSubstr("- `" + method + "`. It loses "));
    ++rows;
  }
  EXPECT_EQ(rows, 2);
  EXPECT_THAT(page, HasSubstr("A is `quoka:budget_tokens=24`, B is `snapkv:budget_tokens=24`."));
  EXPECT_THAT(page, HasSubstr("### Layer by layer"));
  for (const char* picture : {"layer_head_overview.png", "kv_map.png", "selected_vs_true.png"})
    EXPECT_GT(std::filesystem::file_size(std::filesystem::path(out) / picture), 10000U);
}

TEST(Report, LeavesOutWhatTheTraceCannotServeAndDrawsTheRest) {
  const TemporaryFolder folder;
  const std::string trace = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
  const auto report = [&](const Words& more) {
    Words words = {"report", trace};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  const std::string out = (folder / "report").string();
  ASSERT_EQ(report({"-o", out, "--method", "infinipot:budget_tokens=24", "--method",
                    "quoka:budget_tokens=24", "--method", "oracle:budget_tokens=24"})
                .exit_code,
            0);
  const std::string page = text_of(out + "/report.md");
  EXPECT_TRUE(page.starts_with("# 2 methods on v1_tiny.h5\n")) << page.substr(0, 60);
  EXPECT_THAT(page, HasSubstr("Left out: `infinipot:"));
  EXPECT_TRUE(std::filesystem::exists(out + "/kv_map.png"));
  // Every method, of which pictures show six.
  const std::string all = (folder / "all.html").string();
  ASSERT_EQ(report({"-o", all, "--method", "all:budget_tokens=24"}).exit_code, 0);
  EXPECT_NE(text_of(all).find("(the first 6 of "), std::string::npos);
  // Decode steps, where no cell of the prompt is asked for.
  const std::string decode = (folder / "decode.html").string();
  ASSERT_EQ(report({"-o", decode, "--method", "quoka:budget_tokens=24", "--method",
                    "oracle:budget_tokens=24", "--chunks", "4-5"})
                .exit_code,
            0);
  EXPECT_NE(text_of(decode).find("cells of the decode steps"), std::string::npos);
  // What is refused leaves no folder behind.
  const std::string deep = (folder / "a" / "b").string();
  EXPECT_EQ(report({"-o", deep, "--method", "quoka:budget_tokens=24", "--method", "oracle",
                    "--layers", "9"})
                .exit_code,
            1);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  // A picture that cannot be written is no picture that cannot be drawn.
  const std::string full = (folder / "full").string();
  std::filesystem::create_directory(full);
  std::filesystem::create_symlink("/dev/full", full + "/kv_map.png");
  EXPECT_EQ(report({"-o", full, "--method", "quoka:budget_tokens=24", "--method",
                    "oracle:budget_tokens=24"})
                .exit_code,
            1);
  EXPECT_FALSE(std::filesystem::exists(full + "/report.md"));
}

// Under a picture's name, too.
TEST(Report, ReplacesATraceByForceAlone) {
  const TemporaryFolder folder;
  const std::string kept = (folder / "kv_map.png").string();
  std::filesystem::copy_file(kTrace, kept);
  const std::string before = text_of(kept);
  Words words = {
      "report", kTrace, "--method", "quoka:budget_tokens=24", "-o", folder.path().string()};
  expect_refused(run_program(words), 1, "an HDF5 file");
  EXPECT_EQ(text_of(kept), before);
  EXPECT_FALSE(std::filesystem::exists(folder / "report.md"));
  EXPECT_FALSE(std::filesystem::exists(folder / "worst_misses.png"));
  words.emplace_back("--force");
  const ProgramResult forced = run_program(words);
  EXPECT_EQ(forced.exit_code, 0) << forced.standard_error;
  EXPECT_NE(text_of(kept), before);
}

TEST(Report, OfTwoTracesSaysWhereTheyKeepOtherKeys) {
  const TemporaryFolder folder;
  const std::string copy = (folder / "copy.h5").string(), file = (folder / "ab.html").string();
  std::filesystem::copy_file(kTrace, copy);
  const Words two = {"report", kTrace, copy, "-o", file, "--method"};
  const auto with = [&](const Words& more) {
    Words words = two;
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  ASSERT_EQ(with({"quoka:budget_tokens=24"}).exit_code, 0);
  std::string page = text_of(file);
  EXPECT_THAT(page, HasSubstr("No divergence: A and B keep the same keys in every cell."));
  ASSERT_EQ(with({"quoka:budget_tokens=24", "--method", "random:budget_tokens=24"}).exit_code, 0);
  page = text_of(file);
  EXPECT_THAT(page, HasSubstr("First divergence: chunk "));
  EXPECT_THAT(page, HasSubstr("<svg"));
  expect_refused(with({"quoka", "--method", "random", "--method", "oracle"}), 2,
                 "3 methods on two traces make no page");
  expect_refused(run_program({"report", kTrace, kTrace, "-o", file, "--method", "quoka"}), 2,
                 "A and B are one trace");
}

}  // namespace
}  // namespace kvloupe
