// The expressions behind llama.cpp's names, as the families' own tokenizer.json files have them.
#include "capture/text/pre_tokenizer.h"

namespace kvloupe::capture {
namespace {

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names)
    if (each == name) return true;
  return false;
}

}  // namespace

std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  NamedPreTokenizer result;
  result.composes = one_of(name, {"qwen2", "qwen35", "olmo", "mpt"});
  result.ignores_merges = one_of(
      name, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2", "glm4", "tekken"});
  result.adds_bos =
      one_of(name, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2", "tekken"});
  if (one_of(name, {"gpt-2", "phi-2", "mpt", "olmo", "exaone4"})) {
    result.splits = {{kGpt2}};
  } else if (one_of(name, {"smollm", "starcoder", "refact", "command-r", "exaone", "minerva-7b"})) {
    result.splits = {{R"(\p{N})"}, {kGpt2}};
  } else if (one_of(name, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2",
                           "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"})) {
    result.splits = {{kLlama3}};
  } else if (one_of(name, {"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan"})) {
    result.splits = {{kQwen2}};
  } else if (name == "qwen35") {
    result.splits = {{kQwen35}};
  } else if (one_of(name, {"gpt-4o", "llama4", "kanana2"})) {
    result.splits = {{kGpt4o}};
  } else if (name == "tekken") {
    result.splits = {{kTekken}};
  } else if (one_of(name, {"deepseek-v3", "hunyuan-dense"})) {
    result.splits = {{R"(\p{N}{1,3})"}, {"[一-龥぀-ゟ゠-ヿ]+"}, {kDeepSeek3}};
  } else {
    return std::nullopt;
  }
  return result;
}

}  // namespace kvloupe::capture
