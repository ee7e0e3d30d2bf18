#include "core/base/foreign_error.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

namespace kvloupe {

namespace {

// Torch's allocator has no exception type of its own.
bool is_out_of_memory(const std::exception& thrown) {
  return dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr ||
         std::strstr(thrown.what(), "DefaultCPUAllocator: ") != nullptr;
}

}  // namespace

Error error_from(const std::string& what_failed, const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  if (is_out_of_memory(thrown))
    return input_error(what_failed, "there is not enough memory",
                       "close other programs or lower --memory-limit");
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&thrown))
    return input_error(what_failed,
                       fmt::format("{}: {}", error->path1().string(), error->code().message()),
                       "check that the file and its folder exist and that you may use them");
  if (const auto* error = dynamic_cast<const std::system_error*>(&thrown);
      error != nullptr && error->code() == std::errc::resource_unavailable_try_again)
    return input_error(what_failed, "the system lets it start no further thread",
                       "lower --threads, close other programs or raise the limit (ulimit -u)");
  // Torch appends a stack trace below its first line.
  const std::string text = thrown.what();
  return {ErrorKind::Internal, what_failed, text.substr(0, text.find('\n')),
          "please report this with what you did"};
}

}  // namespace kvloupe
