// What libFuzzer, or replay.cpp, calls with every input.
#include "tests/fuzz/target.h"

#include "core/base/error.h"
#include "tests/base/temporary_folder.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace kvloupe::fuzz {

std::filesystem::path folder() {
  static const TemporaryFolder one;
  return one.path();
}

std::filesystem::path file_of(std::string_view input, const std::string& name) {
  const std::filesystem::path path = folder() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << input;
  return path;
}

void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "finding: %s\n", promise);
  std::abort();
}

namespace {

// "what; why; what to do" on one line; what is quoted in it may hold further semicolons.
bool is_sentence(std::string_view text) {
  const auto why = text.find("; ");
  return why != 0 && why != text.npos && text.find("; ", why + 2) != text.npos &&
         text.find('\n') == text.npos;
}

}  // namespace
}  // namespace kvloupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvloupe;
  try {
    fuzz::read_input({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::Input || error.kind() == ErrorKind::Usage,
                  error.what());
    fuzz::require(fuzz::is_sentence(error.what()), error.what());
  }
  return 0;
}
