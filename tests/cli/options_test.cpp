// One way to say things in all commands: layers and chunks, the chunk size, heads, the default budget.
#include "tests/base/matchers.h"
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
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

// Layers 1 and 3; 149 tokens of prompt in chunks of up to 32, three decoded ones.
const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

json select(const Words& more) {
  Words words = {"select", kTrace, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return answer_of(words);
}

void expect_refused(const Words& words, int exit_code, const std::string& why) {
  SCOPED_TRACE(::testing::PrintToString(words));
  kvloupe::expect_refused(run_program(words), exit_code, why);
}

TEST(LayersAndChunks, AreSaidAlikeByBothNames) {
  for (const char* spec : {"quoka:budget_tokens=24", "h2o:budget_tokens=24"}) {
    SCOPED_TRACE(spec);
    const json all = select({"--method", spec});
    for (const char* option : {"--layer", "--layers"}) {
      for (const char* text : {"all", "1,3", "1-1,3", "3,1,3"})
        EXPECT_EQ(select({"--method", spec, option, text}), all) << option << " " << text;
      EXPECT_EQ(select({"--method", spec, option, "3-3"})["layers"], json({all["layers"][1]}));
    }
    const std::vector<std::pair<std::string, std::vector<int>>> lists = {
        {"2", {2}}, {"2-4", {2, 3, 4}}, {"1,4", {1, 4}}, {"0-1,7,3", {0, 1, 3, 7}}};
    for (const char* option : {"--chunk", "--chunks"})
      for (const auto& [text, chunks] : lists) {
        json expected = all;
        for (json& layer : expected["layers"]) {
          json cells = json::array();
          for (const int chunk : chunks) cells.push_back(layer["chunks"][chunk]);
          layer["chunks"] = cells;
          // The set after the last chunk is known where that one is asked for.
          if (chunks.back() != 7) layer.erase("final_alive");
        }
        EXPECT_EQ(select({"--method", spec, option, text}), expected) << option << " " << text;
      }
  }
}

TEST(LayersAndChunks, WhatIsWrongIsOneSentence) {
  const std::vector<Words> commands = {
      {"select", kTrace},
      {"explain", kTrace, "--worst", "1"},
      {"report", kTrace, "-o", "never"},
      {"latency", kTrace, "--repetitions", "1"},
  };
  const auto with = [](Words words, const char* option, const char* text) {
    words.insert(words.end(), {"--method", "quoka:budget_tokens=24", option, text});
    return words;
  };
  for (const Words& command : commands) {
    for (const char* text : {"first", "3-", "5-3", "1,,3", "1,", "1.5", "all,3", "1 3"})
      for (const auto& [option, names] :
           {std::pair{"--layer", "--layers"}, std::pair{"--chunk", "--chunks"}})
        expect_refused(with(command, option, text), 2, std::string(names) + " " + text);
    for (const char* option : {"--layer", "--layers"})
      expect_refused(with(command, option, "1-3"), 1, "layer 2 is not in this trace");
    Words twice = with(command, "--layer", "1");
    twice.insert(twice.end(), {"--layers", "3"});
    expect_refused(twice, 2, "--layer");
  }
  for (const std::size_t command : {0, 1, 2})
    expect_refused(with(commands[command], "--chunks", "3,8"), 1, "chunk 8 is not in this trace");
  expect_refused(with(commands[3], "--chunks", "3,8"), 1, "chunk 8 cannot be timed");
  expect_refused(with({"compare", kTrace}, "--chunk", "3,8"), 1, "chunk 8 is not in this trace");
  expect_refused(with({"compare", kTrace}, "--layer", "2"), 1, "layer 2 is not in this trace");
  expect_refused(with({"compare", kTrace}, "--layer", "x"), 2, "--layers x");
  EXPECT_FALSE(std::filesystem::exists("never"));
}

// The mean over some chunks is that of their own rows.
TEST(LayersAndChunks, OfACompareAreAveraged) {
  const auto compare = [](const Words& more) {
    Words words = {"compare", kTrace, "--method", "h2o:budget_tokens=24", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return answer_of(words)["rows"];
  };
  double sum = 0;
  for (const json& row : compare({}))
    if (row["scope"] == "chunk" && (row["index"] == 2 || row["index"] == 4))
      sum += row["mass_recall"].get<double>();
  const json some = compare({"--chunks", "2,4"});
  EXPECT_NEAR(some[0]["mass_recall"].get<double>(), sum / 2, 1e-9);
  EXPECT_EQ(some[0]["cells"], 2 * 2 * 2);  // layers, KV heads, chunks
}

TEST(LayersAndChunks, AKeyIsExplainedInOneCell) {
  const auto explain = [](const char* layers, const char* chunks) {
    return Words{"explain",  kTrace, "--method",  "quoka:budget_tokens=24",
                 "--layers", layers, "--chunk",   chunks,
                 "--key",    "40",   "--kv-head", "1",
                 "--json"};
  };
  EXPECT_EQ(answer_of(explain("3", "3-3"))["layer"], 3);
  for (const char* several : {"1,3", "1-3", "all"})
    expect_refused(explain(several, "3"), 2, "a key is explained in one layer; give one number");
  expect_refused(explain("3", "3-4"), 2, "a key is explained in one chunk; give one number");
}

// What is lost in several chunks and layers is the sum of what is lost in each.
TEST(LayersAndChunks, OfTheWorstMissesAddUp) {
  for (const char* spec : {"quoka:budget_tokens=24", "tova:budget_tokens=24"}) {
    SCOPED_TRACE(spec);
    const auto lost = [&](const char* layers, const char* chunks) {
      return answer_of({"explain", kTrace, "--method", spec, "--worst", "5", "--layer", layers,
                        "--chunk", chunks, "--json"});
    };
    const json both = lost("1,3", "2,4");
    double sum = 0;
    for (const char* layer : {"1", "3"})
      for (const char* chunk : {"2", "4"}) sum += lost(layer, chunk)["all"]["lost"].get<double>();
    EXPECT_GT(sum, 0);
    EXPECT_NEAR(both["all"]["lost"].get<double>(), sum, 1e-9 * sum);
    for (const json& key : both["keys"])
      EXPECT_TRUE(key["chunk"] == 2 || key["chunk"] == 4) << key.dump();
    EXPECT_LT(sum, lost("all", "all")["all"]["lost"].get<double>());
  }
}

TEST(LayersAndChunks, OfALatencyAreTimedEach) {
  const json rows =
      answer_of({"latency", kTrace, "--method", "oracle:budget_tokens=24", "--repetitions", "1",
                 "--layers", "1,3", "--chunks", "3-4", "--json"})["rows"];
  std::vector<std::pair<int, int>> cells;
  for (const json& row : rows) cells.emplace_back(row["layer"], row["chunk"]);
  EXPECT_EQ(cells, (std::vector<std::pair<int, int>>{{1, 3}, {1, 4}, {3, 3}, {3, 4}}));
}

TEST(LayersAndChunks, OfACaptureMayHaveGaps) {
  const std::string model = std::string(KVLOUPE_TEST_DATA_DIR) + "/models/llama";  // of 3 layers
  const auto capture = [&](const char* option, const char* layers) {
    return Words{"capture", "--model", model, "--raw",     "--prompt", "the cat sat on the mat",
                 option,    layers,    "-o",  "layers.h5", "--force"};
  };
  for (const auto& [layers, expected] :
       {std::pair{"0,2", std::vector{0, 2}}, std::pair{"1-2", std::vector{1, 2}},
        std::pair{"all", std::vector{0, 1, 2}}}) {
    const ProgramResult result = run_program(capture("--layer", layers));
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(answer_of({"info", "layers.h5", "--json"})["layers"], json(expected));
    EXPECT_EQ(run_program({"validate", "layers.h5"}).exit_code, 0);
  }
  expect_refused(capture("--layers", "0,3"), 1, "layer 3 is not in the model");
  expect_refused(capture("--layers", "2-1"), 2, "--layers 2-1");
}

TEST(Special, GoesWithARawText) {
  const std::string model = std::string(KVLOUPE_TEST_DATA_DIR) + "/models/llama";
  expect_refused({"capture", "--model", model, "--special", "--prompt", "the cat", "-o", "s.h5"}, 2,
                 "--special needs --raw");
  expect_refused({"capture", "--model", model, "--special", "--raw", "--task",
                  "niah:length=256,depth=0.5", "-o", "s.h5"},
                 2, "--special needs --raw");
}

TEST(Report, SaysOfWhichLayersAndChunksItIs) {
  const TemporaryFolder folder;
  const std::string page = (folder.path() / "report").string();
  const ProgramResult result =
      run_program({"report", kTrace, "--method", "quoka:budget_tokens=24", "--layer", "3",
                   "--chunks", "1-2", "--chunk-size", "50", "-o", page});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  std::ifstream file(page + "/report.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("The prompt is cut anew into chunks of 50."));
  EXPECT_THAT(text, HasSubstr("The numbers are of the layers 3."));
  EXPECT_THAT(text, HasSubstr("The numbers are of the chunks 1-2."));
  const json mean = answer_of({"select", kTrace, "--method", "quoka:budget_tokens=24", "--layers",
                               "3", "--chunks", "1-2", "--chunk-size", "50", "--json"});
  double recall = 0;
  for (const json& chunk : mean["layers"][0]["chunks"])
    for (const json& row : chunk["kv_heads"]) recall += row["mass_recall"].get<double>() / 4;
  char number[16];
  std::snprintf(number, sizeof number, "| %.4f |", recall);
  EXPECT_THAT(text, HasSubstr(number));
  EXPECT_THAT(text, HasSubstr("| 4 | 4 |"));  // cells chosen in, of all
}

// The keys of a cell of another cut are explained as they are selected there.
TEST(ChunkSize, IsTakenWhereASelectionIsMade) {
  const Words method = {"--method", "quoka:budget_tokens=24", "--chunk-size", "50"};
  const auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), method.begin(), method.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const json cell = answer_of(with(
      {"select", kTrace}, {"--layer", "3", "--chunk", "2", "--json"}))["layers"][0]["chunks"][0];
  EXPECT_EQ(cell["begin"], 100);
  const auto selected = cell["kv_heads"][1]["selected"].get<std::set<int>>();
  for (const int key : {0, 17, 40, 63, 95, 99}) {
    const json why =
        answer_of(with({"explain", kTrace}, {"--layer", "3", "--chunk", "2", "--kv-head", "1",
                                             "--key", std::to_string(key), "--json"}));
    EXPECT_EQ(why["kept"], selected.contains(key)) << key;
    EXPECT_EQ(why["candidates"], 100);
    EXPECT_EQ(why["chunk_size"], 50);
  }
  const json lost = answer_of(with({"explain", kTrace}, {"--worst", "3", "--json"}));
  EXPECT_EQ(lost["chunk_size"], 50);
  EXPECT_EQ(lost["layers"][0]["cells"], 2 * 5);  // KV heads; chunks 1, 2 and three decode steps

  const json latency =
      answer_of(with({"latency", kTrace}, {"--chunks", "2", "--repetitions", "1", "--json"}));
  EXPECT_EQ(latency["chunk_size"], 50);
  EXPECT_EQ(latency["rows"][0]["past"], 100);

  // A view of the cut, by the same sets.
  const ProgramResult map = run_program(
      with({"export", kTrace}, {"--view", "kv_map", "--csv", "-", "--goto", "layer=3,kv_head=1"}));
  ASSERT_EQ(map.exit_code, 0) << map.standard_error;
  std::istringstream lines(map.standard_output);
  std::set<int> kept;
  for (std::string line; std::getline(lines, line);) {
    int begin = 0, end = 0;
    if (line.find(",kept,") != std::string::npos &&
        std::sscanf(line.c_str(), "2,%d,%d,", &begin, &end) == 2)
      for (int key = begin; key < end; ++key) kept.insert(key);
  }
  EXPECT_EQ(kept, selected);
}

TEST(ChunkSize, IsRefusedWhereTheTraceCannotServeIt) {
  for (const Words& words : {Words{"select", kTrace}, Words{"explain", kTrace, "--worst", "1"},
                             Words{"latency", kTrace, "--repetitions", "1"}}) {
    Words all = words;
    all.insert(all.end(), {"--method", "infinipot:budget_tokens=24", "--chunk-size", "50"});
    expect_refused(all, 1, "the trace holds");
  }
  expect_refused({"export", kTrace, "--view", "kv_map", "--chunk-size", "0", "--csv", "-"}, 2,
                 "--chunk-size");
}

TEST(Place, OfAHeadNamesBothKinds) {
  expect_refused({"export", kTrace, "--view", "kv_map", "--goto", "head=3", "--csv", "-"}, 2,
                 "write q_head=3 or kv_head=3");
  expect_refused({"export", kTrace, "--view", "kv_map", "--goto", "heads=3", "--csv", "-"}, 2,
                 "q_head, kv_head");
}

// A SPEC has 1,024; the program's own choice has an eighth of a trace that is no longer than that.
TEST(DefaultBudget, IsStatedWhereItKeepsEverything) {
  for (const Words& words : {Words{"select", kTrace}, Words{"compare", kTrace},
                             Words{"explain", kTrace, "--worst", "1"}}) {
    const auto said = [&](const char* spec) {
      Words all = words;
      all.insert(all.end(), {"--method", spec});
      return run_program(all).standard_error;
    };
    EXPECT_THAT(said("quoka"), HasSubstr("quoka keeps every key: the budget holds all 152 tokens"));
    EXPECT_THAT(said("quoka"), HasSubstr("budget_tokens=19"));
    EXPECT_EQ(said("quoka:budget_tokens=24"), "");
  }
  for (const char* command :
       {"select", "compare", "explain", "report", "latency", "export", "capture", "synthesize"})
    EXPECT_THAT(run_program({command, "--help"}).standard_output, HasSubstr("budget_tokens=1024"));
  EXPECT_EQ(select({"--method", "quoka", "--chunk", "0"})["method"].get<std::string>().rfind(
                "quoka:budget_tokens=1024,", 0),
            0U);
  const ProgramResult shown =
      run_program({"export", kTrace, "--view", "method_compare", "--csv", "-"});
  EXPECT_THAT(shown.standard_output, HasSubstr("quoka:budget_tokens=19,"));
  EXPECT_THAT(shown.standard_output, HasSubstr("oracle:budget_tokens=19,"));
}

TEST(CompareCells, AreCommonUnlessToldOtherwise) {
  const Words both = {"compare",  kTrace,
                      "--method", "oracle:budget_tokens=24",
                      "--method", "oracle:budget_tokens=70",
                      "--json"};
  const auto with = [&](const Words& more) {
    Words words = both;
    words.insert(words.end(), more.begin(), more.end());
    return answer_of(words);
  };
  EXPECT_EQ(with({})["cells"], "common");
  EXPECT_EQ(with({}), with({"--cells", "common"}));
  EXPECT_NE(with({})["rows"], with({"--cells", "own"})["rows"]);
}

TEST(CompareCells, ThatAreNotThereAreASentence) {
  const ProgramResult text = run_program({"compare", kTrace, "--method", "oracle:budget_tokens=24",
                                          "--method", "quoka:budget_tokens=500"});
  EXPECT_EQ(text.exit_code, 0) << text.standard_error;
  for (const char* phase : {"prefill", "decode"})
    EXPECT_THAT(
        text.standard_error,
        HasSubstr(std::string("no ") + phase +
                  " cell is common to all these methods: everything is kept in every one by "
                  "quoka:budget_tokens=500"));
  EXPECT_EQ(text.standard_output, "No cell is averaged, as the warnings say.\n");
  EXPECT_THAT(run_program({"compare", kTrace, "--method", "dense"}).standard_error,
              HasSubstr("none of these methods chooses among keys"));
  // Each is dense somewhere, and none everywhere.
  const ProgramResult apart =
      run_program({"compare", kTrace, "--method", "tidal_decode:budget_tokens=24,first_layer=1",
                   "--method", "oracle:budget_tokens=24,skip_layers=4", "--json"});
  EXPECT_THAT(apart.standard_error, HasSubstr("no prefill cell is common"));
  const json answer = json::parse(apart.standard_output);
  for (const json& row : answer["rows"]) EXPECT_EQ(row["cells"], 0);
  const ProgramResult own = run_program({"compare", kTrace, "--method", "oracle:budget_tokens=24",
                                         "--method", "quoka:budget_tokens=500", "--cells", "own"});
  EXPECT_THAT(own.standard_error, Not(HasSubstr("is common")));
  EXPECT_THAT(own.standard_output, HasSubstr("oracle"));
}

}  // namespace
}  // namespace kvloupe
