#include "core/base/foreign_error.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <system_error>

namespace kvloupe {

namespace {

// Torch's allocator has no exception type of its own.
bool is_out_of_memory(const std::exception& thrown) {
  return dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr ||
         std::strstr(thrown.what(), "DefaultCPUAllocator: ") != nullptr;
}

// Torch appends a stack trace below its first line.
std::string first_line(const std::exception& thrown) {
  const std::string text = thrown.what();
  return text.substr(0, text.find('\n'));
}

// What Torch says of a GPU: "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...", "CUDA error: an
// illegal memory access was encountered", "CUDA driver error: device not ready". core/cuda/status_check.h begins
// as these do.
bool tells_of_gpu_failure(const std::string& text) {
  return text.starts_with("CUDA error: ") || text.starts_with("CUDA driver error: ");
}

std::optional<Error> error_of_gpu(const std::string& what_failed, const std::string& text) {
  if (text.starts_with("CUDA out of memory"))
    return input_error(
        what_failed,
        fmt::format("the GPU has not enough memory ({})",
                    text.substr(0, text.find(". ", sizeof("CUDA out of memory")))),
        "close other programs on it, give a shorter text, or compute with --device cpu");
  if (tells_of_gpu_failure(text))
    return input_error(what_failed, fmt::format("the GPU failed ({})", text),
                       "start the program again, and go on with --device cpu if it comes back");
  return std::nullopt;
}

}  // namespace

bool is_gpu_failure(const std::exception& thrown) {
  return tells_of_gpu_failure(first_line(thrown));
}

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
  if (const auto of_gpu = error_of_gpu(what_failed, first_line(thrown))) return *of_gpu;
  return {ErrorKind::Internal, what_failed, first_line(thrown),
          "please report this with what you did"};
}

}  // namespace kvloupe
