// Synthetic traces: attention with a known answer, without a model. One layer, whose keys lie in
// clusters (topics of the text) among which needle keys are planted; two question chunks at the end
// ask for them. What a method must keep is known exactly, so its misses are the method's own.
//   few:  each of a few queries asks for one key that is a single token
//   many: many queries ask for one key each, planted as a run of tokens
// QuoKA samples queries: it follows few of them to single tokens, and loses those of many that it
// does not sample. CompactAttention reads the means of blocks over all queries: it finds every run,
// and a single token drowns in its block's mean (CompactAttention, section 3 and figure 2).
#pragma once

#include "core/base/cancel.h"
#include "core/selection/spec/method_spec.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace kvloupe::capture {

struct SyntheticOptions {
  std::int64_t length = 32768;  // tokens, a multiple of chunk_size
  int chunk_size = 128;
  int many_keys = 30;  // at most the chunk's queries
  int run_length = 32;
  int few_keys = 3;
  std::int64_t seed = 1;
  std::vector<selection::MethodSpec> methods;  // recorded as runs
  bool force = false;
  std::filesystem::path output;
};

// Tokens [begin, end) that one query of a question chunk asks for.
struct PlantedKey {
  std::int32_t begin = 0, end = 0;
  std::int32_t query = 0;  // absolute position
};

struct Question {
  int chunk = 0;
  std::vector<PlantedKey> keys;
};

struct SyntheticReport {
  Question few, many;
  std::uint64_t bytes = 0;
};

// Writes the trace. Throws Error{Usage} for numbers that contradict each other, Error{Input} for
// the file.
SyntheticReport synthesize(const SyntheticOptions& options, const WorkContext& context);

}  // namespace kvloupe::capture
