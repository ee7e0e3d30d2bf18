#include "capture/text/gguf_tokenizer.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

Error refused(const GgufFile& file, std::string why) {
  return input_error(fmt::format("cannot use the tokenizer of {}", printable(file.path().string())),
                     std::move(why), "choose another model file");
}

std::string key_of(std::string_view name) { return std::string(kPrefix).append(name); }

std::int32_t token_id(const GgufFile& file, std::string_view name) {
  const auto id = file.integer(key_of(name)).value_or(-1);
  // Some files write the largest number where there is no such token.
  if (id == std::numeric_limits<std::uint32_t>::max()) return -1;
  if (id < -1 || id > std::numeric_limits<std::int32_t>::max())
    throw refused(file, fmt::format("{} is {}", key_of(name), id));
  return static_cast<std::int32_t>(id);
}

TokenizerKind kind_of(const GgufFile& file) {
  const auto kind = file.text(key_of("model"));
  if (!kind) throw refused(file, "the metadata key tokenizer.ggml.model is missing");
  if (*kind == "gpt2") return TokenizerKind::ByteLevel;
  if (*kind == "llama") return TokenizerKind::Scores;
  if (*kind == "gemma4") return TokenizerKind::Merges;
  throw refused(file, fmt::format("its kind \"{}\" is not implemented (gpt2, llama and gemma4 are)",
                                  printable(*kind)));
}

bool flag(const GgufFile& file, std::string_view name, bool otherwise) {
  return file.integer(key_of(name)).value_or(otherwise ? 1 : 0) != 0;
}

void warn_of_markers(const GgufFile& file, const std::vector<std::string>& markers) {
  if (markers.empty()) return;
  constexpr std::size_t kMostNamed = 3;
  const std::size_t named = std::min(kMostNamed, markers.size());
  log::warning(
      "{} calls {}{} plain text; taken for markers of its chat", printable(file.path().string()),
      printable(fmt::format("{}", fmt::join(markers.begin(), markers.begin() + named, ", "))),
      markers.size() > named ? " and others" : "");
}

}  // namespace

Tokenizer read_tokenizer(const GgufFile& file) {
  TokenizerData data;
  data.kind = kind_of(file);
  data.tokens = file.texts(key_of("tokens")).value_or(std::vector<std::string>{});
  for (const auto type : file.integers(key_of("token_type")).value_or(std::vector<std::int64_t>{}))
    data.types.push_back(type < 0 || type > 99 ? 0 : static_cast<std::int32_t>(type));
  bool adds_bos = data.kind != TokenizerKind::ByteLevel;
  bool adds_space = data.kind == TokenizerKind::Scores;
  if (data.kind == TokenizerKind::Scores) {
    for (const double score : file.reals(key_of("scores")).value_or(std::vector<double>{}))
      data.scores.push_back(static_cast<float>(score));
  } else {
    data.merges = file.texts(key_of("merges")).value_or(std::vector<std::string>{});
  }
  if (data.kind == TokenizerKind::ByteLevel) {
    data.pre_tokenizer = file.text(key_of("pre")).value_or("");
    if (const auto named = named_pre_tokenizer(data.pre_tokenizer)) adds_bos = named->adds_bos;
  }
  adds_space = flag(file, "add_space_prefix", adds_space);
  if (adds_space) data.space_prefix.when = SpacePrefix::When::Every;
  data.bos = token_id(file, "bos_token_id");
  data.eos = token_id(file, "eos_token_id");
  data.adds_bos = flag(file, "add_bos_token", adds_bos && data.bos >= 0);
  for (const auto* name : {"eot_token_id", "eom_token_id"})
    if (const auto id = token_id(file, name); id >= 0) data.more_ends.push_back(id);
  data.chat_template = file.text("tokenizer.chat_template").value_or("");
  warn_of_markers(file, type_markers(data));
  const auto known = ends_by_name(data);
  data.more_ends.insert(data.more_ends.end(), known.begin(), known.end());
  return Tokenizer(std::move(data));
}

}  // namespace kvloupe::capture
