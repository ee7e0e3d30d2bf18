// MInference's patterns: which columns and diagonals of the attention map, or which blocks, a query
// head computes. Their file is that of microsoft/MInference (minference/configs/*.json): a list with
// one object per layer, from the head's number to [type, vertical_size, slash_size, score].
#pragma once

#include "core/selection/blocks.h"
#include "core/selection/method_spec.h"
#include "core/selection/selector.h"

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

// The chunk's last min(64, m) rows.
std::vector<std::int32_t> observed_rows(const Cell& cell);
// The attention of these rows in one query head, summed by key and by distance.
struct ObservedAttention {
  std::int64_t num_rows = 0;
  std::vector<float> columns;  // [T] sum of p[i,j]
  std::vector<float> slashes;  // [T] sum of p[i,i-o]
};
ObservedAttention observe_attention(const Cell& cell, std::int64_t q_head);

// Columns j and distances o of one query head: row i attends to key j <= i if the column or the
// distance i-j is marked; 2: by rule.
struct PatternLines {
  std::vector<std::uint8_t> columns, slashes;  // [T]
};
// Of VerticalSlash and StreamLlm.
PatternLines lines_of(const HeadPattern& pattern, const ObservedAttention& observed);
// The keys that any of the chunk's rows [row_begin, row_end) attends to, [T]; 2: by rule.
std::vector<std::uint8_t> covered_keys(const PatternLines& lines, const BlockGrid& grid,
                                       std::int64_t row_begin, std::int64_t row_end);

// Of BlockSparse: the blocks that a query block attends to, ascending. key_means [N_b, head_dim] of
// the head's KV head.
std::vector<std::int32_t> best_blocks(const Cell& cell, const BlockGrid& grid,
                                      const float* key_means, std::int64_t q_head,
                                      std::int64_t query_block);

}  // namespace kvloupe::selection
