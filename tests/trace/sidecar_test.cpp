// Runs beside a trace: appended whole or not at all, and only read for the trace they belong to.
#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

// A run whose cells differ by `shift`, over all chunks.
LayerRecord made_layer(const ReferenceTrace& reference, int shift, bool evicting) {
  LayerRecord layer;
  for (const auto& chunk : reference.chunks) {
    CellRecord& cell = layer.cells.emplace_back();
    cell.num_candidates = chunk.begin;
    if (chunk.begin == 0) cell.dense_reason = DenseReason::EmptyPast;
    for (int row = 0; row < 2; ++row) {
      SelectedRow& kept = cell.rows.emplace_back();
      for (std::int32_t j = shift + row; j < chunk.begin; j += 5) kept.positions.push_back(j);
      if (!kept.positions.empty()) kept.forced = {kept.positions.back()};
    }
  }
  const std::vector<std::uint16_t> alive(std::size_t(reference.num_tokens()), kAlive);
  if (evicting) layer.evict_chunk.assign(2, alive);
  return layer;
}

RunInfo made_run(const char* method, StateAction action = StateAction::Visibility) {
  RunInfo run;
  run.method = method;
  run.q_heads_per_row = 2;
  run.state_action = action;
  return run;
}

// What 1.9 and before had not.
void drop_words(const fs::path& path) {
  const h5::Handle file =
      h5::checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open the sidecar");
  for (const char* run : {"/runs/0", "/runs/1", "/runs/2"})
    h5::checked_status(H5Adelete_by_name(file.get(), run, "budget_scope", H5P_DEFAULT), "drop");
}

void expect_equal(const LayerRecord& found, const LayerRecord& expected) {
  ASSERT_EQ(found.cells.size(), expected.cells.size());
  for (std::size_t c = 0; c < found.cells.size(); ++c) {
    EXPECT_EQ(found.cells[c].rows, expected.cells[c].rows);
    EXPECT_EQ(found.cells[c].dense_reason, expected.cells[c].dense_reason);
    EXPECT_EQ(found.cells[c].num_candidates, expected.cells[c].num_candidates);
  }
  EXPECT_EQ(found.evict_chunk, expected.evict_chunk);
}

class SidecarTest : public ::testing::Test {
 protected:
  void SetUp() override { write_trace(path_, reference_); }

  const TemporaryFolder folder_;
  const ReferenceTrace reference_ = make_reference(DType::F16);
  const fs::path path_ = folder_ / "t.h5";
  const fs::path sidecar_ = folder_ / "t.h5.runs.h5";
};

// By attributes; of a file that is older than these, by the method's text.
TEST_F(SidecarTest, ARunSaysItsScope) {
  const auto layer = made_layer(reference_, 0, false);
  RunInfo all = made_run("custom:whole");
  all.budget_scope = BudgetScope::All;
  append_sidecar_run(path_, all, {0}, {layer});
  append_sidecar_run(path_, made_run("oracle:budget_tokens=4,budget_scope=past"), {0}, {layer});
  all.method = "oracle:budget_tokens=4,budget_scope=all";
  append_sidecar_run(path_, all, {0}, {layer});
  const auto scopes = [&] {
    const TraceReader reader(path_);
    std::vector<BudgetScope> found;
    for (const RunInfo& run : reader.info().runs)
      if (run.from_sidecar) found.push_back(run.budget_scope);
    return found;
  };
  using enum BudgetScope;
  EXPECT_EQ(scopes(), (std::vector{All, Past, All}));
  drop_words(sidecar_);
  EXPECT_EQ(scopes(), (std::vector{Past, Past, All}));
}

TEST_F(SidecarTest, RunsAreNumberedAfterTheTracesOwn) {
  const auto size = fs::file_size(path_);
  const auto first = made_layer(reference_, 0, false);
  const auto second = made_layer(reference_, 1, false);
  EXPECT_EQ(append_sidecar_run(path_, made_run("a"), {0, 2}, {first, second}), 2);
  const auto third = made_layer(reference_, 2, true);
  EXPECT_EQ(append_sidecar_run(path_, made_run("b", StateAction::Eviction), {2}, {third}), 3);
  EXPECT_EQ(fs::file_size(path_), size);

  const TraceReader reader(path_);
  EXPECT_TRUE(reader.info().warnings.empty()) << reader.info().warnings.front();
  ASSERT_EQ(reader.info().runs.size(), 4u);
  EXPECT_FALSE(reader.info().runs[1].from_sidecar);
  EXPECT_TRUE(reader.info().runs[2].from_sidecar);
  EXPECT_EQ(reader.info().runs[3].method, "b");
  EXPECT_EQ(reader.info().runs[3].id, 3);
  expect_equal(reader.read_run(2, 0), first);
  expect_equal(reader.read_run(2, 2), second);
  expect_equal(reader.read_run(3, 2), third);
  EXPECT_FALSE(reader.has_run_layer(3, 0));
  EXPECT_THROW(reader.read_run(3, 0), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2);  // nothing temporary
}

TEST_F(SidecarTest, AnotherTracesSidecarIsLeftOutWithAWarning) {
  append_sidecar_run(path_, made_run("a"), {0}, {made_layer(reference_, 0, false)});
  auto other = make_reference(DType::F16);
  other.ids[7] += 1;
  write_trace(path_, other, true);
  const TraceReader reader(path_);
  EXPECT_EQ(reader.info().runs.size(), 2u);
  ASSERT_EQ(reader.info().warnings.size(), 1u);
  EXPECT_NE(reader.info().warnings[0].find("another trace"), std::string::npos);
  EXPECT_TRUE(validate_trace(path_).empty());  // the trace itself is sound
  EXPECT_THROW(append_sidecar_run(path_, made_run("b"), {0}, {made_layer(other, 0, false)}), Error);
}

TEST_F(SidecarTest, OtherValuesOfTheSameTokensAreAnotherTrace) {
  append_sidecar_run(path_, made_run("a"), {0}, {made_layer(reference_, 0, false)});
  auto other = make_reference(DType::F16);
  other.layers[1].v[54 * 8 + 1] += 0.5f;
  write_trace(path_, other, true);
  EXPECT_EQ(TraceReader(path_).info().warnings.size(), 1u);
}

TEST_F(SidecarTest, ACopyKeepsItsRuns) {
  append_sidecar_run(path_, made_run("a"), {0}, {made_layer(reference_, 0, false)});
  fs::copy_file(path_, folder_ / "copy.h5");
  fs::copy_file(sidecar_, folder_ / "copy.h5.runs.h5");
  EXPECT_EQ(TraceReader(folder_ / "copy.h5").info().runs.size(), 3u);
}

TEST_F(SidecarTest, ADamagedSidecarDoesNotTakeTheTraceAlong) {
  std::ofstream(sidecar_) << "no HDF5";
  const TraceReader reader(path_);
  EXPECT_EQ(reader.info().runs.size(), 2u);
  EXPECT_EQ(reader.info().warnings.size(), 1u);
  EXPECT_THROW(append_sidecar_run(path_, made_run("a"), {0}, {made_layer(reference_, 0, false)}),
               Error);
  EXPECT_EQ(fs::file_size(sidecar_), 7u);  // not overwritten
}

// What cannot be looked up is not taken for what is not there.
TEST_F(SidecarTest, ADamagedSidecarHasNotSimplyNoRuns) {
  append_sidecar_run(path_, made_run("quoka:budget=1024"), {0}, {made_layer(reference_, 0, false)});
  std::fstream file(sidecar_, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const std::size_t links = bytes.find("TREE");  // of the root group, the first one
  ASSERT_NE(links, std::string::npos);
  file.seekp(static_cast<std::streamoff>(links)).write("XXXX", 4);
  file.close();
  const TraceReader reader(path_);
  EXPECT_TRUE(reader.info().runs.empty() || !reader.info().runs.back().from_sidecar);
  ASSERT_EQ(reader.info().warnings.size(), 1u);
  EXPECT_NE(reader.info().warnings[0].find("is left out: cannot look up /runs"), std::string::npos)
      << reader.info().warnings[0];
}

TEST_F(SidecarTest, CellsOfOtherChunksAreRefused) {
  auto layer = made_layer(reference_, 0, false);
  layer.cells.resize(2);
  EXPECT_THROW(append_sidecar_run(path_, made_run("a"), {0}, {layer}), Error);
  EXPECT_FALSE(fs::exists(sidecar_));
}

TEST_F(SidecarTest, AKilledAppendLeavesTheEarlierRuns) {
  append_sidecar_run(path_, made_run("a"), {0}, {made_layer(reference_, 0, false)});
  for (int delay_us : {200, 1000, 3000, 6000, 10000}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) append_sidecar_run(path_, made_run("b"), {2}, {made_layer(reference_, 1, false)});
    }
    usleep(delay_us);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const TraceReader reader(path_);
    EXPECT_TRUE(reader.info().warnings.empty());
    ASSERT_GE(reader.info().runs.size(), 3u);
    EXPECT_EQ(reader.info().runs[2].method, "a");
    expect_equal(reader.read_run(2, 0), made_layer(reference_, 0, false));
  }
}

TEST_F(SidecarTest, TwoProgramsThatSaveAtOnceKeepBothRuns) {
  constexpr int kEach = 5;
  const auto append_some = [&](const char* method) {
    for (int i = 0; i < kEach; ++i) {
      for (;;) {
        try {
          append_sidecar_run(path_, made_run(method), {0}, {made_layer(reference_, i, false)});
          break;
        } catch (const Error& error) {
          if (error.why().find("another program") == std::string::npos) throw;
          usleep(500);
        }
      }
    }
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    append_some("child");
    _exit(0);
  }
  append_some("parent");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(TraceReader(path_).info().runs.size(), 2u + 2 * kEach);
}

}  // namespace
}  // namespace kvloupe::trace::testing
