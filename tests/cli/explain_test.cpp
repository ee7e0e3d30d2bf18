// What `explain` prints and refuses.
#include "tests/base/temporary_folder.h"
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

std::vector<std::string> explain(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"explain", kTrace};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Explain, HasTheKeysOfTheContract) {
  const json why = answer_of(explain({"--method", "quoka:budget_tokens=24", "--layer", "3",
                                      "--chunk", "3", "--kv-head", "1", "--key", "40", "--json"}));
  for (const char* key : {"method", "layer", "chunk", "row", "key", "kept", "score", "rank",
                          "candidates", "budget", "cut", "margin", "true_mass", "true_rank",
                          "needed_budget", "lost_at", "stages", "counterfactuals"})
    EXPECT_TRUE(why.contains(key)) << key;
  EXPECT_EQ(why["row"], json({{"kv_head", 1}}));
  EXPECT_EQ(why["candidates"], 96);
  EXPECT_EQ(why["budget"], 24);
  EXPECT_EQ(why["needed_budget"], why["rank"]);
  EXPECT_EQ(why["kept"], why["lost_at"].is_null());
  std::vector<std::string> stages;
  for (const json& stage : why["stages"]) stages.push_back(stage["stage"]);
  EXPECT_EQ(stages,
            (std::vector<std::string>{"query_sampling", "head_merge", "approximation", "budget"}));
  for (const json& what_if : why["counterfactuals"]) {
    EXPECT_TRUE(what_if.contains("kept"));
    EXPECT_NE(what_if.contains("spec"), what_if.contains("change"));
  }
}

// The set of a select is that of the explanations of its keys, and so are scores and cut.
TEST(Explain, AgreesWithSelect) {
  const json cell =
      answer_of({"select", kTrace, "--method", "quoka:budget_tokens=24", "--layer", "3", "--chunk",
                 "3", "--json", "--scores"})["layers"][0]["chunks"][0];
  const json& row = cell["kv_heads"][1];
  const auto selected = row["selected"].get<std::set<int>>();
  ASSERT_EQ(row["scores"].size(), 96U);
  for (const int key : {0, 17, 40, 63, 95}) {
    const json why =
        answer_of(explain({"--method", "quoka:budget_tokens=24", "--layer", "3", "--chunk", "3",
                           "--kv-head", "1", "--key", std::to_string(key), "--json"}));
    EXPECT_EQ(why["kept"], selected.count(key) == 1) << key;
    EXPECT_EQ(why["score"], row["scores"][static_cast<std::size_t>(key)]) << key;
    EXPECT_EQ(why["cut"], row["cut"]) << key;
  }
}

TEST(Explain, LeavesTheBudgetOutWhereItIsAskedTo) {
  const std::vector<std::string> place = {"--method",  "h2o:budget_tokens=24",
                                          "--layer",   "3",
                                          "--chunk",   "3",
                                          "--key",     "40",
                                          "--kv-head", "1",
                                          "--json"};
  const json with = answer_of(explain(place));
  EXPECT_TRUE(with["needed_budget"].is_number_integer());
  std::vector<std::string> quick = place;
  quick.push_back("--no-budget");
  const json without = answer_of(explain(quick));
  EXPECT_EQ(without["needed_budget"], nullptr);
  for (const char* key : {"kept", "score", "rank", "cut", "lost_at", "true_rank"})
    EXPECT_EQ(without[key], with[key]) << key;
}

TEST(Explain, RowsAreThoseOfTheMethod) {
  const std::vector<std::string> place = {
      "--method", "quest:budget_tokens=32", "--layer", "3", "--chunk", "3", "--key", "40"};
  std::vector<std::string> by_kv_head = place, by_q_head = place;
  by_kv_head.insert(by_kv_head.end(), {"--kv-head", "1"});
  by_q_head.insert(by_q_head.end(), {"--q-head", "4", "--json"});
  const ProgramResult refused = run_program(explain(by_kv_head));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.standard_error.find("--q-head"), std::string::npos);
  const json why = answer_of(explain(by_q_head));
  EXPECT_EQ(why["row"], json({{"q_head", 4}}));
  EXPECT_EQ(why["unit"]["begin"], 32);
  EXPECT_EQ(why["unit"]["end"], 48);
}

TEST(Explain, RefusesWhatCannotBeExplained) {
  const std::vector<std::string> method = {"--method", "quoka:budget_tokens=24"};
  const auto exit_code = [&](std::vector<std::string> more) {
    more.insert(more.begin(), method.begin(), method.end());
    return run_program(explain(more)).exit_code;
  };
  EXPECT_EQ(exit_code({}), 2);
  EXPECT_EQ(exit_code({"--layer", "3", "--chunk", "3", "--kv-head", "1"}), 2);
  EXPECT_EQ(exit_code({"--layer", "3", "--chunk", "3", "--key", "5"}), 2);
  EXPECT_EQ(exit_code({"--layer", "3", "--chunk", "3", "--kv-head", "9", "--key", "5"}), 1);
  // A key of the chunk itself, and one of an empty past.
  EXPECT_EQ(exit_code({"--layer", "3", "--chunk", "3", "--kv-head", "1", "--key", "100"}), 1);
  EXPECT_EQ(exit_code({"--layer", "3", "--chunk", "0", "--kv-head", "1", "--key", "0"}), 1);
  EXPECT_EQ(exit_code({"--layer", "7", "--chunk", "3", "--kv-head", "1", "--key", "5"}), 1);
  EXPECT_EQ(exit_code({"--layer", "3", "--chunk", "99", "--kv-head", "1", "--key", "5"}), 1);
  EXPECT_EQ(exit_code({"--worst", "0"}), 2);
  EXPECT_EQ(exit_code({"--worst", "3", "--key", "5"}), 2);
}

// Methods that evict rank what is at hand after a chunk; the text says so beside the rank.
TEST(Explain, TheTextSaysWhereAnEvictedKeyWasRanked) {
  const std::vector<std::string> place = {"--method",  "tova:budget_tokens=24",
                                          "--layer",   "3",
                                          "--chunk",   "3",
                                          "--kv-head", "0",
                                          "--key",     "5"};
  const std::string text = run_program(explain(place)).standard_output;
  std::vector<std::string> as_json = place;
  as_json.push_back("--json");
  const json why = answer_of(explain(as_json));
  ASSERT_TRUE(why["decided_at"].is_object());
  EXPECT_NE(text.find("rank " + why["rank"].dump() + " of " + why["decided_at"]["at_hand"].dump() +
                      " at hand after chunk " + why["decided_at"]["chunk"].dump()),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("the smallest budget that keeps it, a larger one need not"),
            std::string::npos)
      << text;
}

// Of a span: the sets of a select, counted by hand, and sums that add up.
TEST(Explain, OfASpanAllHeadsAreCounted) {
  const std::string method = "quoka:budget_tokens=24";
  const json loss =
      answer_of(explain({"--method", method, "--span", "30-41", "--chunk", "3", "--json"}));
  EXPECT_EQ(loss["schema"], "kvloupe-explain-span/1");
  EXPECT_EQ(loss["span"]["begin"], 30);
  EXPECT_EQ(loss["span"]["end"], 42);
  int kept = 0, whole = 0, heads = 0;
  const json sets = answer_of({"select", kTrace, "--method", method, "--chunk", "3", "--json"});
  for (const json& layer : sets["layers"])
    for (const json& head : layer["chunks"][0]["kv_heads"]) {
      int here = 0;
      for (const int key : head["selected"].get<std::vector<int>>()) here += key >= 30 && key < 42;
      kept += here;
      whole += here == 12;
      ++heads;
    }
  ASSERT_GT(heads, 0);
  EXPECT_EQ(loss["heads"], heads);
  EXPECT_EQ(loss["heads_kept_whole"], whole);
  EXPECT_EQ(loss["kept"], kept);
  EXPECT_EQ(loss["keys"], 12 * heads);
  EXPECT_EQ(loss["rows"].size(), static_cast<std::size_t>(heads));
  int lost = 0;
  for (const json& cause : loss["causes"]) lost += cause["keys"].get<int>();
  EXPECT_EQ(lost, 12 * heads - kept);
  // Enough of all is the most of any.
  std::int64_t enough = 0;
  for (const json& row : loss["rows"]) enough = std::max(enough, row["enough"].get<std::int64_t>());
  EXPECT_EQ(loss["enough"], enough);
}

// A compare with the budget that is enough keeps the whole span, and with one key less it does not.
TEST(Explain, OfASpanTheBudgetIsEnough) {
  const std::string trace = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";
  const json loss = answer_of({"explain", trace, "--method", "quoka:budget_tokens=24", "--span",
                               "30-41", "--chunk", "3", "--json"});
  const auto enough = loss["enough"].get<std::int64_t>();
  const auto kept_with = [&](std::int64_t budget) {
    const json rows =
        answer_of({"compare", trace, "--method", "quoka:budget_tokens=" + std::to_string(budget),
                   "--span", "30:42", "--scope-chunks", "3", "--json"});
    return rows["rows"][0]["span_kept"].get<double>();
  };
  EXPECT_NEAR(kept_with(enough), 1, 1e-12);
  EXPECT_LT(kept_with(enough - 1), 1 - 1e-12);
}

TEST(Explain, OfASpanTheHeadsAreATable) {
  const TemporaryFolder folder;
  const std::string file = (folder / "heads.csv").string();
  const std::vector<std::string> span = {
      "--method", "quoka:budget_tokens=24", "--span", "30:42", "--chunks", "2-3", "--no-budget"};
  auto more = span;
  more.insert(more.end(), {"--csv", file});
  const auto run = run_program(explain(more));
  EXPECT_EQ(run.exit_code, 0) << run.standard_error;
  EXPECT_NE(run.standard_output.find("In the chunks 2 to 3 quoka 24 keeps"), std::string::npos)
      << run.standard_output;
  EXPECT_NE(run.standard_output.find("Lost to: "), std::string::npos) << run.standard_output;
  std::ifstream written(file);
  std::string head;
  std::getline(written, head);
  EXPECT_EQ(head, "layer,row,kept,keys,true_mass,mass_share,mass_lost,lost_at,enough");
  // An earlier table is replaced; alone on standard output; and not with what it does not go with.
  EXPECT_EQ(run_program(explain(more)).exit_code, 0);
  more = span;
  more.insert(more.end(), {"--csv", "-"});
  EXPECT_EQ(run_program(explain(more)).standard_output.substr(0, head.size()), head);
  more.push_back("--json");
  EXPECT_EQ(run_program(explain(more)).exit_code, 2);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--kv-head", "1"}, {"--key", "31"}}) {
    more = span;
    more.insert(more.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(run_program(explain(more)).exit_code, 2);
  }
  EXPECT_EQ(run_program(explain({"--method", "oracle", "--span", "nowhere"})).exit_code, 1);
}

TEST(Explain, TheWorstAreSortedAndTheirCausesAddUp) {
  const json worst =
      answer_of(explain({"--method", "quoka:budget_tokens=24", "--worst", "10", "--json"}));
  ASSERT_EQ(worst["keys"].size(), 10U);
  double before = 1e9, shares = 0;
  for (const json& key : worst["keys"]) {
    EXPECT_LE(key["true_mass"].get<double>(), before);
    before = key["true_mass"];
  }
  for (const auto& [cause, share] : worst["all"]["causes"].items()) shares += share.get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  const json& first = worst["keys"][0];
  const json why =
      answer_of(explain({"--method", "quoka:budget_tokens=24", "--layer", first["layer"].dump(),
                         "--chunk", first["chunk"].dump(), "--kv-head",
                         first["row"]["kv_head"].dump(), "--key", first["key"].dump(), "--json"}));
  EXPECT_EQ(why["lost_at"], first["lost_at"]);
  EXPECT_EQ(why["true_mass"], first["true_mass"]);
}

// A line a layer: what it loses, and of that the share of each cause, as the JSON has them.
TEST(Explain, TheTextNamesTheCausesOfEachLayer) {
  const std::vector<std::string> words = {"--method", "quoka:budget_tokens=24", "--worst", "2"};
  const std::string text = run_program(explain(words)).standard_output;
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  const json worst = answer_of(explain(as_json));
  const std::size_t title = text.find("Causes by layer");
  ASSERT_NE(title, std::string::npos) << text;
  std::istringstream lines(text.substr(text.find('\n', title) + 1));
  std::string header;
  std::getline(lines, header);
  const auto percent = [](double share) {
    char number[16];
    std::snprintf(number, sizeof number, "%.1f", 100 * share);
    return std::string(number);
  };
  ASSERT_EQ(worst["layers"].size(), 2U);
  for (const json& layer : worst["layers"]) {
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line.substr(line.find_first_not_of(' ')).rfind(layer["layer"].dump() + " ", 0), 0U)
        << line;
    EXPECT_NE(line.find(percent(layer["lost"].get<double>() / layer["mass"].get<double>())),
              std::string::npos)
        << line;
    EXPECT_FALSE(layer["causes"].empty());
    for (const auto& [cause, share] : layer["causes"].items()) {
      std::string name = cause;
      std::replace(name.begin(), name.end(), '_', ' ');
      EXPECT_NE(header.find(name + " %"), std::string::npos) << name;
      EXPECT_NE(line.find(percent(share.get<double>())), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace kvloupe
