// What a capture was asked for, as far as the trace does not say it elsewhere: kept in the file, so
// that a capture that was cut short can go on.
#pragma once

#include "core/trace/fields/stored_parts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::trace {

struct CaptureRequest {
  std::string model;  // its name where it is a bundled one; empty for a file, whose path is private
  int chunk_size = 0;
  int max_new_tokens = 0;
  std::string device;                // that the model ran on: "cpu", "cuda:0"; empty: not known
  StoredParts store;                 // without what follows from the rest
  std::vector<std::string> answers;  // that a task expects
  std::vector<std::int32_t> prompt;  // all of its tokens
  bool operator==(const CaptureRequest&) const = default;
};

}  // namespace kvloupe::trace
