#include "capture/text/tokenizer_data.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::size_t kMaxTokens = 1 << 22;
constexpr std::size_t kMaxTokenBytes = 1 << 16;

Error contradiction(std::string why) {
  return input_error("cannot build the tokenizer of this model", std::move(why),
                     "choose a model file with a complete vocabulary");
}

// GPT-2's printable alphabet: bytes that print stand for themselves, the 68 others for U+0100 on.
const std::array<std::string, 256>& byte_alphabet() {
  static const auto alphabet = [] {
    std::array<std::string, 256> result;
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const unsigned code = printable ? byte : next++;
      if (code < 0x80) {
        result[byte] = {static_cast<char>(code)};
      } else {
        result[byte] = {static_cast<char>(0xc0 | code >> 6),
                        static_cast<char>(0x80 | (code & 0x3f))};
      }
    }
    return result;
  }();
  return alphabet;
}

// Bytes that a token written in the alphabet stands for; nullopt if a character is not in it.
std::optional<std::string> from_byte_alphabet(std::string_view token) {
  static const auto byte_from_char = [] {
    std::unordered_map<std::string_view, char> map;
    for (std::size_t byte = 0; byte < 256; ++byte)
      map.emplace(byte_alphabet()[byte], static_cast<char>(byte));
    return map;
  }();
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const std::size_t length = static_cast<unsigned char>(token[i]) < 0x80 ? 1 : 2;
    const auto found = byte_from_char.find(token.substr(i, length));
    if (found == byte_from_char.end()) return std::nullopt;
    bytes += found->second;
    i += length;
  }
  return bytes;
}

// "<0x0A>"
std::optional<unsigned char> byte_of(std::string_view token) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  const auto high = kDigits.find(token[3]), low = kDigits.find(token[4]);
  if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
  return static_cast<unsigned char>(high << 4 | low);
}

using Ids = std::unordered_map<std::string_view, std::int32_t>;

Ids check_tokens(const TokenizerData& data) {
  const std::size_t count = data.tokens.size();
  if (count == 0) throw contradiction("its vocabulary is empty");
  if (count > kMaxTokens) throw contradiction(fmt::format("it has {} tokens", count));
  if (!data.types.empty() && data.types.size() != count)
    throw contradiction(
        fmt::format("it has {} tokens but {} token types", count, data.types.size()));
  Ids ids;
  ids.reserve(count);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string& token = data.tokens[id];
    if (token.empty()) throw contradiction(fmt::format("token {} is empty", id));
    if (token.size() > kMaxTokenBytes)
      throw contradiction(fmt::format("token {} has {} bytes", id, token.size()));
    if (!ids.emplace(token, static_cast<std::int32_t>(id)).second)
      throw contradiction(fmt::format("token {} repeats an earlier one", id));
    const TokenType type = type_of(data, static_cast<std::int32_t>(id));
    if (type < TokenType::Normal || type > TokenType::Byte)
      throw contradiction(fmt::format("token {} has the type {}", id, static_cast<int>(type)));
    if (type == TokenType::Byte && !byte_of(token))
      throw contradiction(fmt::format("token {} is not a byte though its type says so", id));
    if (type == TokenType::Normal && data.kind == TokenizerKind::ByteLevel &&
        !from_byte_alphabet(token))
      throw contradiction(fmt::format("token {} is not in the byte alphabet of GPT-2", id));
  }
  return ids;
}

void check_ids(const TokenizerData& data) {
  const auto count = static_cast<std::int64_t>(data.tokens.size());
  std::vector<std::int32_t> named = data.more_ends;
  named.insert(named.end(), {data.bos, data.eos});
  for (const std::int32_t id : named)
    if (id < -1 || id >= count)
      throw contradiction("its begin or end token lies outside the vocabulary");
  if (data.adds_bos && data.bos < 0)
    throw contradiction("it begins every text with a begin token, but names none");
}

void check_merges(const TokenizerData& data, const Ids& ids) {
  if (data.merges.size() > 4 * kMaxTokens)
    throw contradiction(fmt::format("it has {} merges", data.merges.size()));
  for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const auto space = merge.find(' ');
    if (space == 0 || space == merge.npos || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != merge.npos)
      throw contradiction(fmt::format("merge {} is not a pair of tokens", rank));
    const auto id_of = [&](std::string_view token) {
      const auto found = ids.find(token);
      if (found == ids.end())
        throw contradiction(
            fmt::format("merge {} names a token that is not in the vocabulary", rank));
      return found->second;
    };
    // llama.cpp cuts a text at its line ends before it merges.
    const auto ends = static_cast<std::size_t>(std::count(merge.begin(), merge.end(), '\n'));
    if (ends != 0 && ends + 1 != merge.size())
      throw contradiction(fmt::format(
          "merge {} joins a line end with other characters, which is not implemented", rank));
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    id_of(left);
    id_of(right);
    if (is_control(type_of(data, id_of(std::string(left).append(right)))))
      throw contradiction(fmt::format("merge {} makes a control token out of text", rank));
  }
}

void check_scores(const TokenizerData& data) {
  if (data.scores.size() != data.tokens.size())
    throw contradiction(
        fmt::format("it has {} tokens but {} scores", data.tokens.size(), data.scores.size()));
  for (std::size_t id = 0; id < data.scores.size(); ++id)
    if (!std::isfinite(data.scores[id]))
      throw contradiction(fmt::format("the score of token {} is no number", id));
}

void check_bytes(const Ids& ids) {
  if (!ids.contains(kSpaceSign)) throw contradiction("it has no token for a space");
  for (int byte = 0; byte < 256; ++byte)
    if (!ids.contains(fmt::format("<0x{:02X}>", byte)))
      throw contradiction(
          fmt::format("it has no token <0x{:02X}>, so that some texts have no tokens", byte));
}

// Of an answer. The last three stand in other texts, too: "</s>" ends what HTML strikes out.
constexpr std::array<std::string_view, 14> kEnds = {"<|eot_id|>",
                                                    "<|eom_id|>",
                                                    "<|im_end|>",
                                                    "<|end|>",
                                                    "<|return|>",
                                                    "<|call|>",
                                                    "<|endoftext|>",
                                                    "<|end_of_text|>",
                                                    "<end_of_turn>",
                                                    "<turn|>",
                                                    "<｜end▁of▁sentence｜>",
                                                    "<eos>",
                                                    "</s>",
                                                    "[EOS]"};
constexpr std::span<const std::string_view> kClearEnds(kEnds.data(), kEnds.size() - 3);

bool is_one_of(std::span<const std::string_view> names, std::string_view token) {
  return std::find(names.begin(), names.end(), token) != names.end();
}

// "<...>", each from a sign to the next one.
std::unordered_set<std::string_view> bracketed(std::string_view text) {
  std::unordered_set<std::string_view> found;
  for (std::size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find_first_of("<> \t\r\n", at + 1);
    if (end != text.npos && text[end] == '>' && end > at + 1)
      found.insert(text.substr(at, end + 1 - at));
  }
  return found;
}

// Nobody writes such a name for anything else: for SentencePiece, whose scores do not tell what text is made into.
bool is_clear_marker(std::string_view token) {
  return token.starts_with("<|") || token.starts_with("<start_of_") ||
         token.starts_with("<end_of_");
}

std::unordered_set<std::string> made_by_merges(const TokenizerData& data) {
  std::unordered_set<std::string> made;
  for (const std::string& merge : data.merges) {
    std::string product = merge;
    if (const auto space = product.find(' '); space != product.npos) product.erase(space, 1);
    made.insert(std::move(product));
  }
  return made;
}

}  // namespace

std::vector<std::string> type_markers(TokenizerData& data) {
  std::vector<std::string> markers;
  if (data.types.empty())
    data.types.assign(data.tokens.size(), static_cast<std::int32_t>(TokenType::Normal));
  if (data.types.size() != data.tokens.size()) return markers;  // is refused later
  std::set<std::int32_t> named(data.more_ends.begin(), data.more_ends.end());
  named.insert({data.bos, data.eos});
  const auto bracketed_names = bracketed(data.chat_template);
  const auto in_template = [&](const std::string& token) {
    return bracketed_names.contains(token) &&
           (data.kind != TokenizerKind::Scores || is_clear_marker(token));
  };
  const auto is_marker = [&](std::int32_t id) {
    const std::string& token = data.tokens[id];
    const TokenType type = type_of(data, id);
    if (is_control(type) || type == TokenType::Byte) return false;
    if (is_one_of(kClearEnds, token)) return true;
    if (type != TokenType::Normal || token.size() < 3) return false;
    const bool in_brackets = token.front() == '<' && token.back() == '>';
    return in_template(token) || (named.contains(id) && in_brackets);
  };
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(data.tokens.size()); ++id)
    if (is_marker(id)) ids.push_back(id);
  if (ids.empty()) return markers;
  const auto made = made_by_merges(data);
  for (const std::int32_t id : ids) {
    if (made.contains(data.tokens[id])) continue;
    data.types[id] = static_cast<std::int32_t>(TokenType::Control);
    markers.push_back(data.tokens[id]);
  }
  return markers;
}

std::vector<std::int32_t> ends_by_name(const TokenizerData& data) {
  std::vector<std::int32_t> ends;
  const auto count = static_cast<std::int32_t>(data.tokens.size());
  bool harmony = false;
  for (std::int32_t id = 0; id < count; ++id) harmony |= data.tokens[id] == "<|return|>";
  for (std::int32_t id = 0; id < count; ++id) {
    const std::string& token = data.tokens[id];
    if (!is_control(type_of(data, id)) || (harmony && token == "<|end|>")) continue;
    if (is_one_of(kEnds, token)) ends.push_back(id);
  }
  return ends;
}

TokenType type_of(const TokenizerData& data, std::int32_t id) {
  return data.types.empty() ? TokenType::Normal : static_cast<TokenType>(data.types[id]);
}

void complete_and_check(TokenizerData& data) {
  if (data.kind == TokenizerKind::ByteLevel && data.splits.empty()) {
    auto named = named_pre_tokenizer(data.pre_tokenizer);
    if (!named)
      throw input_error(
          "cannot use the tokenizer of this model",
          data.pre_tokenizer.empty()
              ? "it does not say how text is cut before merging"
              : fmt::format("its pre-tokenizer \"{}\" is not implemented", data.pre_tokenizer),
          "choose a model with another one, such as smollm, gpt-2, llama-bpe, qwen2 or gpt-4o");
    data.splits = std::move(named->splits);
    data.ignores_merges = named->ignores_merges;
    data.composes = named->composes;
  }
  const Ids ids = check_tokens(data);
  check_ids(data);
  if (data.kind == TokenizerKind::Scores) {
    check_scores(data);
  } else {
    check_merges(data, ids);
  }
  if (data.kind != TokenizerKind::ByteLevel) check_bytes(ids);
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) result += byte_alphabet()[static_cast<unsigned char>(byte)];
  return result;
}

std::string bytes_of_token(const TokenizerData& data, std::int32_t id) {
  const std::string& token = data.tokens[id];
  const TokenType type = type_of(data, id);
  if (type == TokenType::Byte) return {static_cast<char>(byte_of(token).value_or(0))};
  if (type != TokenType::Normal && type != TokenType::Unused) return token;
  if (data.kind == TokenizerKind::ByteLevel) return from_byte_alphabet(token).value_or(token);
  std::string bytes = token;
  for (std::size_t at = bytes.find(kSpaceSign); at != bytes.npos;
       at = bytes.find(kSpaceSign, at + 1))
    bytes.replace(at, kSpaceSign.size(), " ");
  return bytes;
}

}  // namespace kvloupe::capture
