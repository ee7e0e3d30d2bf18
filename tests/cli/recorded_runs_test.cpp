// A recorded run in place of a method: by its number, and by a name that is no SPEC of this version.
#include "tests/cli/cli_test.h"

#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

// Evicts, so that all that a run may hold is there.
const std::string kSpec = "tova:budget_tokens=24";
const std::string kCustom = "custom:mine of layer 1, really";

// A trace with three runs in its sidecar: kSpec as 0, its sets once more under a name of nobody as 1, of
// layer 3 alone as 2.
class RecordedRuns : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    fs::copy_file(std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5", kTrace,
                  fs::copy_options::overwrite_existing);
    fs::remove(kTrace + ".runs.h5");
    ASSERT_EQ(run_program({"select", kTrace, "--method", kSpec, "--save"}).exit_code, 0);
    const trace::TraceReader reader(kTrace);
    trace::RunInfo run = reader.info().runs.at(0);
    std::vector<trace::LayerRecord> layers;
    for (const int layer : reader.info().layers) layers.push_back(reader.read_run(0, layer));
    run.method = kCustom;
    ASSERT_EQ(trace::append_sidecar_run(kTrace, run, reader.info().layers, layers), 1);
    ASSERT_EQ(run_program({"select", kTrace, "--method", "quoka:budget_tokens=24", "--layer", "3",
                           "--save"})
                  .exit_code,
              0);
  }

  static ProgramResult run(const std::string& command, Arguments more) {
    more.insert(more.begin(), {command, kTrace});
    return run_program(more);
  }
  static json answer(const std::string& command, Arguments more) {
    more.insert(more.begin(), {command, kTrace});
    more.emplace_back("--json");
    return answer_of(more);
  }

  static const std::string kTrace;
};
const std::string RecordedRuns::kTrace = "recorded_runs.h5";

TEST_F(RecordedRuns, SelectGivesTheSetsThatWereRecorded) {
  const json anew = answer("select", {"--method", kSpec});
  EXPECT_FALSE(anew.contains("run"));
  for (const auto& [name, number] :
       {std::pair<std::string, int>("run:0", 0), {"run:1", 1}, {kCustom, 1}}) {
    const json recorded = answer("select", {"--method", name});
    EXPECT_EQ(recorded["run"], number);
    EXPECT_EQ(recorded["method"], number == 0 ? anew["method"] : json(kCustom));
    EXPECT_EQ(recorded["mode"], "open_loop");
    for (std::size_t l = 0; l < 2; ++l) {
      EXPECT_EQ(recorded["layers"][l]["final_alive"], anew["layers"][l]["final_alive"]);
      for (std::size_t c = 0; c < anew["layers"][l]["chunks"].size(); ++c)
        for (std::size_t row = 0; row < 2; ++row) {
          const json& a = anew["layers"][l]["chunks"][c]["kv_heads"][row];
          const json& b = recorded["layers"][l]["chunks"][c]["kv_heads"][row];
          EXPECT_EQ(a["selected"], b["selected"]) << name;
          EXPECT_EQ(a["mass_recall"], b["mass_recall"]) << name;
        }
    }
  }
  const json one = answer("select", {"--method", "run:2"});
  ASSERT_EQ(one["layers"].size(), 1U);
  EXPECT_EQ(one["layers"][0]["layer"], 3);
}

TEST_F(RecordedRuns, CompareAveragesThemLikeAnyMethod) {
  const json rows = answer("compare", {"--method", kSpec, "--method", "run:0", "--method", kCustom,
                                       "--span", "needle"})["rows"];
  std::vector<json> all;
  for (const json& row : rows)
    if (row["scope"] == "all" && row["phase"] == "prefill") all.push_back(row);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_FALSE(all[0].contains("run"));
  EXPECT_EQ(all[1]["run"], 0);
  EXPECT_EQ(all[2]["run"], 1);
  EXPECT_EQ(all[2]["method"], kCustom);
  for (const char* number : {"cells", "effective_budget", "mass_recall", "topk_overlap",
                             "output_error", "density", "gap", "span_kept", "visible_recall"})
    for (const std::size_t i : {1, 2})
      EXPECT_NEAR(all[0][number].get<double>(), all[i][number].get<double>(), 1e-9) << number;
  // What nobody recorded is not made up.
  EXPECT_TRUE(all[2]["requested_budget"].is_null());

  std::istringstream csv(run("compare", {"--method", "run:1", "--csv", "-"}).standard_output);
  std::string header, first;
  std::getline(csv, header);
  std::getline(csv, first);
  EXPECT_THAT(header, HasSubstr(",run"));
  EXPECT_EQ(first.substr(first.size() - 2), ",1");
  EXPECT_THAT(run("compare", {"--method", "run:1"}).standard_output,
              HasSubstr("run 1: custom:mine"));
}

TEST_F(RecordedRuns, AreNotSweptNorCutAnew) {
  const ProgramResult swept = run("compare", {"--method", kSpec, "--method", kCustom, "--sweep",
                                              "budget_tokens=8,24", "--json", "--cells", "own"});
  ASSERT_EQ(swept.exit_code, 0) << swept.standard_error;
  EXPECT_THAT(swept.standard_error, HasSubstr("one row each: " + kCustom));
  int custom = 0;
  const json answer = json::parse(swept.standard_output);
  for (const json& row : answer["rows"])
    if (row["scope"] == "all" && row["phase"] == "prefill" && row.contains("run")) {
      EXPECT_EQ(row["sweep"], json::object());
      ++custom;
    }
  EXPECT_EQ(custom, 1);
  expect_refused(run("compare", {"--method", "run:0", "--chunk-size", "16"}), 1,
                 "leave out --chunk-size");
  expect_refused(run("compare", {"--method", "run:2", "--layers", "1"}), 1, "run 2 has no layer 1");
  for (const Arguments& more :
       {Arguments{"--save"}, {"--json", "--scores"}, {"--chunk-size", "16"}}) {
    Arguments arguments = {"--method", "run:0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(run("select", arguments), 2,
                   more[more.front() == "--json" ? 1 : 0] + " cannot be combined with run 0");
  }
}

TEST_F(RecordedRuns, ExplainSaysWhatIsKnown) {
  const Arguments place = {"--layer", "3", "--chunk", "3", "--kv-head", "1", "--key", "11"};
  const auto explained = [&](const std::string& method) {
    Arguments arguments = place;
    arguments.insert(arguments.end(), {"--method", method, "--no-budget"});
    return answer("explain", arguments);
  };
  const json anew = explained(kSpec), recorded = explained(kCustom);
  for (const char* fact :
       {"kept", "candidates", "true_mass", "true_rank", "row", "token", "lost_at"})
    EXPECT_EQ(anew[fact], recorded[fact]) << fact;
  EXPECT_EQ(recorded["run"], 1);
  for (const char* unknown : {"score", "rank", "cut", "needed_budget", "budget"})
    EXPECT_TRUE(recorded[unknown].is_null()) << unknown;
  EXPECT_EQ(recorded["counterfactuals"], json::array());
  ASSERT_EQ(recorded["voters"].size(), anew["voters"].size());
  EXPECT_EQ(recorded["voters"][0]["query"], anew["voters"][0]["query"]);
  // One of a method that is known is found by selecting anew, and says so.
  json of_run = explained("run:0");
  EXPECT_EQ(of_run, anew);
  Arguments text = place;
  text.insert(text.end(), {"--method", "run:0", "--no-budget"});
  EXPECT_THAT(run("explain", text).standard_error, HasSubstr("run 0 holds no scores"));

  const json worst = answer("explain", {"--method", kCustom, "--worst", "5"});
  const json known = answer("explain", {"--method", kSpec, "--worst", "5"});
  EXPECT_NEAR(worst["all"]["lost"].get<double>(), known["all"]["lost"].get<double>(), 1e-6);
  EXPECT_EQ(worst["keys"][0]["key"], known["keys"][0]["key"]);
  EXPECT_EQ(worst["keys"][0]["lost_at"], "evicted");
}

// Run 2 holds layer 3 alone, of a method that is known.
TEST_F(RecordedRuns, OneOfSomeLayersIsExplainedInThese) {
  const json worst = answer("explain", {"--method", "run:2", "--worst", "5"});
  ASSERT_FALSE(worst["keys"].empty());
  for (const json& key : worst["keys"]) EXPECT_EQ(key["layer"], 3);
  const json alone =
      answer("explain", {"--method", "quoka:budget_tokens=24", "--layer", "3", "--worst", "5"});
  EXPECT_EQ(worst["all"]["lost"], alone["all"]["lost"]);
  const ProgramResult span = run("explain", {"--method", "run:2", "--span", "10-14"});
  EXPECT_EQ(span.exit_code, 0) << span.standard_error;
}

TEST_F(RecordedRuns, ReportAndExportTakeThem) {
  fs::remove_all("recorded_report");
  ASSERT_EQ(run("report", {"--method", kCustom, "-o", "recorded_report"}).exit_code, 0);
  std::ifstream page("recorded_report/report.md");
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  EXPECT_THAT(text, HasSubstr("Run 1 as recorded"));
  EXPECT_FALSE(fs::exists("recorded_report/miss_inspector.png"));
  EXPECT_TRUE(fs::exists("recorded_report/kv_map.png"));

  const auto map = [&](const std::string& method) {
    const ProgramResult result = run("export", {"--view", "kv_map", "--method", method, "--goto",
                                                "layer=3,kv_head=1,chunk=3", "--npy", "-"});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output;
  };
  EXPECT_EQ(map("run:1"), map(kSpec));
  EXPECT_EQ(map(kCustom), map("run:0"));
}

TEST_F(RecordedRuns, NamesOfNobodyAreRefused) {
  for (const char* command : {"select", "compare"}) {
    expect_refused(run(command, {"--method", "run:7"}), 1, "run 7 is not in this trace");
    expect_refused(run(command, {"--method", "custom:other"}), 1,
                   "custom:other is not in this trace");
    expect_refused(run(command, {"--method", "run:x"}), 2, "run:x is not a run");
    expect_refused(run(command, {"--method", "nonesuch"}), 2, "'nonesuch' is not a method");
    expect_refused(run_program({command, "absent.h5", "--method", "nonesuch"}), 2,
                   "'nonesuch' is not a method");
  }
  expect_refused(run("export", {"--view", "kv_map", "--method", "run:7", "--npy", "-"}), 1,
                 "run 7 is not in this trace");
  expect_refused(run("latency", {"--method", "run:0"}), 2, "a recorded run holds what was kept");
}

}  // namespace
}  // namespace kvloupe
