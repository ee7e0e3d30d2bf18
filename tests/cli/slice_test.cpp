// `kvloupe slice`: a part of a trace is a trace, and its sets are those of the whole.
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/cli/cli_test.h"

#include <filesystem>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

// Layers 1 and 3; prefill chunks 0 to 4, decode chunks 5 to 7. Its sidecar has three runs.
class SliceOfATrace : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy_file(std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5", trace_);
    for (const char* method : {"quoka:budget_tokens=24", "tova:budget_tokens=24",
                               "xattention:block_size=8,stride=4,tau=0.5"})
      ASSERT_EQ(run_program({"select", trace_, "--method", method, "--save"}).exit_code, 0);
  }

  void slice(Words more) {
    more.insert(more.begin(), {"slice", trace_, "-o", slice_, "--force"});
    const ProgramResult run = run_program(more);
    ASSERT_EQ(run.exit_code, 0) << run.standard_error;
    const ProgramResult check = run_program({"validate", slice_});
    EXPECT_EQ(check.exit_code, 0) << check.standard_error;
  }
  static json selected(const std::string& trace, const std::string& method, const char* chunks) {
    return answer_of({"select", trace, "--method", method, "--layer", "3", "--chunk", chunks,
                      "--json"})["layers"][0];
  }
  void expect_refused(Words more, int code, const std::string& why) {
    more.insert(more.begin(), {"slice", trace_, "-o", at("never.h5")});
    kvloupe::expect_refused(run_program(more), code, why);
    EXPECT_FALSE(fs::exists(at("never.h5")));
    EXPECT_FALSE(fs::exists(at("never.h5.part")));
  }
  std::string at(const char* name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
  const std::string trace_ = at("t.h5"), slice_ = at("s.h5");
};

TEST_F(SliceOfATrace, HasTheSetsOfTheTrace) {
  slice({"--layers", "3", "--until-chunk", "2"});
  for (const char* method : {"run:0", "run:2", "sparq:budget_tokens=24", "quest:budget_tokens=32"})
    EXPECT_EQ(selected(slice_, method, "0-2"), selected(trace_, method, "0-2")) << method;
  const json info = answer_of({"info", slice_, "--json"});
  EXPECT_EQ(info["chunks_done"], 3);
  EXPECT_EQ(info["tokens"], 96);
  EXPECT_EQ(info["layers"], json({3}));
  EXPECT_EQ(info["runs"].size(), 3u);
  EXPECT_EQ(info["complete"], true);
}

// What the trace's next chunk can see is what is alive at the end of the slice.
TEST_F(SliceOfATrace, KeepsAliveWhatDiesLater) {
  slice({"--until-chunk", "2"});
  const json here = selected(slice_, "run:1", "all"), next = selected(trace_, "run:1", "3");
  ASSERT_EQ(here["chunks"].size(), 3u);
  for (std::size_t row = 0; row < here["final_alive"].size(); ++row)
    EXPECT_EQ(here["final_alive"][row]["positions"],
              next["chunks"][0]["kv_heads"][row]["selected"]);
}

TEST_F(SliceOfATrace, TakesTheRunsThatAreNamed) {
  slice({"--runs", "2,0"});
  json info = answer_of({"info", slice_, "--json"});
  ASSERT_EQ(info["runs"].size(), 2u);
  EXPECT_THAT(info["runs"][0]["method"].get<std::string>(), StartsWith("quoka"));
  EXPECT_THAT(info["runs"][1]["method"].get<std::string>(), StartsWith("xattention"));
  EXPECT_EQ(selected(slice_, "run:1", "all"), selected(trace_, "run:2", "all"));
  slice({"--runs", "none"});
  info = answer_of({"info", slice_, "--json"});
  EXPECT_TRUE(info["runs"].empty());
}

TEST_F(SliceOfATrace, HasTheSameNumbersInAWiderType) {
  slice({"--dtype", "f32"});
  EXPECT_EQ(answer_of({"info", slice_, "--json"})["dtype"], "f32");
  for (const char* method :
       {"run:0", "oracle:budget_tokens=24", "loki:budget_tokens=24,basis=self"})
    EXPECT_EQ(selected(slice_, method, "all"), selected(trace_, method, "all")) << method;
  fs::rename(slice_, at("wide.h5"));
  const ProgramResult back = run_program({"slice", at("wide.h5"), "--dtype", "f16", "-o", slice_});
  ASSERT_EQ(back.exit_code, 0) << back.standard_error;
  EXPECT_EQ(selected(slice_, "oracle:budget_tokens=24", "all"),
            selected(trace_, "oracle:budget_tokens=24", "all"));
}

TEST_F(SliceOfATrace, RefusesWhatIsNotThere) {
  expect_refused({"--layers", "2"}, 1, "it has no layer 2; it has the layers 1, 3");
  expect_refused({"--until-chunk", "8"}, 1, "it has no chunk 8; name a chunk from 0 to 7");
  expect_refused({"--runs", "3"}, 1, "it has no run 3");
  expect_refused({"--runs", "quoka"}, 2, "--runs quoka is not valid");
  expect_refused({"--dtype", "bf16"}, 2, "bf16");
  const ProgramResult onto_itself = run_program({"slice", trace_, "-o", trace_, "--force"});
  EXPECT_EQ(onto_itself.exit_code, 1);
  EXPECT_EQ(run_program({"validate", trace_}).exit_code, 0);
}

}  // namespace
}  // namespace kvloupe
