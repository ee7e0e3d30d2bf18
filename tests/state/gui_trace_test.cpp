// The traces that tests of the window use are sound and hold what they promise.
#include "tests/gui/gui_trace.h"

#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/gui/workspace_steps.h"

#include <algorithm>

namespace kvloupe {
namespace {

using state::Slot;

// Of the needle's 16 keys how many the row of head 4 keeps in the last chunk of layer 1.
std::int64_t kept_of_needle(state::Workspace& workspace, const char* method) {
  workspace.cursor.set_method(Slot::A, method);
  const auto map =
      test::answer(workspace, state::KvMapQuestion{workspace.place(), workspace.method(Slot::A)});
  EXPECT_TRUE(map) << method << ": " << map.error;
  if (!map) return -1;
  const trace::TokenSpan needle = workspace.place().info().spans.front();
  std::int64_t kept = 0;
  for (std::int32_t key = needle.begin; key < needle.end; ++key)
    kept += map->map.at(map->map.chunks.size() - 1, key) == analysis::KeyState::Kept;
  return kept;
}

TEST(GuiTrace, IsSoundAndHoldsItsRuns) {
  test::GuiTraceOptions options;
  options.runs.emplace_back(test::kUnknownMethod);
  options.decoded = 3;
  const std::string path = test::write_gui_trace("sound.h5", options);
  EXPECT_THAT(trace::validate_trace(path), IsEmpty());
  const trace::TraceReader reader(path);
  EXPECT_THAT(reader.info().warnings, IsEmpty());
  EXPECT_EQ(reader.info().num_tokens, 2051);
  EXPECT_EQ(reader.info().chunks.size(), 19U);
  EXPECT_EQ(reader.info().chunks.back().phase, trace::Phase::Decode);
  std::vector<std::string> ids;
  for (const trace::RunInfo& run : reader.info().runs)
    ids.push_back(run.method.substr(0, run.method.find(':')));
  EXPECT_THAT(ids, ElementsAre("quoka", "streaming_llm", "xattention", "future_method"));
  EXPECT_EQ(reader.info().runs[2].block_size, 32);
}

TEST(GuiTrace, AMethodThatReadsQueriesKeepsTheNeedleAndAnotherLosesIt) {
  const std::string path = test::write_gui_trace("needle.h5");
  state::Workspace workspace;
  workspace.traces.open(path);
  test::settle(workspace);
  ASSERT_TRUE(workspace.has_trace());
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=15"));
  EXPECT_GE(kept_of_needle(workspace, "quoka:budget_tokens=256"), 14);
  EXPECT_EQ(kept_of_needle(workspace, "streaming_llm:budget_tokens=256"), 0);
  const auto verdict = test::answer(
      workspace, state::SelectedVsTrueQuestion{workspace.place(), workspace.method(Slot::A)});
  ASSERT_TRUE(verdict) << verdict.error;
  const auto& keys = verdict->cell.by_true_rank;
  const trace::TokenSpan needle = workspace.place().info().spans.front();
  EXPECT_TRUE(std::any_of(keys.begin(), keys.begin() + 40, [&](const analysis::KeyRank& key) {
    return key.position >= needle.begin && key.position < needle.end;
  })) << "the needle is worth nothing";
}

TEST(GuiTrace, ABrokenKeyFailsWhatReadsIt) {
  const std::string path = test::write_gui_trace(
      "nan.h5",
      {.num_tokens = 512, .nan_key_at = 200, .runs = {"streaming_llm:budget_tokens=128"}});
  state::Workspace workspace;
  workspace.traces.open(path);
  test::settle(workspace);
  ASSERT_TRUE(workspace.has_trace());
  const auto verdict = test::answer(
      workspace, state::SelectedVsTrueQuestion{workspace.place(), workspace.method(Slot::A)});
  EXPECT_EQ(verdict.state, state::ResultState::Error);
  EXPECT_NE(verdict.error.find("NaN"), std::string::npos) << verdict.error;
}

}  // namespace
}  // namespace kvloupe
