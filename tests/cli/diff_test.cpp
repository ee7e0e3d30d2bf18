// `kvloupe diff`: what it promises to other tools, and its counts against those of the sets that `select` prints.
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";
const std::string kA = "quoka:budget_tokens=24", kB = "sliding_window:budget_tokens=24";

json diff_of(Words more) {
  more.insert(more.begin(), {"diff", kTrace});
  more.emplace_back("--json");
  return answer_of(more);
}

TEST(Diff, CountsTheSetsThatSelectPrints) {
  const json diff = diff_of({"--method", kA, "--method", kB});
  EXPECT_EQ(diff["schema"], "kvloupe-diff/1");
  std::size_t at = 0;
  json first;
  const json a = answer_of({"select", kTrace, "--method", kA, "--json"});
  const json b = answer_of({"select", kTrace, "--method", kB, "--json"});
  for (std::size_t l = 0; l < a["layers"].size(); ++l)
    for (std::size_t c = 0; c < a["layers"][l]["chunks"].size(); ++c) {
      const json& rows_a = a["layers"][l]["chunks"][c]["kv_heads"];
      const json& rows_b = b["layers"][l]["chunks"][c]["kv_heads"];
      for (std::size_t r = 0; r < rows_a.size(); ++r) {
        const std::set<int> of_a = rows_a[r]["selected"], of_b = rows_b[r]["selected"];
        int both = 0;
        for (const int key : of_a) both += static_cast<int>(of_b.count(key));
        const auto any = static_cast<double>(of_a.size() + of_b.size()) - both;
        const json& row = diff["rows"].at(at++);
        EXPECT_EQ(row["layer"], a["layers"][l]["layer"]);
        EXPECT_EQ(row["chunk"], c);
        EXPECT_EQ(row["kv_head"], r);
        EXPECT_EQ(row["jaccard"], any == 0 ? 1.0 : both / any);
        EXPECT_EQ(row["only_a"], static_cast<int>(of_a.size()) - both);
        EXPECT_EQ(row["only_b"], static_cast<int>(of_b.size()) - both);
        EXPECT_EQ(row["mass_a"], rows_a[r]["mass_recall"]);
        EXPECT_EQ(row["mass_b"], rows_b[r]["mass_recall"]);
        const bool earlier = first.is_null() || row["chunk"] < first["chunk"];
        if (row["jaccard"] < 1.0 && earlier) first = row;
      }
    }
  EXPECT_EQ(at, diff["rows"].size());
  ASSERT_FALSE(first.is_null());
  for (const char* name : {"layer", "chunk", "kv_head", "jaccard", "only_a", "only_b"})
    EXPECT_EQ(diff["first_divergence"][name], first[name]);
}

TEST(Diff, OfATraceAndItselfFindsNone) {
  const json info = answer_of({"info", kTrace, "--json"});
  const json diff = diff_of({kTrace, "--method", kA});
  EXPECT_EQ(diff["aligned_tokens"], info["tokens"]);
  EXPECT_TRUE(diff["first_divergence"].is_null());
  ASSERT_GT(diff["rows"].size(), 0U);
  for (const json& row : diff["rows"]) {
    EXPECT_EQ(row["jaccard"], 1);
    EXPECT_EQ(row["chunk_b"], row["chunk"]);
    EXPECT_EQ(row["mass_a"], row["mass_b"]);
  }
}

TEST(Diff, ComparesByTheFinerRows) {
  const json diff =
      diff_of({"--method", "quest:budget_tokens=24,page_size=4,skip_layers=0", "--method", kA});
  std::set<int> heads;
  for (const json& row : diff["rows"]) heads.insert(row.at("q_head").get<int>());
  EXPECT_EQ(heads.size(), 6U) << diff["rows"].size();
  const ProgramResult csv =
      run_program({"diff", kTrace, "--method", kA, "--method", kB, "--csv", "-"});
  EXPECT_EQ(csv.standard_output.substr(0, csv.standard_output.find('\n')),
            "layer,chunk,kv_head,jaccard,both,only_a,only_b,mass_a,mass_b");
}

TEST(Diff, ChoosesLayersAndChunks) {
  const json whole = diff_of({"--method", kA, "--method", kB});
  const json part = diff_of({"--method", kA, "--method", kB, "--layers", "3", "--chunks", "2-3"});
  json wanted = json::array();
  for (const json& row : whole["rows"])
    if (row["layer"] == 3 && row["chunk"] >= 2 && row["chunk"] <= 3) wanted.push_back(row);
  ASSERT_GT(wanted.size(), 0U);
  EXPECT_EQ(part["rows"], wanted);
}

TEST(Diff, PrintsALineForPeople) {
  const ProgramResult text = run_program({"diff", kTrace, "--method", kA, "--method", kB});
  EXPECT_EQ(text.exit_code, 0) << text.standard_error;
  EXPECT_THAT(text.standard_output, HasSubstr("First divergence: chunk "));
  std::size_t line = 0;
  for (const char letter : text.standard_output) {
    line = letter == '\n' ? 0 : line + 1;
    EXPECT_LE(line, 120U);
  }
}

TEST(Diff, RefusesWhatItCannotCompare) {
  struct Case {
    Words words;
    int exit_code;
    const char* says;
  };
  const std::vector<Case> cases = {
      {{kTrace, "--method", kA}, 2, "there is nothing to compare"},
      {{kTrace, "--method", kA, "--method", kB, "--method", kA}, 2, "3 methods"},
      {{kTrace, "--method", kA, "--method", "aqua"}, 2, "keeps every key"},
      {{kTrace, "--method", kA, "--method", "nobody"}, 2, "nobody"},
      {{kTrace, "--method", kA, "--method", "run:77"}, 1, "run 77 is not in this trace"},
      {{kTrace, "--method", kA, "--method", kB, "--layers", "99"}, 1, "layer 99"},
      {{kTrace, "--method", kA, "--method", kB, "--chunks", "99"}, 1, "chunk 99"},
      {{kTrace, "--method", kA, "--method", kB, "--csv", kTrace}, 1, "error: "},
      {{kTrace, "--method", kA, "--method", kB, "--csv", "-", "--json"}, 2, "--csv -"},
      {{kTrace, std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5", "--method", kA},
       1,
       "their models do not agree"},
      {{kTrace, "missing.h5", "--method", kA}, 1, "missing.h5"}};
  for (Case one : cases) {
    one.words.insert(one.words.begin(), "diff");
    const ProgramResult result = run_program(one.words);
    SCOPED_TRACE(one.says);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.standard_error;
    EXPECT_THAT(result.last_error_line(), HasSubstr(one.says));
    EXPECT_TRUE(result.last_error_line().starts_with("error: "));
    EXPECT_EQ(result.standard_output, "");
  }
}

}  // namespace
}  // namespace kvloupe
