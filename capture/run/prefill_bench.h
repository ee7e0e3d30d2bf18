// What recording costs, and answering a request: a prefill of the default model with and without them, in turns.
#pragma once

#include "core/base/cancel.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace kvloupe::capture {

struct PrefillBench {
  std::int64_t tokens = 0;          // of the prompt, at most the number asked for
  std::vector<double> plain_ms;     // chunks through the decoder, nothing recorded
  std::vector<double> answered_ms;  // as a request of `kvloupe run`, until its first token is told
  std::vector<double> recorded_ms;  // q, k, v, lse and mass as f16, until the trace is complete
};

struct PrefillBenchOptions {
  std::int64_t tokens = 4096;
  int repetitions = 5;
  int warm_up = 1;
  bool want_plain = true;          // and answered
  std::filesystem::path folder;    // traces are written and removed here
  std::filesystem::path ids_file;  // when set, the prompt's token ids are left there, one a line
};

// Model load and process start are outside of the times. Throws as a capture does.
PrefillBench bench_prefill(const PrefillBenchOptions& options, const WorkContext& context);

}  // namespace kvloupe::capture
