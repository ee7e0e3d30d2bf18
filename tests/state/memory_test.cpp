// The window's state over a trace several times as large as the limit: whatever is looked at, load,
// tensors and answers together stay within it.
#include "app/state/view_list.h"
#include "tests/base/matchers.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/workspace_steps.h"

#include <random>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

constexpr std::uint64_t kLimit = 64 << 20;
constexpr int kPlaces = 16;

// Q, K and V of a layer are 30 MiB in fp32, of all four 120 MiB.
const std::string& large_trace() {
  static const std::string path =
      test::write_gui_trace("large.h5", {.num_tokens = 8192, .head_dim = 64, .runs = {}});
  return path;
}

// Looks at several views of random places; calls `look` after each view.
void scrub(state::Workspace& workspace, const std::function<void(const std::string&)>& look) {
  std::mt19937 random(7);
  for (int step = 0; step < kPlaces; ++step) {
    workspace.cursor.set_layer(static_cast<int>(random() % 4));
    workspace.cursor.set_chunk(static_cast<int>(random() % 64));
    workspace.cursor.set_q_head(static_cast<int>(random() % 9));
    for (const char* id : {"attention_map", "kv_map", "selected_vs_true", "token_strip",
                           "query_geometry", "query_relevance"}) {
      EXPECT_EQ(test::problem_of_view(workspace, *state::find_view(id)), "") << id;
      look(id);
    }
  }
}

void open(state::Workspace& workspace, const std::string& path) {
  workspace.traces.open(path);
  test::settle(workspace);
  ASSERT_TRUE(workspace.has_trace());
}

TEST(Memory, ScrubbingALargeTraceStaysWithinTheLimit) {
  state::Workspace workspace(std::make_shared<MemoryAccount>(kLimit));
  open(workspace, large_trace());
  const MemoryAccount& memory = *workspace.memory;
  std::uint64_t most = 0, most_tensors = 0, most_answers = 0;
  scrub(workspace, [&](const std::string& view) {
    EXPECT_LE(memory.held(), kLimit) << view;
    most = std::max(most, memory.held());
    most_tensors = std::max(most_tensors, memory.held(MemoryPart::Tensors));
    most_answers = std::max(most_answers, memory.held(MemoryPart::Answers));
  });
  EXPECT_GT(memory.held(MemoryPart::Load), 8192 * 3 * sizeof(std::string)) << "texts and labels";
  EXPECT_GT(most, kLimit / 2) << "the limit is there to be used";
  EXPECT_GT(most_tensors, 10U << 20);
  EXPECT_GT(most_answers, 10U << 20);
}

// The same looks, without want: what the bound above takes away.
TEST(Memory, TheSameLooksHoldSeveralTimesAsMuchWithoutTheLimit) {
  state::Workspace workspace;
  open(workspace, large_trace());
  scrub(workspace, [](const std::string&) {});
  EXPECT_GT(workspace.memory->held(), 2 * kLimit);
  workspace.traces.close_active();
  test::settle(workspace);
  for (const MemoryPart part : kMemoryParts)
    EXPECT_EQ(workspace.memory->held(part), 0U) << static_cast<int>(part);
}

TEST(Memory, ATraceWhoseLoadAloneIsTooMuchIsRefused) {
  state::Workspace workspace(std::make_shared<MemoryAccount>(600 << 10));
  std::vector<std::string> messages;
  workspace.traces.on_message = [&](const std::string& text, bool) { messages.push_back(text); };
  workspace.traces.open(large_trace());
  test::settle(workspace);
  EXPECT_FALSE(workspace.has_trace());
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0], HasSubstr("large.h5 cannot be opened; its load takes "));
  EXPECT_THAT(messages[0], HasSubstr("raise --memory-limit"));
  EXPECT_EQ(workspace.memory->held(), 0U);
}

// Beside traces, and no longer than they are looked at.
TEST(Memory, ResultsCountToo) {
  std::uint64_t load = 0;
  {
    state::Workspace workspace(std::make_shared<MemoryAccount>(kLimit));
    test::open_results(workspace);
    load = workspace.memory->held(MemoryPart::Load);
    const auto& samples = workspace.results.ready()->file.samples;
    EXPECT_GE(load, samples.size() * sizeof(trace::ResultSample));
    workspace.results.open(test::results_file());  // once more: in the room of what is there
    test::settle(workspace);
    EXPECT_EQ(workspace.memory->held(MemoryPart::Load), load);
    workspace.results.close();
    test::settle(workspace);
    EXPECT_EQ(workspace.memory->held(), 0U);
  }
  // Before anything is read, and when all was.
  for (const std::uint64_t limit : {load / 100, load - 1}) {
    state::Workspace workspace(std::make_shared<MemoryAccount>(limit));
    std::string said;
    workspace.results.on_message = [&](const std::string& text, bool) { said = text; };
    test::open_results(workspace);
    EXPECT_EQ(workspace.results.ready(), nullptr);
    EXPECT_THAT(said, HasSubstr(" cannot be opened; its load takes "));
    EXPECT_THAT(said, HasSubstr("raise --memory-limit"));
    EXPECT_EQ(workspace.memory->held(), 0U);
  }
}

// Several open traces share the one limit.
TEST(Memory, TheLoadsOfAllOpenTracesAreCounted) {
  state::Workspace workspace(std::make_shared<MemoryAccount>(kLimit));
  open(workspace, large_trace());
  const std::uint64_t one = workspace.memory->held(MemoryPart::Load);
  open(workspace,
       test::write_gui_trace("other.h5",
                             {.num_tokens = 8192, .num_layers = 1, .layers = {0}, .runs = {}}));
  EXPECT_GT(workspace.memory->held(MemoryPart::Load), one + one / 2);
  workspace.traces.close_active();
  test::settle(workspace);
  EXPECT_EQ(workspace.memory->held(MemoryPart::Load), one);
}

}  // namespace
}  // namespace kvloupe
