#include "core/selection/attention_patterns.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/base/whole_file.h"
#include "core/selection/block_means.h"
#include "core/selection/cell_rows.h"
#include "core/selection/kernels.h"
#include "core/selection/ranking.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <system_error>

namespace kvloupe::selection {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kObservedRows = 64;
constexpr std::int64_t kForcedColumns = 30;
constexpr std::int64_t kForcedSlashes = 100;
constexpr std::int64_t kLeastColumns = 30;
constexpr std::int64_t kLeastSlashes = 50;
constexpr std::int64_t kTopBlocks = 100;
constexpr std::uintmax_t kMaxFileBytes = 64 << 20;

constexpr PatternType kTypes[] = {PatternType::VerticalSlash, PatternType::BlockSparse,
                                  PatternType::StreamLlm};

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw input_error("cannot read " + path.string(), why,
                    "name a pattern file made for this model, by kvloupe calibrate minference or "
                    "published");
}

std::string read_text(const fs::path& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code))
    refuse(path, fs::exists(path, code) ? "it is no file" : "there is no such file");
  if (fs::file_size(path, code) > kMaxFileBytes || code)
    refuse(path, "it is too large for a list of patterns");
  std::ifstream stream(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) refuse(path, "it cannot be read");
  return text;
}

HeadPattern pattern_from(const json& entry, const fs::path& path, const std::string& where) {
  const auto is_size = [](const json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= 1U << 30;
  };
  if (!entry.is_array() || entry.size() != 4 || !entry[0].is_string() || !is_size(entry[1]) ||
      !is_size(entry[2]) || !entry[3].is_number())
    refuse(path, where + " is not [type, vertical size, slash size, score]");
  HeadPattern pattern;
  const auto type = entry[0].get<std::string>();
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](PatternType known) { return name_of(known) == type; });
  if (found == std::end(kTypes))
    refuse(path, fmt::format("{} has the type {}, which is none of {}, {} and {}", where, type,
                             name_of(kTypes[0]), name_of(kTypes[1]), name_of(kTypes[2])));
  pattern.type = *found;
  pattern.vertical_size = entry[1].get<std::int64_t>();
  pattern.slash_size = entry[2].get<std::int64_t>();
  pattern.score = entry[3].get<double>();
  return pattern;
}

// Marks the `count` best, the first `num_forced` of them before all.
std::vector<std::uint8_t> mark_best(const std::vector<float>& scores, std::int64_t count,
                                    std::int64_t num_forced) {
  std::vector<std::uint8_t> forced(scores.size(), 0);
  std::fill_n(forced.begin(), std::min<std::size_t>(num_forced, scores.size()), std::uint8_t{1});
  std::vector<std::uint8_t> marks(scores.size(), 0);
  for (const std::int32_t i : keep_best(scores, count, forced).indices)
    marks[i] = forced[i] != 0 ? 2 : 1;
  return marks;
}

}  // namespace

const char* name_of(PatternType type) {
  switch (type) {
    case PatternType::VerticalSlash:
      return "vertical_and_slash";
    case PatternType::BlockSparse:
      return "block_sparse";
    case PatternType::StreamLlm:
      return "stream_llm";
  }
  return "";
}

HeadPattern pattern_of(const PatternConfig& config, int layer, std::int64_t q_head) {
  const auto index = static_cast<std::size_t>(layer);
  if (index >= config.size()) return {};
  const auto found = config[index].find(static_cast<int>(q_head));
  return found == config[index].end() ? HeadPattern{} : found->second;
}

PatternConfig read_patterns(const fs::path& path, const ModelShape& shape) {
  const json list = json::parse(read_text(path), nullptr, false);
  if (list.is_discarded() || !list.is_array()) refuse(path, "it is not a JSON list of layers");
  if (list.size() > static_cast<std::size_t>(shape.num_layers))
    refuse(path,
           fmt::format("it has {} layers, and this model has {}", list.size(), shape.num_layers));
  PatternConfig config;
  for (const json& layer : list) {
    const std::string where = fmt::format("layer {}", config.size());
    if (!layer.is_object()) refuse(path, where + " is not an object of heads");
    config.emplace_back();
    for (const auto& [name, entry] : layer.items()) {
      const auto head = parse_int(name);
      if (!head || *head < 0 || *head >= shape.num_q_heads)
        refuse(path, fmt::format("{} names head {}, and this model has {} query heads", where, name,
                                 shape.num_q_heads));
      config.back()[static_cast<int>(*head)] =
          pattern_from(entry, path, fmt::format("{}, head {}", where, name));
    }
  }
  return config;
}

void write_patterns(const fs::path& path, const PatternConfig& config) {
  std::string text = "[";
  for (std::size_t layer = 0; layer < config.size(); ++layer) {
    text += layer == 0 ? "{" : ",\n {";
    bool first = true;
    for (const auto& [head, pattern] : config[layer]) {
      text += fmt::format("{}\"{}\": [\"{}\", {}, {}, {}]", first ? "" : ", ", head,
                          name_of(pattern.type), pattern.vertical_size, pattern.slash_size,
                          format_shortest(pattern.score));
      first = false;
    }
    text += "}";
  }
  text += "]\n";
  write_whole_file(path, text);
}

std::vector<std::int32_t> observed_rows(const Cell& cell) {
  return latest_rows(kObservedRows, cell.chunk_len);
}

ObservedAttention observe_attention(const Cell& cell, std::int64_t q_head) {
  const std::int64_t total = cell.kv_len();
  ObservedAttention observed;
  const std::vector<std::int32_t> latest = observed_rows(cell);
  observed.num_rows = static_cast<std::int64_t>(latest.size());
  observed.columns.assign(static_cast<std::size_t>(total), 0.0F);
  observed.slashes.assign(static_cast<std::size_t>(total), 0.0F);
  const ChunkRows rows = chunk_rows(cell, q_head, latest);
  sum_columns_and_slashes(pack_rows(rows.pointers, cell.q.size(2)), rows.visible,
                          keys_of(cell, q_head / cell.gqa_group_size()), total, cell.softmax_scale,
                          observed.columns.data(), observed.slashes.data());
  return observed;
}

PatternLines lines_of(const HeadPattern& pattern, const ObservedAttention& observed) {
  const auto total = static_cast<std::int64_t>(observed.columns.size());
  if (pattern.type == PatternType::StreamLlm)
    return {
        mark_best(observed.columns, std::min(pattern.vertical_size, total), pattern.vertical_size),
        mark_best(observed.slashes, std::min(pattern.slash_size, total), pattern.slash_size)};
  KVLOUPE_CHECK(pattern.type == PatternType::VerticalSlash);
  return {
      mark_best(observed.columns, std::min(total, std::max(pattern.vertical_size, kLeastColumns)),
                kForcedColumns),
      mark_best(observed.slashes, std::min(total, std::max(pattern.slash_size, kLeastSlashes)),
                kForcedSlashes)};
}

std::vector<std::uint8_t> covered_keys(const PatternLines& lines, const BlockGrid& grid,
                                       std::int64_t row_begin, std::int64_t row_end) {
  // Row i and distance o meet at key P + i - o: the rows together at a range of keys.
  const std::int64_t first = grid.past_len + row_begin;
  const std::int64_t end = grid.past_len + row_end;
  std::vector<std::uint8_t> keys(static_cast<std::size_t>(grid.kv_len()), 0);
  std::copy_n(lines.columns.begin(), end, keys.begin());
  for (const std::uint8_t mark : {std::uint8_t{1}, std::uint8_t{2}}) {
    std::vector<std::int32_t> changes(static_cast<std::size_t>(grid.kv_len() + 1), 0);
    for (std::int64_t distance = 0; distance < end; ++distance) {
      if (lines.slashes[distance] < mark) continue;
      ++changes[std::max<std::int64_t>(0, first - distance)];
      --changes[end - distance];
    }
    std::int64_t open = 0;
    for (std::int64_t key = 0; key < end; ++key) {
      open += changes[key];
      if (open > 0) keys[key] = std::max(keys[key], mark);
    }
  }
  return keys;
}

std::vector<std::int32_t> best_blocks(const Cell& cell, const BlockGrid& grid,
                                      const float* key_means, std::int64_t q_head,
                                      std::int64_t query_block) {
  const std::int64_t dim = cell.q.size(2);
  std::vector<float> mean(static_cast<std::size_t>(dim));
  mean_of_rows(query_row(cell, q_head, 0), grid.row_begin(query_block), grid.row_end(query_block),
               dim, mean.data());
  std::vector<float> dots(static_cast<std::size_t>(grid.block_of_query_block(query_block) + 1));
  dot_products(mean.data(), key_means, static_cast<std::int64_t>(dots.size()), dim, dots.data());
  return keep_best(dots, kTopBlocks).indices;
}

}  // namespace kvloupe::selection
