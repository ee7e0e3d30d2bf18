#include "core/base/foreign_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>
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

bool begins_with_one(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const char* beginning) { return text.starts_with(beginning); });
}

// What Torch says of a GPU: "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...", or the others where its
// allocator or another program holds all of it.
bool tells_of_gpu_memory(const std::string& text) {
  return begins_with_one(
      text, {"CUDA out of memory", "CUDA error: out of memory",
             "CUDA error: CUBLAS_STATUS_ALLOC_FAILED", "CUDA driver error: out of memory"});
}

// "CUDA error: an illegal memory access was encountered", "CUDA driver error: device not ready";
// core/cuda/status_check.h begins as these do.
bool tells_of_gpu(const std::string& text) {
  return begins_with_one(text, {"CUDA error: ", "CUDA driver error: "});
}

// A call that was refused leaves the GPU as it was.
bool tells_of_gpu_failure(const std::string& text) {
  return tells_of_gpu(text) && !tells_of_gpu_memory(text) &&
         !begins_with_one(
             text,
             {"CUDA error: invalid argument", "CUDA error: invalid configuration argument",
              "CUDA error: no kernel image is available", "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED",
              "CUDA error: CUBLAS_STATUS_INVALID_VALUE"});
}

std::optional<Error> error_of_gpu(const std::string& what_failed, const std::string& text) {
  if (tells_of_gpu_memory(text))
    return input_error(
        what_failed,
        fmt::format("the GPU has not enough memory ({})",
                    text.substr(0, text.find(". ", sizeof("CUDA out of memory")))),
        "close other programs on it, give a shorter text, or compute with --device cpu");
  if (tells_of_gpu(text))
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
