// What `select` and `compare` print: the keys of their JSON, columns, labels.
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

TEST(CanonicalText, HasAllParametersInTheContractsOrder) {
  const auto canonical = [](const std::string& spec) {
    const auto result = run_program({"select", kTrace, "--method", spec, "--json", "--chunk", "0"});
    return json::parse(result.standard_output)["method"].get<std::string>();
  };
  EXPECT_EQ(canonical("dense"), "dense");
  EXPECT_EQ(canonical("quoka"),
            "quoka:budget_tokens=1024,budget_ratio=0,budget_scope=past,skip_layers=0,num_queries="
            "16,metric=cosine,"
            "query_reduce=max,group_query_mode=rank_paired,decode=select");
  EXPECT_EQ(canonical("snapkv:state=select,budget_ratio=0.25"),
            "snapkv:budget_tokens=0,budget_ratio=0.25,budget_scope=past,skip_layers=0,window=32,"
            "kernel=7,pool=max,"
            "state=select");
  EXPECT_EQ(canonical("streaming_llm:sink_tokens=2"),
            "streaming_llm:budget_tokens=1024,budget_ratio=0,budget_scope=past,skip_layers=0,sink_"
            "tokens=2,"
            "positions=original");
}

TEST(Select, OneCellEqualsTheSameCellOfAWholeReplay) {
  for (const char* spec : {"quoka:budget_tokens=24", "snapkv:budget_tokens=24,window=8"}) {
    const json all =
        json::parse(run_program({"select", kTrace, "--method", spec, "--json"}).standard_output);
    const json one = json::parse(
        run_program({"select", kTrace, "--method", spec, "--layer", "3", "--chunk", "3", "--json"})
            .standard_output);
    EXPECT_EQ(one["layers"][0]["chunks"][0], all["layers"][1]["chunks"][3]);
  }
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(Select, LaneMethodsHaveLanesInsteadOfRows) {
  const json aqua = answer_of({"select", kTrace, "--method", "aqua:basis=self", "--json"});
  EXPECT_EQ(keys_of(aqua["basis"]), (std::set<std::string>{"source", "tokens", "hash", "leakage"}));
  EXPECT_EQ(aqua["basis"]["leakage"], true);
  EXPECT_EQ(aqua["basis"]["tokens"], 152);
  const json& layer = aqua["layers"][1];
  EXPECT_FALSE(layer.contains("final_alive"));
  for (const json& chunk : layer["chunks"]) {
    EXPECT_FALSE(chunk.contains("kv_heads"));
    ASSERT_EQ(chunk["lanes"].size(), 6U);
    for (const json& lane : chunk["lanes"]) {
      EXPECT_EQ(keys_of(lane),
                (std::set<std::string>{"q_head", "counts", "score_error", "output_error"}));
      // Each row uses floor(0.75 * 16) lanes.
      int uses = 0;
      for (const json& count : lane["counts"]) uses += count.get<int>();
      EXPECT_EQ(uses, 12 * chunk["length"].get<int>());
      EXPECT_GT(lane["score_error"], 0);
      EXPECT_GT(lane["output_error"], 0);
    }
  }
  const json both = answer_of({"select", kTrace, "--method", "aqua_h2o:basis=self", "--json"});
  EXPECT_TRUE(both["layers"][0].contains("final_alive"));
  EXPECT_TRUE(both["layers"][0]["chunks"][2].contains("kv_heads"));
  EXPECT_TRUE(both["layers"][0]["chunks"][2].contains("lanes"));
  EXPECT_FALSE(answer_of({"select", kTrace, "--method", "keydiff", "--json"}).contains("basis"));
}

TEST(Select, AMissingBasisNamesTheCommandAndNoFolder) {
  const auto run = run_program({"select", kTrace, "--method", "loki:budget_tokens=24"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.standard_output, "");
  EXPECT_NE(run.standard_error.find("kvloupe calibrate loki --model FILE"), std::string::npos);
  EXPECT_EQ(run.standard_error.find('/'), std::string::npos) << run.standard_error;
}

TEST(Select, TextGivesLaneMethodsNoRecall) {
  const std::string lanes =
      run_program({"select", kTrace, "--method", "aqua:basis=self", "--layer", "1", "--chunk", "2"})
          .standard_output;
  const std::string line = lanes.substr(lanes.rfind('\n', lanes.size() - 2));
  EXPECT_NE(line.find(" - "), std::string::npos) << lanes;
  EXPECT_EQ(line.find("1.0000"), std::string::npos) << lanes;
}

TEST(Select, NamesTheLayerWhoseSetIsReused) {
  const json answer = answer_of(
      {"select", kTrace, "--method", "tidal_decode:budget_tokens=24,first_layer=1", "--json"});
  EXPECT_FALSE(answer["layers"][0]["chunks"][2].contains("source_layer"));
  EXPECT_EQ(answer["layers"][1]["chunks"][2]["source_layer"], 1);
}

TEST(Select, TextNamesLeakage) {
  const auto text = [](const std::vector<std::string>& arguments) {
    return run_program(arguments).standard_output;
  };
  EXPECT_NE(
      text({"select", kTrace, "--method", "loki:budget_tokens=24,basis=self"}).find("leakage"),
      std::string::npos);
  EXPECT_NE(text({"compare", kTrace, "--method", "aqua:basis=self"}).find("leakage: this trace"),
            std::string::npos);
}

TEST(Select, LabelsAnotherChunking) {
  const auto answer = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {kTrace, "--method", "random:budget_tokens=8", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.begin(), "select");
    const json select = json::parse(run_program(arguments).standard_output);
    arguments.front() = "compare";
    const json compare = json::parse(run_program(arguments).standard_output);
    EXPECT_EQ(select["chunk_size"], compare["chunk_size"]);
    return select;
  };
  EXPECT_TRUE(answer({})["chunk_size"].is_null());
  const json cut = answer({"--chunk-size", "50"});
  EXPECT_EQ(cut["chunk_size"], 50);
  EXPECT_EQ(cut["mode"], "open_loop");
  // 149 tokens of prompt, then three decoded ones, which stay as they are.
  std::vector<int> lengths;
  for (const json& chunk : cut["layers"][0]["chunks"]) lengths.push_back(chunk["length"]);
  EXPECT_EQ(lengths, (std::vector<int>{50, 50, 49, 1, 1, 1}));
}

TEST(Select, SavesARunThatInfoAndValidateSee) {
  std::filesystem::copy_file(kTrace, "saved.h5", std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove("saved.h5.runs.h5");
  const auto before = std::filesystem::last_write_time("saved.h5");
  ASSERT_EQ(run_program({"select", "saved.h5", "--method", "keydiff:budget_tokens=24", "--save"})
                .exit_code,
            0);
  ASSERT_EQ(
      run_program({"select", "saved.h5", "--method", "quoka:budget_tokens=24", "--save"}).exit_code,
      0);
  EXPECT_EQ(std::filesystem::last_write_time("saved.h5"), before);
  const json info = json::parse(run_program({"info", "saved.h5", "--json"}).standard_output);
  ASSERT_EQ(info["runs"].size(), 2U);
  EXPECT_EQ(info["runs"][0]["mode"], "open_loop");
  EXPECT_EQ(info["runs"][1]["method"].get<std::string>().rfind("quoka:budget_tokens=24,", 0), 0U);
  EXPECT_EQ(run_program({"validate", "saved.h5"}).exit_code, 0);
}

TEST(Compare, WritesTheSameColumnsAsCsvAndJson) {
  const auto result =
      run_program({"compare", kTrace, "--method", "oracle:budget_tokens=24", "--method",
                   "random:budget_tokens=24", "--csv", "compare.csv", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  std::ifstream csv("compare.csv");
  std::string header;
  std::getline(csv, header);
  const json rows = json::parse(result.standard_output)["rows"];
  for (const char* column :
       {"method", "scope", "index", "cells", "fallback_cells", "requested_budget",
        "effective_budget", "mass_recall", "topk_overlap", "output_error", "density"}) {
    EXPECT_NE(header.find(column), std::string::npos) << column;
    EXPECT_TRUE(rows[0].contains(column)) << column;
  }
  // Additions come last.
  EXPECT_EQ(header.substr(header.find("density")),
            "density,forced,kv_bytes,leakage,native_density,native_density_causal,"
            "native_density_rectangle,density_causal,density_rectangle,gap,span_kept,"
            "visible_recall,metadata_bytes,recall_at_1,recall_at_10,recall_at_64");
  EXPECT_TRUE(rows[0]["native_density"].is_null());
  double oracle = 0, random = 0;
  for (const json& row : rows)
    if (row["scope"] == "all" && row.value("phase", "prefill") == "prefill")
      (row["method"].get<std::string>()[0] == 'o' ? oracle : random) = row["mass_recall"];
  EXPECT_GT(oracle, random);
}

TEST(Compare, BlockMethodsHaveDensitiesBeforeAndAfterTheUnions) {
  const json rows = answer_of(
      {"compare", kTrace, "--method",
       "flash_prefill:lowering=union,block_size=8,sink_blocks=0,window_blocks=1,alpha=0.5",
       "--json"})["rows"];
  for (const json& row : rows) {
    if (row["cells"] == 0) continue;
    EXPECT_TRUE(row["requested_budget"].is_null());
    EXPECT_GT(row["native_density"], 0.0);
    EXPECT_LE(row["native_density"], row["density"]);
    EXPECT_LE(row["native_density_causal"], row["density_causal"]);
    EXPECT_LT(row["density_rectangle"], row["density_causal"]);
    EXPECT_LE(row["density_causal"], 1.0);
  }
}

// One list a query head, one a query block of the chunk, of the key blocks kept.
TEST(Select, BlockMethodsNameTheirMasks) {
  const json answer =
      answer_of({"select", kTrace, "--method",
                 "flash_prefill:lowering=union,block_size=8,sink_blocks=1,window_blocks=1",
                 "--layer", "1", "--json"});
  EXPECT_EQ(answer["block_size"], 8);
  for (const json& chunk : answer["layers"][0]["chunks"]) {
    const json& mask = chunk["block_mask"];
    EXPECT_EQ(mask.is_null(), !chunk["dense_reason"].is_null());
    if (mask.is_null()) continue;
    const int begin = chunk["begin"], end = begin + chunk["length"].get<int>();
    for (std::size_t row = 0; row < chunk["kv_heads"].size(); ++row) {
      const std::size_t group = mask.size() / chunk["kv_heads"].size();
      std::set<int> blocks;
      for (std::size_t head = row * group; head < (row + 1) * group; ++head) {
        ASSERT_EQ(static_cast<int>(mask[head].size()), (end + 7) / 8 - begin / 8);
        for (std::size_t i = 0; i < mask[head].size(); ++i) {
          const int own = begin / 8 + static_cast<int>(i);
          EXPECT_TRUE(std::is_sorted(mask[head][i].begin(), mask[head][i].end()));
          EXPECT_EQ(mask[head][i].front(), 0);
          EXPECT_EQ(mask[head][i].back(), own);
          for (const json& block : mask[head][i]) blocks.insert(block.get<int>());
        }
      }
      std::vector<int> expected;
      for (int j = 0; j < begin; ++j)
        if (blocks.contains(j / 8) || j / 8 == begin / 8) expected.push_back(j);
      EXPECT_EQ(chunk["kv_heads"][row]["selected"], json(expected));
    }
  }
  EXPECT_FALSE(answer_of({"select", kTrace, "--method", "oracle:budget_tokens=24", "--json"})
                   .contains("block_size"));
}

// Named without its lowering: native masks.
const std::string kNative = "flash_prefill:block_size=8,sink_blocks=0,window_blocks=1,alpha=0.5";

// A row a query head: the union of what its query blocks read, with the pairs of its own masks.
TEST(Select, NativeMasksHaveRowsOfQueryHeads) {
  const json united =
      answer_of({"select", kTrace, "--method", kNative + ",lowering=union", "--json"});
  const json native = answer_of({"select", kTrace, "--method", kNative, "--json"});
  EXPECT_TRUE(native["method"].get<std::string>().ends_with(",lowering=native"));
  for (std::size_t layer = 0; layer < native["layers"].size(); ++layer)
    for (std::size_t c = 0; c < native["layers"][layer]["chunks"].size(); ++c) {
      const json& chunk = native["layers"][layer]["chunks"][c];
      const json& other = united["layers"][layer]["chunks"][c];
      EXPECT_FALSE(chunk.contains("kv_heads"));
      ASSERT_EQ(chunk["q_heads"].size(), 6U);
      EXPECT_EQ(chunk["block_mask"], other["block_mask"]);
      EXPECT_EQ(chunk["dense_reason"], other["dense_reason"]);
      for (std::size_t group = 0; group < 2; ++group) {
        std::set<int> together;
        for (std::size_t head = 3 * group; head < 3 * (group + 1); ++head) {
          const json& row = chunk["q_heads"][head];
          EXPECT_EQ(row["q_head"], head);
          EXPECT_LE(row["mass_recall"], 1.0 + 1e-9);
          EXPECT_EQ(row["ties_at_cut"], 0);
          for (const json& position : row["selected"]) together.insert(position.get<int>());
        }
        EXPECT_EQ(json(together), other["kv_heads"][group]["selected"]);
      }
    }
}

TEST(Select, NativeMasksTakeNoBudget) {
  const ProgramResult result =
      run_program({"select", kTrace, "--method", kNative + ",budget_tokens=24"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.standard_output, "");
  EXPECT_NE(result.standard_error.find("lowering=native"), std::string::npos);
}

// Named alone, a block method is its own paper's.
TEST(Select, ABlockMethodNamedAloneSelectsAsItsPaper) {
  int methods = 0;
  const json cards = answer_of({"methods", "--json"});
  for (const json& card : cards["methods"]) {
    const std::string id = card["id"];
    if (id != "flash_prefill" && id != "xattention" && id != "flex_prefill") continue;
    SCOPED_TRACE(id);
    ++methods;
    EXPECT_EQ(card["row_axis"], "q_head");
    const json alone = answer_of({"select", kTrace, "--method", id, "--json"});
    EXPECT_EQ(alone, answer_of({"select", kTrace, "--method", card["paper_spec"], "--json"}));
    EXPECT_TRUE(alone["method"].get<std::string>().ends_with(",lowering=native"));
    EXPECT_EQ(alone["layers"][0]["chunks"][1]["q_heads"].size(), 6U);
  }
  EXPECT_EQ(methods, 3);
}

// Natively fewer pairs are read and less mass is kept than by the unions of the same masks.
TEST(Compare, NativeMasksAreThinnerThanTheirUnions) {
  const json rows = answer_of({"compare", kTrace, "--method", kNative + ",lowering=union",
                               "--method", kNative, "--json"})["rows"];
  json united, native;
  for (const json& row : rows)
    if (row["scope"] == "all" && row["phase"] == "prefill")
      (row["method"].get<std::string>().ends_with("native") ? native : united) = row;
  EXPECT_TRUE(native["requested_budget"].is_null());
  EXPECT_EQ(native["density"], native["native_density"]);
  EXPECT_NEAR(native["native_density"].get<double>(), united["native_density"].get<double>(), 1e-9);
  EXPECT_LT(native["density"], united["density"]);
  EXPECT_LT(native["mass_recall"], united["mass_recall"]);
  EXPECT_GT(native["output_error"], united["output_error"]);
}

TEST(Compare, AllStandsForEveryMethodAndNamesTheMissingOnes) {
  const std::size_t known = answer_of({"methods", "--json"})["methods"].size();
  const ProgramResult result =
      run_program({"compare", kTrace, "--method", "all:budget_tokens=24,basis=self", "--layers",
                   "1-1", "--cells", "own", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const json answer = json::parse(result.standard_output);
  std::set<std::string> missing, shown;
  for (const json& entry : answer["unavailable"]) {
    const std::string method = entry["method"];
    missing.insert(method.substr(0, method.find(':')));
    EXPECT_NE(entry["reason"].get<std::string>(), "");
    EXPECT_NE(result.standard_error.find("warning: " + method), std::string::npos);
  }
  for (const json& row : answer["rows"]) {
    const std::string method = row["method"];
    shown.insert(method.substr(0, method.find(':')));
    if (row["scope"] != "all" || row["phase"] != "prefill") continue;
    const bool lanes = method.starts_with("aqua") || method.starts_with("static_slicing");
    EXPECT_EQ(row["leakage"], lanes || method.starts_with("loki") ? 1 : 0) << method;
    // With two layers the methods that reuse a layer's set select in none of these, and quest is
    // dense in both.
    const bool dense = method == "dense" || method.starts_with("tidal_decode") ||
                       method.starts_with("less_is_more") || method.starts_with("quest");
    EXPECT_EQ(row["cells"] == 0, dense) << method;
    EXPECT_EQ(row["mass_recall"].is_null(), lanes || dense) << method;
    EXPECT_EQ(row["topk_overlap"].is_null(), lanes || dense) << method;
    EXPECT_TRUE(!method.starts_with("aqua:") || row["density"] == 1) << row["density"];
  }
  // They need a file that was not given.
  EXPECT_EQ(missing, (std::set<std::string>{"seer_attention", "minference"}));
  EXPECT_EQ(shown.size() + missing.size(), known);

  const json some =
      answer_of({"compare", kTrace, "--method", "loki", "--method", "dense", "--json"});
  ASSERT_EQ(some["unavailable"].size(), 1U);
  EXPECT_EQ(some["unavailable"][0]["method"].get<std::string>().rfind("loki:", 0), 0U);
}

}  // namespace
}  // namespace kvloupe
