// MInference's patterns by head, and their file, that of microsoft/MInference
// (minference/configs/*.json): a list with one object per layer, from the head's number to
// [type, vertical_size, slash_size, score].
#pragma once

#include "core/selection/spec/method_spec.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

namespace kvloupe::selection {

enum class PatternType {
  VerticalSlash,  // the best columns and diagonals by the attention of the latest queries
  BlockSparse,    // the best blocks by mean query and mean key
  StreamLlm       // the first columns and the nearest diagonals
};
const char* name_of(PatternType type);  // as in the file

struct HeadPattern {
  PatternType type = PatternType::VerticalSlash;
  std::int64_t vertical_size = 1000;
  std::int64_t slash_size = 6096;
  double score = 1;  // what the search found; not used
  bool operator==(const HeadPattern&) const = default;
};

// By layer, then by query head. What has no entry has the default pattern.
using PatternConfig = std::vector<std::map<int, HeadPattern>>;
HeadPattern pattern_of(const PatternConfig& config, int layer, std::int64_t q_head);

// Throws Error{Input}: no such file, not such a list, or of a model with other heads or layers.
PatternConfig read_patterns(const std::filesystem::path& path, const ModelShape& shape);
void write_patterns(const std::filesystem::path& path, const PatternConfig& config);

}  // namespace kvloupe::selection
