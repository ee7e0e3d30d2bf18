// What `compare` averages over, and its table: which chunks count, whose span, several traces.
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using Arguments = std::vector<std::string>;

// 53 tokens of prompt in chunks of 16 and two decoded ones; the needle is [3, 9), the question, in chunk
// 2, [40, 53).
const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
const std::string kNoQuestion = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";
const std::string kMethod = "random:budget_tokens=6,seed=5";

ProgramResult compare(Arguments more, const std::string& trace = kTrace) {
  more.insert(more.begin(), {"compare", trace});
  return run_program(more);
}
json rows_of(Arguments more, const std::string& trace = kTrace) {
  more.insert(more.begin(), {"compare", trace});
  more.emplace_back("--json");
  return answer_of(more)["rows"];
}

// The mean, over prefill cells of chunks from `first` to `last` in which the method chooses, of the share
// of [begin, end) that is kept: counted from the sets of `select`.
double share_kept(int first, int last, int begin, int end) {
  const json answer = answer_of({"select", kTrace, "--method", kMethod, "--json"});
  double sum = 0;
  int cells = 0;
  for (const json& layer : answer["layers"])
    for (const json& chunk : layer["chunks"]) {
      const int number = chunk["chunk"], past = chunk["begin"];
      if (chunk["phase"] != "prefill" || number < first || number > last) continue;
      const int candidates = std::min(end, past) - begin;
      if (!chunk["dense_reason"].is_null() || candidates <= 0) continue;
      for (const json& row : chunk["kv_heads"]) {
        int kept = 0;
        for (const int position : row["selected"]) kept += position >= begin && position < end;
        sum += static_cast<double>(kept) / candidates;
        ++cells;
      }
    }
  return sum / cells;
}

TEST(CompareCounts, TheSpanFromTheQuestionOnUnlessToldOtherwise) {
  const auto span_kept = [&](Arguments more) {
    more.insert(more.begin(), {"--method", kMethod, "--span", "needle"});
    return rows_of(more)[0]["span_kept"].get<double>();
  };
  EXPECT_NEAR(span_kept({}), share_kept(2, 3, 3, 9), 1e-12);
  EXPECT_NEAR(span_kept({"--scope-chunks", "0-3"}), share_kept(0, 3, 3, 9), 1e-12);
  EXPECT_NEAR(span_kept({"--chunks", "all"}), share_kept(0, 3, 3, 9), 1e-12);
  EXPECT_NEAR(span_kept({"--scope-chunks", "3"}), share_kept(3, 3, 3, 9), 1e-12);
  EXPECT_NEAR(span_kept({"--from", "needle"}), share_kept(0, 3, 3, 9), 1e-12);
  // The three differ, or the lines above would say nothing.
  EXPECT_NE(share_kept(0, 3, 3, 9), share_kept(2, 3, 3, 9));
  EXPECT_NE(share_kept(3, 3, 3, 9), share_kept(2, 3, 3, 9));
  const std::string text = compare({"--method", kMethod, "--span", "needle"}).standard_output;
  EXPECT_THAT(text,
              HasSubstr("span kept: of needle (tokens 3 to 8), from the question on (chunk 2)"));
  EXPECT_THAT(compare({"--method", kMethod, "--span", "needle", "--chunks", "all"}).standard_output,
              HasSubstr("all chunks\nspan kept: of needle (tokens 3 to 8)\n"));
}

TEST(CompareCounts, OtherNumbersOverAllChunksUnlessToldOtherwise) {
  const auto row = [&](Arguments more) {
    more.insert(more.begin(), {"--method", kMethod});
    return rows_of(more)[0];
  };
  const json all = row({}), watched = row({"--span", "needle"});
  EXPECT_EQ(all["mass_recall"], watched["mass_recall"]);
  EXPECT_EQ(all["cells"], 2 * 2 * 3);
  const json from = row({"--from", "question"}), chunks = row({"--scope-chunks", "2-3"});
  EXPECT_EQ(from["cells"], 2 * 2 * 2);
  EXPECT_EQ(from, chunks);
  EXPECT_NE(from["mass_recall"], all["mass_recall"]);
  // The mean over these chunks is that of their own rows.
  double sum = 0;
  for (const json& one : rows_of({"--method", kMethod}))
    if (one["scope"] == "chunk" && one["phase"] == "prefill" && one["index"] >= 2)
      sum += one["mass_recall"].get<double>();
  EXPECT_NEAR(from["mass_recall"].get<double>(), sum / 2, 1e-12);
  // Cut anew, the question's chunk has another number.
  EXPECT_THAT(
      compare({"--method", kMethod, "--chunk-size", "8", "--from", "question"}).standard_output,
      HasSubstr("the chunks from question on (chunk 5)"));
}

TEST(CompareCounts, TheHeadingNamesLayersWhereNotAllAreAveraged) {
  const auto text = [](Arguments more) {
    more.insert(more.begin(), {"--method", kMethod});
    return compare(more).standard_output;
  };
  EXPECT_THAT(text({"--layer", "2"}), HasSubstr("\nlayer 2\nall chunks\n"));
  EXPECT_THAT(text({"--layers", "0,2"}), HasSubstr("\nlayers 0,2\nall chunks\n"));
  for (const std::string& usual : {text({}), text({"--layers", "all"})})
    EXPECT_THAT(usual, Not(HasSubstr("layer")));
}

TEST(CompareCounts, RefusesWhatIsNotThere) {
  const auto expect = [&](Arguments more, int code, const std::string& why) {
    more.insert(more.begin(), {"--method", kMethod});
    const ProgramResult result = compare(more);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.standard_output, "");
    EXPECT_THAT(result.last_error_line(), HasSubstr(why));
  };
  expect({"--from", "answer"}, 1, "--from answer names no tokens");
  expect({"--scope-chunks", "4-9"}, 1, "has 6 chunks");
  expect({"--scope-chunks", "2-x"}, 2, "--scope-chunks 2-x");
  expect({"--from", "question", "--scope-chunks", "2"}, 2, "each says which chunks");
  expect({"--columns", "beauty"}, 2, "--columns beauty is not valid");
  expect({"--columns", "all,gap"}, 2, "--columns all is not valid");
  expect({"--columns", "gap,span_kept"}, 2, "--columns span_kept has no span");
  expect({"--mark-best"}, 2, "add --latex F or --markdown F");
  expect({"--units"}, 2, "add --csv F");
}

TEST(CompareTables, MarkTheBestWhereThatIsAskedFor) {
  Arguments both{"--method", kMethod, "--method", "random:budget_tokens=1", "--latex", "-"};
  EXPECT_THAT(compare(both).standard_output, Not(HasSubstr("\\textbf{")));
  both.push_back("--mark-best");
  EXPECT_THAT(compare(both).standard_output, HasSubstr("\\textbf{"));
}

TEST(CompareTables, SayUnitsInTheHeadOfTheCsvWhereThatIsAskedFor) {
  const auto head = [](const ProgramResult& result) {
    return result.standard_output.substr(0, result.standard_output.find('\n'));
  };
  const std::string plain = head(compare({"--method", kMethod, "--csv", "-"}));
  std::string units = head(compare({"--method", kMethod, "--csv", "-", "--units"}));
  EXPECT_NE(units, plain);
  for (std::size_t at; (at = units.find(" (KVs)")) != std::string::npos;) units.erase(at, 6);
  EXPECT_EQ(units, plain);
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.find("not available") == std::string::npos &&
        line.find("basis fitted") == std::string::npos)
      longest = std::max(longest, line.size());
  return longest;
}

TEST(CompareTable, FitsATerminalAndNamesWhatDiffersFromTheDefaults) {
  const Arguments all = {"--method", "all:budget_tokens=24,basis=self", "--cells", "own"};
  const ProgramResult run = compare(all, kNoQuestion);
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  EXPECT_LE(longest_line(run.standard_output), 120U) << run.standard_output;
  EXPECT_THAT(run.standard_output, HasSubstr("quoka:budget_tokens=24 "));
  EXPECT_THAT(run.standard_output, HasSubstr("sparq:budget_tokens=24 "));
  EXPECT_THAT(run.standard_output, Not(HasSubstr("budget_ratio")));
  EXPECT_THAT(run.standard_output, HasSubstr("\nprefill\n"));
  EXPECT_THAT(run.standard_output, HasSubstr("\ndecode\n"));
  Arguments full = all;
  full.emplace_back("--full");
  EXPECT_THAT(compare(full, kNoQuestion).standard_output,
              HasSubstr("quoka:budget_tokens=24,budget_ratio=0"));
}

TEST(CompareTable, ALongNameIsBrokenAtItsCommasAndNothingIsLost) {
  const std::string spec =
      "flash_prefill:block_size=16,alpha=0.25,sink_blocks=1,window_blocks=1,last_full_blocks=1,"
      "lowering=union";
  const ProgramResult run = compare({"--method", spec, "--columns", "all", "--cells", "own"});
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  std::string together;
  std::istringstream lines(run.standard_output);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) together += line.substr(begin, line.find(' ', begin) - begin);
  }
  EXPECT_THAT(together, HasSubstr(spec));
}

TEST(CompareTable, ColumnsAreThoseAskedFor) {
  const std::string text =
      compare({"--method", kMethod, "--columns", "topk_overlap,kv_bytes"}).standard_output;
  std::istringstream lines(text.substr(text.find("\nmethod ") + 1));
  std::string header;
  std::getline(lines, header);
  EXPECT_THAT(header, ::testing::MatchesRegex("method +cells +overlap +KV bytes"));
  const std::string usual = compare({"--method", kMethod}).standard_output;
  EXPECT_THAT(usual, Not(HasSubstr("KV bytes")));
  EXPECT_THAT(usual, HasSubstr("recall"));
}

TEST(CompareTable, AReasonIsSaidOnceForAllThatItHoldsFor) {
  Arguments arguments = {"--method",           "aqua",     "--method",
                         "aqua:dim_ratio=0.5", "--method", "oracle:budget_tokens=24"};
  const auto expect_once = [](const std::string& said, const std::string& words) {
    const auto first = said.find(words);
    ASSERT_NE(first, std::string::npos) << said;
    EXPECT_EQ(said.find(words, first + 1), std::string::npos) << said;
    EXPECT_THAT(said, HasSubstr("aqua; aqua:dim_ratio=0.5"));
  };
  const ProgramResult text = compare(arguments, kNoQuestion);
  expect_once(text.standard_output, "no basis for the model");
  EXPECT_EQ(text.standard_error, "");
  arguments.emplace_back("--json");
  expect_once(compare(arguments, kNoQuestion).standard_error, "left out");
}

TEST(CompareTraces, RowsOfEachWithItsOwnSpan) {
  std::filesystem::copy_file(kTrace, "other_name.h5",
                             std::filesystem::copy_options::overwrite_existing);
  const Arguments arguments = {"compare",  kTrace,  kNoQuestion, "other_name.h5",
                               "--method", kMethod, "--method",  "oracle:budget_tokens=6",
                               "--span",   "needle"};
  Arguments with_json = arguments;
  with_json.emplace_back("--json");
  const json answer = answer_of(with_json);
  ASSERT_EQ(answer["traces"].size(), 3U);
  EXPECT_EQ(answer["traces"][0]["span"]["begin"], 3);
  EXPECT_EQ(answer["traces"][0]["span"]["from_chunk"], 2);
  EXPECT_EQ(answer["traces"][1]["span"]["begin"], 9);
  EXPECT_EQ(answer["traces"][1]["span"]["from_chunk"], 0);
  // Each trace's rows are those that it has alone.
  for (const std::string& trace : {kTrace, kNoQuestion}) {
    const json alone = rows_of(
        {"--method", kMethod, "--method", "oracle:budget_tokens=6", "--span", "needle"}, trace);
    std::vector<json> rows;
    for (json row : answer["rows"]) {
      if (row["trace"] != trace) continue;
      row.erase("trace");
      rows.push_back(row);
    }
    EXPECT_EQ(json(rows), alone);
  }
  const ProgramResult text = run_program(arguments);
  EXPECT_THAT(text.standard_output, HasSubstr("v1_tiny"));
  EXPECT_THAT(text.standard_output, HasSubstr("other_name"));
  EXPECT_LE(longest_line(text.standard_output), 120U);
  // Of one trace no row says whose it is.
  EXPECT_FALSE(rows_of({"--method", kMethod})[0].contains("trace"));
}

}  // namespace
}  // namespace kvloupe
