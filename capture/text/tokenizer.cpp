#include "capture/text/tokenizer.h"

#include "capture/text/llama_vocabulary.h"
#include "capture/text/normalised_text.h"
#include "capture/text/pre_tokenizer.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <unordered_map>
#include <utility>

namespace kvloupe::capture {
namespace {

struct Special {
  std::string literal;
  std::int32_t id = 0;
  bool control = false;
};

TokenizerData checked(TokenizerData data) {
  complete_and_check(data);
  return data;
}

// Bytes of `text` that a token takes whose signs of a space may stand for a space or for themselves.
std::size_t bytes_taken(std::string_view text, std::string_view token) {
  std::size_t taken = 0;
  while (!token.empty() && taken < text.size()) {
    const bool sign = token.starts_with(kSpaceSign);
    const std::size_t width = sign ? kSpaceSign.size() : 1;
    taken += sign && text[taken] == ' ' ? 1 : width;
    token.remove_prefix(width);
  }
  return taken;
}

// Tokens of pieces met before in this text.
using Cache = std::unordered_map<std::string, std::vector<std::int32_t>>;
constexpr std::size_t kMaxCached = 1 << 18;

}  // namespace

struct Tokenizer::Impl {
  TokenizerData data;
  LlamaVocabulary vocabulary;
  PreTokenizer pre_tokenizer;
  std::vector<std::string> bytes_from_id;
  std::unordered_map<std::string_view, std::int32_t> whole_pieces;  // for ignores_merges
  std::array<std::vector<Special>, 256> specials;                   // by first byte, longest first
  std::array<bool, 256> has_token{};                                // for single bytes
  std::set<std::int32_t> ends;
  mutable std::atomic<std::int64_t> dropped{0};

  explicit Impl(TokenizerData given);
  const Special* special_at(std::string_view rest, bool with_control) const;
  void encode_text(std::string_view text, std::size_t begin, Cache& cache, Encoding& out) const;
  void encode_bytes(const NormalisedText& text, std::size_t begin, Cache& cache,
                    Encoding& out) const;
  void encode_piece(std::string_view piece, Cache& cache, std::vector<std::int32_t>& ids) const;
  void encode_characters(const NormalisedText& text, std::size_t begin, Encoding& out) const;
};

Tokenizer::Impl::Impl(TokenizerData given)
    : data(checked(std::move(given))), vocabulary(data), pre_tokenizer(data.splits) {
  const auto count = static_cast<std::int32_t>(data.tokens.size());
  bytes_from_id.reserve(data.tokens.size());
  for (std::int32_t id = 0; id < count; ++id) {
    const TokenType type = type_of(data, id);
    bytes_from_id.push_back(bytes_of_token(data, id));
    if (is_control(type) || type == TokenType::UserDefined) {
      const std::string& literal = data.tokens[id];
      specials[static_cast<unsigned char>(literal.front())].push_back(
          {literal, id, is_control(type)});
    } else if (type == TokenType::Normal) {
      if (bytes_from_id.back().size() == 1)
        has_token[static_cast<unsigned char>(bytes_from_id.back().front())] = true;
      if (data.ignores_merges) whole_pieces.emplace(data.tokens[id], id);
    }
  }
  for (auto& of_byte : specials)
    std::stable_sort(of_byte.begin(), of_byte.end(), [](const Special& a, const Special& b) {
      return a.literal.size() > b.literal.size();
    });
  ends.insert(data.more_ends.begin(), data.more_ends.end());
  ends.insert(data.eos);
  ends.erase(-1);
}

const Special* Tokenizer::Impl::special_at(std::string_view rest, bool with_control) const {
  for (const Special& special : specials[static_cast<unsigned char>(rest.front())])
    if ((with_control || !special.control) && rest.starts_with(special.literal)) return &special;
  return nullptr;
}

void Tokenizer::Impl::encode_piece(std::string_view piece, Cache& cache,
                                   std::vector<std::int32_t>& ids) const {
  std::string letters = in_byte_alphabet(piece);
  if (const auto whole = whole_pieces.find(letters); whole != whole_pieces.end()) {
    ids = {whole->second};
    return;
  }
  if (const auto met = cache.find(letters); met != cache.end()) {
    ids = met->second;
    return;
  }
  ids.clear();
  vocabulary.encode(letters, ids);
  if (cache.size() < kMaxCached) cache.emplace(std::move(letters), ids);
}

void Tokenizer::Impl::encode_bytes(const NormalisedText& text, std::size_t begin, Cache& cache,
                                   Encoding& out) const {
  std::vector<std::int32_t> ids;
  std::string kept;
  std::vector<std::size_t> places;  // of the kept bytes in the text
  for (const std::string_view piece : pre_tokenizer.split(text.text())) {
    const auto at = static_cast<std::size_t>(piece.data() - text.text().data());
    kept.clear();
    places.clear();
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (!has_token[static_cast<unsigned char>(piece[i])]) continue;
      kept += piece[i];
      places.push_back(at + i);
    }
    dropped += static_cast<std::int64_t>(piece.size() - kept.size());
    if (kept.empty()) continue;
    encode_piece(kept, cache, ids);
    std::size_t done = 0;
    for (const std::int32_t id : ids) {
      KVLOUPE_CHECK(done < places.size());
      out.ids.push_back(id);
      out.begins.push_back(begin + text.source(places[done]));
      done += bytes_from_id[id].size();
    }
  }
}

void Tokenizer::Impl::encode_characters(const NormalisedText& text, std::size_t begin,
                                        Encoding& out) const {
  std::vector<std::int32_t> ids;
  for (const std::string_view piece : pre_tokenizer.split(text.text())) {
    ids.clear();
    vocabulary.encode(piece, ids);
    auto done = static_cast<std::size_t>(piece.data() - text.text().data());
    for (const std::int32_t id : ids) {
      KVLOUPE_CHECK(done < text.text().size());
      out.ids.push_back(id);
      out.begins.push_back(begin + text.source(done));
      const bool byte =
          type_of(data, id) == TokenType::Byte && bytes_from_id[id].front() == text.text()[done];
      done += byte ? 1 : bytes_taken(std::string_view(text.text()).substr(done), data.tokens[id]);
    }
  }
}

void Tokenizer::Impl::encode_text(std::string_view text, std::size_t begin, Cache& cache,
                                  Encoding& out) const {
  if (text.empty()) return;
  NormalisedText normalised(text);
  const bool bytes = data.kind == TokenizerKind::ByteLevel;
  if (!bytes) normalised.replace_invalid();
  dropped += normalised.replaced();
  if (data.composes) normalised.compose();
  const SpacePrefix& prefix = data.space_prefix;
  const bool wanted = prefix.when == SpacePrefix::When::Every ||
                      (prefix.when == SpacePrefix::When::First && begin == 0);
  const bool has_space =
      normalised.text().front() == ' ' || (!bytes && normalised.text().starts_with("\u2581"));
  if (wanted && (prefix.even_before_space || !has_space)) normalised.prefix_space();
  if (bytes) {
    encode_bytes(normalised, begin, cache, out);
  } else {
    encode_characters(normalised, begin, out);
  }
}

Tokenizer::Tokenizer() = default;
Tokenizer::Tokenizer(TokenizerData data) : impl_(std::make_unique<Impl>(std::move(data))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Encoding Tokenizer::encode_parts(std::span<const TextPart> parts) const {
  KVLOUPE_CHECK(impl_ != nullptr);
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  Encoding out;
  Cache cache;
  std::size_t begin = 0;  // of the text not yet encoded
  std::size_t end = 0;    // of the part
  for (const TextPart& part : parts) {
    std::size_t pos = end;
    end += part.text.size();
    while (pos < end) {
      const bool parse = part.special == SpecialTokens::Parse;
      // What is no control token may reach into the next part: it is text.
      const Special* found = impl_->special_at(
          std::string_view(text).substr(pos, parse ? end - pos : std::string::npos), parse);
      if (found == nullptr) {
        ++pos;
        continue;
      }
      if (pos < begin) {  // the part before took it
        pos = begin;
        continue;
      }
      impl_->encode_text(std::string_view(text).substr(begin, pos - begin), begin, cache, out);
      out.ids.push_back(found->id);
      out.begins.push_back(pos);
      pos += found->literal.size();
      begin = pos;
    }
  }
  impl_->encode_text(std::string_view(text).substr(begin), begin, cache, out);
  return out;
}

Encoding Tokenizer::encode_with_offsets(std::string_view text, SpecialTokens special) const {
  const TextPart part{text, special};
  return encode_parts({&part, 1});
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  return encode_with_offsets(text, special).ids;
}

std::string Tokenizer::decode_bytes(std::int32_t id) const {
  KVLOUPE_CHECK(impl_ != nullptr);
  if (id < 0 || id >= vocab_size()) {
    throw input_error(fmt::format("cannot decode token {}", id),
                      fmt::format("the vocabulary has {} tokens", vocab_size()),
                      "check that trace and model belong together");
  }
  return impl_->bytes_from_id[id];
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += decode_bytes(id);
  return text;
}

std::int32_t Tokenizer::vocab_size() const {
  return impl_ ? static_cast<std::int32_t>(impl_->bytes_from_id.size()) : 0;
}

std::int32_t Tokenizer::text_vocab_size() const {
  std::int32_t size = vocab_size();
  const auto of_text = [&](std::int32_t id) {
    const TokenType type = type_of(impl_->data, id);
    return type == TokenType::Normal || type == TokenType::UserDefined || type == TokenType::Byte;
  };
  while (size > 0 && !of_text(size - 1)) --size;
  return size;
}

std::int32_t Tokenizer::bos() const { return impl_ ? impl_->data.bos : -1; }
bool Tokenizer::adds_bos() const { return impl_ && impl_->data.adds_bos; }
std::int32_t Tokenizer::eos() const { return impl_ ? impl_->data.eos : -1; }
bool Tokenizer::ends_answer(std::int32_t id) const { return impl_ && impl_->ends.contains(id); }

bool Tokenizer::is_special(std::int32_t id) const {
  return impl_ && id >= 0 && id < vocab_size() && is_control(type_of(impl_->data, id));
}

std::int32_t Tokenizer::special_id(std::string_view literal) const {
  if (!impl_ || literal.empty()) return -1;
  for (const Special& special : impl_->specials[static_cast<unsigned char>(literal.front())])
    if (special.control && special.literal == literal) return special.id;
  return -1;
}

std::vector<std::string> Tokenizer::special_literals() const {
  std::vector<std::string> literals;
  if (!impl_) return literals;
  for (const auto& of_byte : impl_->specials)
    for (const Special& special : of_byte)
      if (special.control) literals.push_back(special.literal);
  return literals;
}

const std::string& Tokenizer::chat_template() const {
  static const std::string none;
  return impl_ ? impl_->data.chat_template : none;
}

std::int64_t Tokenizer::dropped_bytes() const { return impl_ ? impl_->dropped.load() : 0; }

}  // namespace kvloupe::capture
