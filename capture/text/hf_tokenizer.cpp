#include "capture/text/hf_tokenizer.h"

#include "capture/text/parse_json.h"
#include "capture/text/tokenizer_json.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <optional>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The largest in use has some 35 MB.
constexpr std::uintmax_t kMaxVocabularyBytes = std::uintmax_t{128} << 20;
constexpr std::uintmax_t kMaxSmallBytes = std::uintmax_t{8} << 20;

Error refused(const fs::path& path, std::string why) {
  return input_error(fmt::format("cannot use {}", printable(path.string())), std::move(why),
                     "download the model's folder again or choose another model");
}

// nullopt where there is none.
std::optional<std::string> read_file(const fs::path& path, std::uintmax_t most) {
  std::error_code code;
  if (fs::symlink_status(path, code).type() == fs::file_type::not_found) return std::nullopt;
  if (!fs::is_regular_file(path, code)) throw refused(path, "it is no file, or a link to none");
  const auto size = fs::file_size(path, code);
  if (code || size > most)
    throw refused(
        path, fmt::format("it has {}, more than {}", format_bytes(static_cast<std::int64_t>(size)),
                          format_bytes(static_cast<std::int64_t>(most))));
  std::string content(static_cast<std::size_t>(size), '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(content.data(), static_cast<std::streamsize>(size));
  if (!stream) throw refused(path, "it cannot be read");
  return content;
}

json read_object(const fs::path& path) {
  const auto content = read_file(path, kMaxSmallBytes);
  if (!content) return json::object();
  json value = parse_json(*content);
  if (!value.is_object()) throw refused(path, "it is no JSON object, or nests without end");
  return value;
}

// "<s>", or an object with it.
std::string token_text(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const bool has_content =
      found->is_object() && found->contains("content") && (*found)["content"].is_string();
  return has_content ? (*found)["content"].get<std::string>() : "";
}

std::int32_t id_of(const TokenizerData& data, const std::string& text) {
  for (std::size_t id = 0; !text.empty() && id < data.tokens.size(); ++id)
    if (data.tokens[id] == text) return static_cast<std::int32_t>(id);
  return -1;
}

// The end of an answer: one id or several.
void add_ends(const json& generation, TokenizerData& data) {
  const auto found = generation.find("eos_token_id");
  if (found == generation.end()) return;
  const json list = found->is_array() ? *found : json::array({*found});
  for (const json& id : list) {
    if (!id.is_number_integer()) continue;
    const auto number = id.get<std::int64_t>();
    if (number < 0 || number >= static_cast<std::int64_t>(data.tokens.size())) continue;
    data.more_ends.push_back(static_cast<std::int32_t>(number));
  }
}

// One template, or a list of them with names.
std::string template_of(const json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return "";
  for (const json& each : *found)
    if (each.is_object() && each.value("name", json()) == "default" && each.contains("template") &&
        each["template"].is_string())
      return each["template"].get<std::string>();
  return "";
}

}  // namespace

Tokenizer read_hf_tokenizer(const fs::path& folder) {
  const fs::path path = folder / "tokenizer.json";
  const auto content = read_file(path, kMaxVocabularyBytes);
  if (!content)
    throw input_error(
        fmt::format("cannot find the tokenizer of {}", printable(folder.string())),
        "the folder has no tokenizer.json",
        "save one there by transformers: AutoTokenizer.from_pretrained(...).save_pretrained(...)");
  TokenizerData data = parse_tokenizer_json(*content);
  const json config = read_object(folder / "tokenizer_config.json");
  const json map = read_object(folder / "special_tokens_map.json");
  const auto named = [&](const char* name) {
    const std::string text = token_text(config, name);
    return id_of(data, text.empty() ? token_text(map, name) : text);
  };
  if (const auto bos = named("bos_token"); bos >= 0) data.bos = bos;
  data.eos = named("eos_token");
  // Tokenizers of Llama's kind make their post-processor anew from this.
  if (const auto adds = config.find("add_bos_token"); adds != config.end() && adds->is_boolean())
    data.adds_bos = adds->get<bool>() && data.bos >= 0;
  add_ends(read_object(folder / "generation_config.json"), data);
  if (data.more_ends.empty()) data.more_ends = ends_by_name(data);
  data.chat_template =
      read_file(folder / "chat_template.jinja", kMaxSmallBytes).value_or(template_of(config));
  return Tokenizer(std::move(data));
}

}  // namespace kvloupe::capture
