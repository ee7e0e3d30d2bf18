// A clean copy of what is sound in a damaged trace.
#pragma once

#include "core/base/cancel.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::trace {

struct Repair {
  int num_chunks = 0;
  std::int32_t num_tokens = 0;
  std::vector<int> layers;            // copied, ascending
  int num_runs = 0;                   // those of a sidecar included
  std::vector<std::string> left_out;  // what the copy lacks, one sentence each; empty: nothing
};

// Copies to `clean` all layers and runs that validation finds no fault with, in the chunks before
// the first one that contradicts the format; q, k and v keep their bits. What can be computed anew
// (lse, key_mass) is left out of all layers where it is damaged in one. Runs of the sidecar that
// hold all the layers copied become runs of the copy. Throws Error{Input}: the trace cannot be
// opened, nothing of it is sound, or as TraceWriter of `clean`, which is then not there.
Repair repair_trace(const std::filesystem::path& damaged, const std::filesystem::path& clean,
                    bool overwrite, const WorkContext& context = {});

}  // namespace kvloupe::trace
