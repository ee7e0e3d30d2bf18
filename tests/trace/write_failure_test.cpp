// Writing that fails: at every single change of the file, in files that others cut, remove or
// replace, and in processes that end afterwards.
#include "core/base/error.h"
#include "core/trace/hdf5/disk_file.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"
#include "core/trace/write/part_file.h"
#include "core/trace/write/slice.h"
#include "tests/base/temporary_folder.h"
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kSentence = 3;

// What wait() says of a child that does `work` and ends as programs do, the library's own exit
// handlers included: exit code 0, or kSentence after an Error.
int status_of_child(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 0;
    try {
      work();
    } catch (const Error&) {
      code = kSentence;
    }
    std::exit(code);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Makes the n-th change of any file fail (from 0).
void fail_at(int n) {
  set_disk_hook([n, seen = 0](const DiskChange&) mutable { return seen++ == n ? ENOSPC : 0; });
}

// Changes from one that fails to the next: with KVLOUPE_EVERY_FAULT=1 each of them is tried.
int stride() { return std::getenv("KVLOUPE_EVERY_FAULT") == nullptr ? 17 : 1; }

ReferenceTrace small_reference() {
  ReferenceTrace reference = make_reference(DType::F16);
  add_probe_and_lanes(reference);
  return reference;
}

TEST(WriteFailure, OfEveryChangeIsASentenceAndKeepsTheChunksDone) {
  const ReferenceTrace reference = small_reference();
  bool failed = true;
  int at = 0;
  for (; failed; at += at < 20 ? 1 : stride()) {
    const TemporaryFolder folder;
    const int status = status_of_child([&] {
      fail_at(at);
      write_trace(folder / "t.h5", reference);
    });
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " at change " << at;
    failed = WEXITSTATUS(status) == kSentence;
    ASSERT_TRUE(failed || WEXITSTATUS(status) == 0) << at;
    EXPECT_EQ(fs::exists(folder / "t.h5"), !failed);
    const fs::path left = folder / (failed ? "t.h5.part" : "t.h5");
    if (failed && !fs::exists(left)) continue;
    EXPECT_EQ(validate_trace(left), std::vector<std::string>{}) << "at change " << at;
    EXPECT_GT(TraceReader(left).info().chunks.size(), 0u);
  }
  EXPECT_GT(at, 100);
  RecordProperty("changes", at);
}

TEST(WriteFailure, OfASidecarLeavesTheRunsThatWereThere) {
  const TemporaryFolder folder;
  const ReferenceTrace reference = make_reference(DType::F16);
  write_trace(folder / "t.h5", reference);
  const std::vector<int>& layers = reference.header.layers;
  const auto append = [&] {
    std::vector<LayerRecord> data;
    for (const int layer : layers) data.push_back(TraceReader(folder / "t.h5").read_run(0, layer));
    append_sidecar_run(folder / "t.h5", reference.header.runs[0], layers, data);
  };
  append();
  bool failed = true;
  int at = 0;
  for (; failed; at += std::min(5, stride())) {
    const int status = status_of_child([&] {
      fail_at(at);
      append();
    });
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " at change " << at;
    failed = WEXITSTATUS(status) == kSentence;
    EXPECT_EQ(TraceReader(folder / "t.h5").info().runs.size(), failed ? 3u : 4u) << at;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << at;
  }
  EXPECT_GT(at, 10);
}

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return error.what();
  }
  return "";
}

class OthersTest : public ::testing::Test {
 protected:
  // Begins a capture, lets `meddle` loose on its .part, and goes on to the end.
  std::string failure_after(const std::function<void(const fs::path& part)>& meddle) {
    return failure_of([&] {
      TraceWriter writer(folder_ / "t.h5", reference_.header, true);
      write_chunks(writer, reference_, 2);
      meddle(folder_ / "t.h5.part");
      write_layer_of(writer, reference_, 2, 0);
      writer.finish(reference_.generated, false);
    });
  }

  const TemporaryFolder folder_;
  const ReferenceTrace reference_ = make_reference(DType::F16);
};

TEST_F(OthersTest, ACutPartIsNoticed) {
  const std::string said = failure_after([](const fs::path& part) { fs::resize_file(part, 4096); });
  EXPECT_NE(said.find("another program cut it"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(folder_ / "t.h5"));
}

TEST_F(OthersTest, ARemovedPartIsNoticed) {
  const std::string said = failure_after([](const fs::path& part) { fs::remove(part); });
  EXPECT_NE(said.find("another program removed"), std::string::npos) << said;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(OthersTest, AReplacedPartIsNoticedAndLeftAlone) {
  const std::string said = failure_after([&](const fs::path& part) {
    fs::remove(part);
    std::ofstream(part) << "of somebody else";
  });
  EXPECT_NE(said.find("another program removed or replaced"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(folder_ / "t.h5"));
  EXPECT_EQ(fs::file_size(folder_ / "t.h5.part"), 16u);
}

TEST_F(OthersTest, ANameThatWasTakenMeanwhileIsNotOverwritten) {
  TraceWriter writer(folder_ / "t.h5", reference_.header, false);
  write_chunks(writer, reference_, 6);
  std::ofstream(folder_ / "t.h5") << "of somebody else";
  EXPECT_NE(failure_of([&] { writer.finish({}, true); }).find("it appeared"), std::string::npos);
  EXPECT_EQ(fs::file_size(folder_ / "t.h5"), 16u);
  EXPECT_TRUE(TraceReader(folder_ / "t.h5.part").info().complete);
}

TEST_F(OthersTest, ASliceThatCannotTakeItsNameIsKept) {
  write_trace(folder_ / "whole.h5", reference_);
  WorkContext context;
  context.progress = [&](std::int64_t, std::int64_t, const std::string&) {
    std::ofstream(folder_ / "t.h5") << "of somebody else";
  };
  const std::string said =
      failure_of([&] { slice_trace(folder_ / "whole.h5", {}, folder_ / "t.h5", false, context); });
  EXPECT_NE(said.find("the trace is in " + (folder_ / "t.h5.part").string()), std::string::npos);
  EXPECT_EQ(fs::file_size(folder_ / "t.h5"), 16u);
  EXPECT_TRUE(TraceReader(folder_ / "t.h5.part").info().complete);
}

// On clusters HDF5's own locks are often turned off.
TEST_F(OthersTest, TwoCapturesDoNotWriteOneFileWithoutHdf5Locks) {
  const int status = status_of_child([&] {
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    TraceWriter first(folder_ / "t.h5", reference_.header, true);
    write_chunks(first, reference_, 1);
    const std::string said =
        failure_of([&] { TraceWriter(folder_ / "t.h5", reference_.header, true); });
    if (said.find("another capture is writing it") == std::string::npos) std::exit(1);
    first.finish({}, false);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(TraceReader(folder_ / "t.h5").info().chunks.size(), 1u);
}

}  // namespace
}  // namespace kvloupe::trace::testing
