// Truncated files and flipped bytes, with a fixed seed: each file is read in a process of its own,
// which must come to an end by itself, quickly and without eating the machine's memory.
//
//   KVLOUPE_FUZZ_CASES=5000 KVLOUPE_FUZZ_SEED=2 test_trace_fuzz    for a longer look
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kOurs = fs::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/v1_tiny.h5";
const fs::path kByH5py = fs::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/v1_h5py_tiny.h5";

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What went wrong while a child read the file, if anything.
std::optional<std::string> trouble_with(const fs::path& path) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    try {
      read_everything(path);
      validate_trace(path);
    } catch (...) {
      _exit(3);
    }
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    _exit(usage.ru_maxrss > 1500 * 1024 ? 4 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) == 3) return "an exception that is no Error";
  if (WEXITSTATUS(status) == 4) return "more than 1.5 GB of memory";
  if (WEXITSTATUS(status) != 0) return "exit " + std::to_string(WEXITSTATUS(status));
  return std::nullopt;
}

class FuzzTest : public ::testing::Test {
 protected:
  void expect_survived(const std::string& bytes, const std::string& what) {
    const fs::path path = folder_ / "damaged.h5";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    if (const auto trouble = trouble_with(path)) ADD_FAILURE() << what << ": " << *trouble;
  }

  TemporaryFolder folder_;
  const std::uint64_t cases_ = number_from_environment("KVLOUPE_FUZZ_CASES", 120);
  std::mt19937_64 random_{number_from_environment("KVLOUPE_FUZZ_SEED", 1)};
};

TEST_F(FuzzTest, TruncatedFiles) {
  const std::string sound = contents_of(kOurs);
  for (std::uint64_t i = 0; i < cases_ / 4; ++i) {
    const std::size_t size = random_() % sound.size();
    expect_survived(sound.substr(0, size), "cut to " + std::to_string(size) + " bytes");
  }
}

TEST_F(FuzzTest, FlippedBytes) {
  // What the writer makes today, with everything that a trace can hold.
  ReferenceTrace reference = make_reference(DType::F16);
  add_probe_and_lanes(reference);
  add_blocks(reference);
  write_trace(folder_ / "today.h5", reference);
  for (const auto& path : {kOurs, kByH5py, folder_ / "today.h5"}) {
    const std::string sound = contents_of(path);
    ASSERT_FALSE(sound.empty());
    for (std::uint64_t i = 0; i < cases_; ++i) {
      std::string bytes = sound;
      std::string what = path.filename().string() + ", byte";
      for (std::uint64_t flips = 1 + random_() % 8; flips > 0; --flips) {
        // Half of the flips hit the front, where most of the structure is.
        const std::size_t at =
            random_() % (flips % 2 == 0 ? std::min<std::size_t>(bytes.size(), 8192) : bytes.size());
        const auto value = static_cast<unsigned char>(random_());
        bytes[at] = static_cast<char>(value);
        what += " " + std::to_string(at) + "=" + std::to_string(value);
      }
      expect_survived(bytes, what);
    }
  }
}

}  // namespace
}  // namespace kvloupe::trace::testing
