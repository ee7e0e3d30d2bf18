// replay SEEDS FOUND: instead of a fuzzer, so that every build tries what was once found. Each file in the folder SEEDS must
// be accepted, or the target does not reach its reader; each in FOUND, which may be missing, accepted or refused by a sentence.
#include "core/base/error.h"
#include "tests/fuzz/target.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SEEDS FOUND\n", argv[0]);
    return 2;
  }
  const auto seeds = files_in(argv[1]);
  for (const fs::path& file : seeds) {
    try {
      kvloupe::fuzz::read_input(contents_of(file));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the seed %s is refused: %s\n", file.c_str(), error.what());
      return 1;
    }
  }
  const auto found = files_in(argv[2]);
  for (const fs::path& file : found) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);  // the last line names the file that ends the program
    const std::string bytes = contents_of(file);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu seeds accepted, %zu findings of old tried\n", seeds.size(), found.size());
  return seeds.empty() ? 1 : 0;
}
