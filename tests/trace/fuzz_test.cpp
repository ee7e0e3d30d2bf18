// Damaged traces, with a fixed seed: each is read in a process of its own, which must come to an end by itself, quickly,
// without eating the machine's memory, and with a sentence for what it refuses.
//
//   KVLOUPE_FUZZ_CASES=5000 KVLOUPE_FUZZ_SEED=2 test_trace_fuzz    for a longer look
// tests/tools/damage_files.py does the same to the program itself.
#include "core/base/error.h"
#include "tests/trace/hdf5_structure.h"
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
#include <regex>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kOurs = fs::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/v1_tiny.h5";
const fs::path kByH5py = fs::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/v1_h5py_tiny.h5";
constexpr rlim_t kProcessorSeconds = 10;

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As `info`, `select` and `validate` do it. Exit codes say what went wrong.
int read_as_commands_do(const fs::path& path) {
  try {
    const TraceReader reader(path);
  } catch (const Error& error) {
    static const std::regex sentence("[^;]+; .+; .+");
    if (error.exit_code() != 1 || !std::regex_match(error.what(), sentence)) return 5;
  }
  read_everything(path);
  validate_trace(path);
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss > 1500 * 1024 ? 4 : 0;
}

// What went wrong while a child read the file, if anything.
std::optional<std::string> trouble_with(const fs::path& path) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const rlimit processor = {kProcessorSeconds, kProcessorSeconds};
    setrlimit(RLIMIT_CPU, &processor);
    try {
      _exit(read_as_commands_do(path));
    } catch (...) {
      _exit(3);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  switch (WEXITSTATUS(status)) {
    case 0: return std::nullopt;
    case 3: return "an exception that is no Error";
    case 4: return "more than 1.5 GB of memory";
    case 5: return "no sentence";
    default: return "exit " + std::to_string(WEXITSTATUS(status));
  }
}

class FuzzTest : public ::testing::Test {
 protected:
  // What the writer makes today, with everything that a trace can hold.
  std::string todays_trace() const {
    ReferenceTrace reference = make_reference(DType::F16);
    add_probe_and_lanes(reference);
    add_blocks(reference);
    write_trace(folder_ / "today.h5", reference);
    return contents_of(folder_ / "today.h5");
  }
  void expect_survived(const Damage& damage) {
    const fs::path path = folder_ / "damaged.h5";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damage.bytes;
    if (const auto trouble = trouble_with(path)) ADD_FAILURE() << damage.what << ": " << *trouble;
  }

  TemporaryFolder folder_;
  const std::uint64_t cases_ = number_from_environment("KVLOUPE_FUZZ_CASES", 200);
  std::mt19937_64 random_{number_from_environment("KVLOUPE_FUZZ_SEED", 1)};
};

// Two bytes of an attribute's datatype or dataspace size ended the program with HDF5 1.10.8.
TEST_F(FuzzTest, AttributesThatClaimToBeLarge) {
  const std::string sound = contents_of(kOurs);
  const auto attributes = find_structure(sound).attributes;
  ASSERT_GT(attributes.size(), 30u);
  for (const Place& attribute : attributes) {
    for (const std::size_t field : {4, 6}) {
      Damage damage{sound, "size at " + std::to_string(attribute.at + field) + " = 65535"};
      damage.bytes.replace(attribute.at + field, 2, "\xff\xff");
      expect_survived(damage);
    }
  }
}

// HDF5 copied as many bytes as such a type has in memory, past the end of those that are stored: seen
// by the address sanitizer.
TEST_F(FuzzTest, AttributesWhoseTypeClaimsFewBytes) {
  const std::string sound = contents_of(kOurs);
  int tried = 0;
  for (const Place& attribute : find_structure(sound).attributes) {
    // Version 1 of the message: sizes, then the name and the type, each padded to eight bytes.
    if (sound[attribute.at] != 1) continue;
    const auto name_size = static_cast<unsigned char>(sound[attribute.at + 2]);
    const std::size_t type_size = attribute.at + 8 + (name_size + 7) / 8 * 8 + 4;
    Damage damage{sound, "size of the type at " + std::to_string(type_size) + " = 9"};
    damage.bytes.replace(type_size, 4, std::string("\x09\0\0\0", 4));
    expect_survived(damage);
    ++tried;
  }
  EXPECT_GT(tried, 30);
}

TEST_F(FuzzTest, DamagedStructures) {
  const std::string sound = todays_trace();
  const Structure structure = find_structure(sound);
  ASSERT_FALSE(structure.chunk_indices.empty() || structure.group_trees.empty() ||
               structure.symbol_nodes.empty() || structure.local_heaps.empty() ||
               structure.global_heaps.empty());
  for (std::uint64_t i = 0; i < cases_; ++i) {
    expect_survived(damage_structure(sound, structure, random_));
  }
}

TEST_F(FuzzTest, RandomDamage) {
  for (const auto& sound : {contents_of(kOurs), contents_of(kByH5py), todays_trace()}) {
    ASSERT_FALSE(sound.empty());
    for (std::uint64_t i = 0; i < cases_ / 2; ++i) {
      expect_survived(damage_at_random(sound, random_));
    }
  }
}

}  // namespace
}  // namespace kvloupe::trace::testing
