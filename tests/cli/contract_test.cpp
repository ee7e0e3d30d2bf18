// Exit codes, error sentences and JSON shapes that other tools depend on.
#include "tests/cli/cli_test.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

const std::string kGoldens = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/";
const std::string kTrace = kGoldens + "group3_f16.h5";
const std::string kNoProbe = std::string(KVLOUPE_TEST_DATA_DIR) + "/v1_tiny.h5";

void expect_all_refused(const std::vector<std::vector<std::string>>& wrong, int exit_code) {
  for (const auto& arguments : wrong) {
    std::string text;
    for (const std::string& argument : arguments) text += argument + " ";
    SCOPED_TRACE(text);
    expect_refused(run_program(arguments), exit_code);
  }
}

TEST(UsageErrors, ExitWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {"frobnicate"},
      {"select", kTrace, "--method", "dense", "--device", "tpu"},
      {"compare", kTrace, "--method", "dense", "--device", "cuda:x"},
      {"latency", kTrace, "--method", "dense", "--device", ""},
      {"export", kTrace, "--view", "kv_map", "--device", "gpu", "--png", "never.png"},
      {"info"},
      {"info", kTrace, "--frobnicate"},
      {"--threads", "0", "info", kTrace},
      {"--memory-limit", "plenty", "info", kTrace},
      {"select", kTrace},
      {"select", kTrace, kTrace, "--method", "dense"},
      {"info", kTrace, kTrace},
      {kTrace, "info", kTrace},
      {"methods", "stray"},
      {"compare", kTrace, "--method", "all:nonesuch=1"},
      {"compare", kTrace, "--method", "all:budget_tokens=-1"},
      {"select", kTrace, "--method", "all"},
      {"select", kTrace, "--method", "aqua:budget_tokens=8"},
      {"select", kTrace, "--method", "h2o:budget_scope=all"},
      {"select", kTrace, "--method", "nonesuch"},
      {"select", kTrace, "--method", "quoka:nonesuch=1"},
      {"select", kTrace, "--method", "quoka:budget_tokens=-1"},
      {"select", kTrace, "--method", "quoka:budget_tokens=16x"},
      {"select", kTrace, "--method", "quoka:budget_tokens=16,budget_tokens=17"},
      {"select", kTrace, "--method", "quoka:budget_tokens=0"},
      {"select", kTrace, "--method", "quoka:budget_tokens=8,budget_ratio=0.5"},
      {"select", kTrace, "--method", "quoka:budget_ratio=1.5"},
      {"select", kTrace, "--method", "quoka:budget_ratio=nan"},
      {"select", kTrace, "--method", "quoka:metric=euclid"},
      {"select", kTrace, "--method", "quoka:num_queries=0"},
      {"select", kTrace, "--method", "quoka:"},
      {"select", kTrace, "--method", "snapkv:budget_scope=all"},
      {"select", kTrace, "--method", "snapkv:kernel=4"},
      {"select", kTrace, "--method", "dense:budget_tokens=4"},
      {"select", kTrace, "--method", "dense", "--layer", "first"},
      {"export", kTrace, "--view", "nonesuch", "--png", "never.png"},
      {"export", kTrace, "--view", "kv_map", "--method", "dense", "--method", "oracle", "--method",
       "random", "--png", "never.png"},
      {"capture", "--model", "smollm2", "--prompt", "a", "--method", "nonesuch", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--task", "nonesuch", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--task", "niah:length=512,depth=1.5", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "--task", "niah:length=512", "-o",
       "never.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "--chunk-size", "0", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "--compute", "int8", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "--store", "qkv,nonesuch", "-o",
       "never.h5"},
  };
  expect_all_refused(wrong, 2);
  EXPECT_FALSE(std::filesystem::exists("never.h5"));
  EXPECT_FALSE(std::filesystem::exists("never.png"));
}

TEST(InputErrors, ExitWithOne) {
  std::ofstream("not_a_trace.h5") << "plain text";
  std::ofstream("empty.h5") << "";
  const std::vector<std::vector<std::string>> wrong = {
      {"info", "no_such_file.h5"},
      {"info", "not_a_trace.h5"},
      {"info", "empty.h5"},
      {"info", "."},
      {"validate", "not_a_trace.h5"},
      {"select", "no_such_file.h5", "--method", "dense"},
      {"select", kTrace, "--method", "dense", "--layer", "2"},
      {"select", kTrace, "--method", "dense", "--chunk", "99"},
      {"compare", kTrace, "--method", "dense", "--layers", "0-3"},
      {"select", kTrace, "--method", "tidal_decode"},
      {"select", kTrace, "--method", "dense", "--device", "cuda:1023"},
      {"latency", kTrace, "--method", "dense", "--device", "cuda:1023"},
      {"export", kTrace, "--view", "kv_map", "--device", "cuda:1023", "--png", "never.png"},
      {"select", kTrace, "--method", "loki"},
      {"select", kTrace, "--method", "aqua:basis=no_such_file.h5"},
      {"select", kTrace, "--method", "infinipot", "--chunk-size", "50"},
      {"select", kNoProbe, "--method", "infinipot"},
      {"compare", kTrace, "--method", "aqua", "--method", "tidal_decode"},
      {"export", kTrace, "--view", "kv_map", "--goto", "layer=0", "--png", "never.png"},
      {"capture", "--model", "no_such_model.gguf", "--prompt", "a", "-o", "never.h5"},
      {"capture", "--model", "not_a_trace.h5", "--prompt", "a", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--prompt-file", "no_such_prompt.txt", "-o", "never.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "-o", "no_such_folder/never.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "-o", "empty.h5"},
      {"capture", "--model", "smollm2", "--prompt", "a", "--device", "cuda:1023", "-o", "never.h5"},
  };
  expect_all_refused(wrong, 1);
  EXPECT_FALSE(std::filesystem::exists("never.h5"));
  EXPECT_FALSE(std::filesystem::exists("never.h5.part"));
  EXPECT_FALSE(std::filesystem::exists("never.png"));
  EXPECT_EQ(std::filesystem::file_size("empty.h5"), 0U);
}

TEST(Info, HasTheKeysOfTheContract) {
  const ProgramResult result = run_program({"info", kTrace, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const json info = json::parse(result.standard_output);
  EXPECT_EQ(info["path"], kTrace);
  EXPECT_EQ(info["schema_version"], "1.1");
  EXPECT_EQ(info["complete"], true);
  EXPECT_EQ(info["mode"], "open_loop");
  EXPECT_EQ(info["model"]["num_q_heads"], 6);
  EXPECT_EQ(info["tokens"], 152);
  EXPECT_EQ(info["chunks_done"], 8);
  EXPECT_EQ(info["layers"], json::array({1, 3}));
  EXPECT_EQ(info["dtype"], "f16");
  EXPECT_EQ(info["runs"], json::array());
  EXPECT_TRUE(info["probe"]["text"].is_string());
  EXPECT_GT(info["probe"]["num_tokens"], 0);
  EXPECT_EQ(info["bytes"], std::filesystem::file_size(kTrace));
}

TEST(Capture, ComputesInTheTypeThatIsAskedForAndSaysSo) {
  const std::string model =
      (std::filesystem::path(kGoldens).parent_path().parent_path() / "models/llama").string();
  for (const char* compute : {"fp32", "bf16", "fp16"}) {
    const ProgramResult result =
        run_program({"capture", "--model", model, "--raw", "--prompt", "the cat sat on the mat",
                     "--compute", compute, "--force", "-o", "computed.h5"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(answer_of({"info", "computed.h5", "--json"})["model"]["compute"], compute);
  }
  EXPECT_EQ(answer_of({"info", kTrace, "--json"})["model"]["compute"], nullptr);
}

TEST(Devices, HasTheKeysOfTheContract) {
  const json devices = answer_of({"devices", "--json"})["devices"];
  ASSERT_GE(devices.size(), 3U);
  EXPECT_EQ(devices[0]["id"], "cpu");
  EXPECT_EQ(devices[0]["available"], true);
  EXPECT_EQ(devices[0]["reason"], nullptr);
  EXPECT_GT(devices[0]["threads"], 0);
  EXPECT_GT(devices[0]["memory_bytes"], 1 << 28);
  for (const json& device : devices)
    EXPECT_EQ(device["available"] == true, device["reason"].is_null()) << device.dump();
  EXPECT_EQ(run_program({"devices"}).exit_code, 0);
}

TEST(Devices, SimSelectsWhatTheCpuDoes) {
  const auto selected = [](const std::string& device) {
    const ProgramResult run = run_program(
        {"select", kTrace, "--method", "quoka:budget_tokens=16", "--device", device, "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.standard_error;
    std::vector<nlohmann::json> sets;
    const auto answer = nlohmann::json::parse(run.standard_output);
    for (const auto& layer : answer["layers"])
      for (const auto& chunk : layer["chunks"])
        for (const auto& head : chunk["kv_heads"]) sets.push_back(head["selected"]);
    return sets;
  };
  EXPECT_EQ(selected("sim"), selected("cpu"));
}

// What the host may ask of a device in one cell, at most: how often it waits and how many kernels it starts.
// Where a wait more appears, or it has to start more, a GPU stands idle: the counts may fall.
struct CellLimits {
  std::string spec;  // "@" stands for what the names of the trace's own files begin with
  int host_waits, launches;
};

const std::vector<CellLimits> kCellLimits = {
    {"dense", 0, 1},
    {"oracle:budget_tokens=16", 0, 8},
    {"random:budget_tokens=16", 0, 3},
    {"sliding_window:budget_tokens=16", 0, 3},
    {"quoka:budget_tokens=16", 0, 10},
    {"uniform_queries:budget_tokens=16", 0, 10},
    {"sample_attention:budget_tokens=16", 0, 11},
    {"sample_attention:budget_tokens=16,mode=coverage", 1, 29},
    {"sparq:budget_tokens=16", 0, 39},
    {"loki:budget_tokens=16,basis=self", 0, 14},
    {"tidal_decode:budget_tokens=16,first_layer=1,correction_layer=3,sel_layers=set", 1, 10},
    {"tidal_decode:budget_tokens=16,first_layer=1,correction_layer=0", 0, 3},
    {"less_is_more:budget_tokens=16,first_layer=1,correction_layer=3,sel_layers=set", 1, 10},
    {"snapkv:budget_tokens=16,window=8", 1, 21},
    {"snapkv:budget_tokens=16,window=8,state=select", 0, 11},
    {"keydiff:budget_tokens=16", 1, 41},
    {"keydiff:budget_tokens=16,state=select", 0, 21},
    {"h2o:budget_tokens=16", 1, 17},
    {"tova:budget_tokens=16", 1, 24},
    {"streaming_llm:budget_tokens=16", 0, 3},
    {"infinipot:budget_tokens=16", 1, 15},
    {"quest:budget_tokens=16,page_size=4", 1, 9},
    {"aqua:basis=self", 1, 85},
    {"static_slicing:basis=self", 0, 36},
    {"aqua_h2o:basis=self", 2, 135},
    {"aqua_memory:basis=self,slice_values=1", 1, 86},
    {"flash_prefill:block_size=8", 1, 20},
    {"xattention:block_size=8,stride=4", 1, 37},
    {"seer_attention:block_size=8,gate=@gate.safetensors", 1, 56},
    {"minference:config=@patterns.json", 2, 13},
    {"flex_prefill:block_size=8,min_budget=16", 2, 30},
    {"compact_attention:selector=flash_prefill,block_size=8", 1, 20},
    {"compact_attention:selector=xattention,block_size=8,stride=4", 1, 37},
    {"compact_attention:selector=seer_attention,block_size=8,gate=@gate.safetensors", 1, 56}};

std::string id_of(const std::string& spec) { return spec.substr(0, spec.find(':')); }

int sum_of_parts(const json& counts) {
  return counts["select"].get<int>() + counts["gather"].get<int>() + counts["attend"].get<int>();
}

// In a layer and chunk where each method chooses among 96 past keys.
TEST(Devices, MethodsDoNotWaitForTheDevice) {
  Words arguments = {"latency", kTrace, "--device", "sim", "--repetitions", "1", "--json"};
  for (const CellLimits& limits : kCellLimits) {
    std::string spec = limits.spec;
    if (const auto at = spec.find('@'); at != std::string::npos)
      spec.replace(at, 1, kGoldens + "group3_f16_");
    arguments.insert(arguments.end(), {"--method", spec});
  }
  const json answer = answer_of(arguments);
  EXPECT_EQ(answer["unavailable"], json::array());
  ASSERT_EQ(answer["rows"].size(), kCellLimits.size());
  for (std::size_t i = 0; i < kCellLimits.size(); ++i) {
    const CellLimits& limits = kCellLimits[i];
    const json& row = answer["rows"][i];
    SCOPED_TRACE(limits.spec);
    EXPECT_EQ(id_of(row["method"].get<std::string>()), id_of(limits.spec));
    EXPECT_EQ(row["dense_reason"].is_null(), limits.spec != "dense");
    EXPECT_LE(sum_of_parts(row["host_waits"]), limits.host_waits);
    EXPECT_LE(sum_of_parts(row["launches"]), limits.launches);
  }
  const json cpu =
      answer_of({"latency", kTrace, "--method", "dense", "--repetitions", "1", "--json"});
  EXPECT_FALSE(cpu["rows"][0].contains("host_waits"));
}

TEST(Devices, EachMethodOfTheCatalogueIsCounted) {
  std::set<std::string> ids;
  std::string specs;
  for (const CellLimits& limits : kCellLimits) {
    ids.insert(id_of(limits.spec));
    specs += limits.spec + ",";
  }
  const json all = answer_of({"methods", "--json"});
  for (const json& method : all["methods"]) {
    EXPECT_TRUE(ids.contains(method["id"].get<std::string>())) << method["id"];
    // What it builds on.
    for (const json& param : method["parameters"])
      for (const json& choice : param["name"] == "selector" ? param["choices"] : json::array())
        EXPECT_THAT(specs, HasSubstr("selector=" + choice.get<std::string>() + ","));
  }
}

// Scores of so many keys are ranked in parts.
TEST(Devices, AfterALongPastTooMethodsStartFewKernels) {
  const json answer = answer_of({"latency", kTrace, "--chunk-size", "8", "--lengths", "30720",
                                 "--method", "quoka:budget_tokens=1024,num_queries=4", "--method",
                                 "uniform_queries:budget_tokens=1024,num_queries=4", "--device",
                                 "sim", "--repetitions", "1", "--json"});
  ASSERT_EQ(answer["rows"].size(), 2U) << answer["unavailable"];
  for (const json& row : answer["rows"]) {
    SCOPED_TRACE(row["method"].get<std::string>());
    EXPECT_EQ(row["past"], 30720);
    EXPECT_TRUE(row["dense_reason"].is_null());
    EXPECT_LE(sum_of_parts(row["host_waits"]), 1);
    EXPECT_LE(sum_of_parts(row["launches"]), 10);
  }
}

// However many blocks of queries, or queries, choose for themselves.
TEST(Devices, QueryBlocksDoNotWaitOneByOne) {
  const ProgramResult run =
      run_program({"latency", kTrace, "--method", "flash_prefill:block_size=4", "--method",
                   "xattention:block_size=4,stride=2", "--method", "compact_attention:block_size=4",
                   "--method", "flex_prefill:block_size=4", "--method",
                   "quest:prefill=per_query,page_size=4,budget_tokens=16,skip_layers=0", "--chunk",
                   "1", "--device", "sim", "--repetitions", "1", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  const auto answer = nlohmann::json::parse(run.standard_output);
  ASSERT_EQ(answer["rows"].size(), 5U) << answer["unavailable"];
  for (const auto& row : answer["rows"]) {
    ASSERT_GE(row["chunk_len"], 16) << "four blocks of queries at least";
    EXPECT_TRUE(row["dense_reason"].is_null());
    const json& waits = row["host_waits"];
    EXPECT_LE(waits["select"].get<int>() + waits["gather"].get<int>() + waits["attend"].get<int>(),
              2)
        << row["method"];
  }
}

TEST(Validate, FindsTheGoldenTracesSound) {
  EXPECT_EQ(run_program({"validate", kTrace}).exit_code, 0);
  EXPECT_EQ(run_program({"validate", kGoldens + "group1_f32.h5"}).exit_code, 0);
}

TEST(Validate, SaysOfResultsWhatTheyAre) {
  const ProgramResult run =
      run_program({"validate", kGoldens + "../../../assets/results/smollm2_needles.h5"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.standard_error.find("it holds results of an evaluation"), std::string::npos)
      << run.standard_error;
}

// A copy of the trace in which one word of the model's attributes is unknown.
void write_damaged_copy(const std::string& path) {
  std::ifstream in(kTrace, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto at = bytes.find("half_split");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'X';
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Damage, IsSaidByEveryCommandThatGoesOn) {
  write_damaged_copy("damaged.h5");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"info", "damaged.h5"},
                                             {"select", "damaged.h5", "--method", "dense"},
                                             {"compare", "damaged.h5", "--method", "dense"}}) {
    SCOPED_TRACE(command.front());
    const ProgramResult result = run_program(command);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_NE(result.standard_error.find("Xalf_split"), std::string::npos) << result.standard_error;
  }
  const ProgramResult result = run_program({"--quiet", "validate", "damaged.h5"});
  expect_refused(result, 1);
  EXPECT_NE(result.standard_error.find("Xalf_split"), std::string::npos);
}

TEST(Help, OfEverySubcommandNamesTheCommonOptions) {
  for (const char* name : {"capture", "info", "validate", "methods", "views", "select", "compare",
                           "export", "bench"}) {
    SCOPED_TRACE(name);
    const ProgramResult result = run_program({name, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    for (const char* option :
         {"--help", "--version", "--threads", "--memory-limit", "--config-dir", "--quiet"})
      EXPECT_NE(result.standard_output.find(option), std::string::npos) << option;
  }
}

// Two views share --metric, each with choices of its own; what no view has is not offered.
TEST(Help, OfExportNamesTheChoicesOfEachView) {
  const std::string help = run_program({"export", "--help"}).standard_output;
  std::string words;  // lines are broken anywhere
  for (const char c : help)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) words += c;
  const json list = answer_of({"views", "--json"});
  for (const json& view : list["views"])
    for (const json& option : view["options"]) {
      std::string choices =
          view["id"].get<std::string>() + ":" + option["meaning"].get<std::string>() + "(";
      for (const json& choice : option["choices"])
        choices += (choices.back() == '(' ? "" : ",") + choice.get<std::string>();
      std::erase(choices, ' ');
      EXPECT_NE(words.find(choices + ")"), std::string::npos) << choices;
    }
}

TEST(Methods, CanonicalTextIsASpecThatReadsBackEqual) {
  const json methods = json::parse(run_program({"methods", "--json"}).standard_output);
  const json& list = methods.is_array() ? methods : methods["methods"];
  ASSERT_GE(list.size(), 9U);
  for (const json& method : list) {
    // The trace is of no model that has bases, and holds the layers 1 and 3 alone.
    std::string spec = method["id"];
    for (const json& param : method["parameters"]) {
      if (param["name"] == "basis") spec += ":basis=self";
      if (param["name"] == "first_layer") spec += ":first_layer=1,correction_layer=3";
    }
    SCOPED_TRACE(spec);
    const ProgramResult first = run_program({"select", kTrace, "--method", spec, "--json"});
    if (spec == "seer_attention" || spec == "minference") {
      // A gate or a list of patterns is made of a model: there is no default.
      EXPECT_EQ(first.exit_code, 2);
      EXPECT_NE(first.standard_error.find(spec + " needs "), std::string::npos);
      continue;
    }
    ASSERT_EQ(first.exit_code, 0) << first.standard_error;
    const std::string canonical = json::parse(first.standard_output)["method"];
    const ProgramResult again = run_program({"select", kTrace, "--method", canonical, "--json"});
    EXPECT_EQ(first.standard_output, again.standard_output);
  }
}

TEST(Methods, OneIsDescribedByItsName) {
  const json one = answer_of({"methods", "infinipot", "--json"});
  ASSERT_EQ(one["methods"].size(), 1U);
  EXPECT_EQ(one["methods"][0]["needs_probe"], true);
  EXPECT_EQ(one["methods"][0]["decode"], "dense");
  const std::string text = run_program({"methods", "loki"}).standard_output;
  for (const char* part :
       {"loki  ", "paper: ", "follows: ", "differs: ", "basis ", "num_channels "})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(text.find("keydiff"), std::string::npos);
}

// What a user must be told of each method.
TEST(Methods, EachNamesItsPaperAndWhatItFollows) {
  const json all = answer_of({"methods", "--json"});
  ASSERT_GE(all["methods"].size(), 28U);
  for (const json& method : all["methods"]) {
    SCOPED_TRACE(method["id"].get<std::string>());
    for (const char* key : {"title", "summary", "paper", "evidence", "state_action", "granularity"})
      EXPECT_NE(method[key].get<std::string>(), "") << key;
    for (const json& param : method["parameters"])
      for (const char* key : {"name", "type", "range", "meaning"})
        EXPECT_NE(param[key].get<std::string>(), "") << param["name"] << " " << key;
  }
}

}  // namespace
}  // namespace kvloupe
