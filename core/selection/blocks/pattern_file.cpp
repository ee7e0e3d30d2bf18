#include "core/selection/blocks/pattern_file.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace kvloupe::selection {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

}  // namespace

const char* name_of(PatternType type) {
  switch (type) {
    case PatternType::VerticalSlash: return "vertical_and_slash";
    case PatternType::BlockSparse: return "block_sparse";
    case PatternType::StreamLlm: return "stream_llm";
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

}  // namespace kvloupe::selection
