// `calibrate minference`: finds the pattern of each query head on a trace. Of candidates whose keys
// are at most a share of the past, the one with the largest recall of attention
// (MInference 1.0, section 3.2: kernel-aware search under one budget of operations).
#pragma once

#include "core/base/cancel.h"
#include "core/base/memory_account.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace kvloupe::calibration {

struct PatternSearchOptions {
  std::filesystem::path trace;
  std::filesystem::path output;
  bool force = false;
  // Past keys that a head may attend to, as a mean share of the past over the chunks: what
  // attention costs.
  double max_density = 0.25;
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
};

// Means over the heads and over the chunks with a past.
struct PatternQuality {
  double recall = 0;   // of the past keys' attention, per head
  double density = 0;  // past keys attended to / past keys
};

struct PatternSearchReport {
  int num_layers = 0, num_heads = 0;
  int over_budget = 0;                      // heads for which no candidate was small enough
  std::map<std::string, int> num_heads_of;  // by "type vertical_size slash_size"
  PatternQuality found;
  PatternQuality fallback;  // the pattern (1000, 6096) of heads without an entry
};

// Throws Error.
PatternSearchReport search_patterns(const PatternSearchOptions& options,
                                    const WorkContext& context);

}  // namespace kvloupe::calibration
