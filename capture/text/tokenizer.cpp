// Byte-level BPE: special tokens, pieces, then merges of the lowest rank first.
#include "capture/text/tokenizer.h"

#include "capture/text/pre_tokenizer.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <unordered_map>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::int32_t kNormalType = 1;
constexpr std::int32_t kControlType = 3;
constexpr std::int32_t kUserDefinedType = 4;

Error contradiction(std::string why) {
  return input_error("cannot build the tokenizer of this model", std::move(why),
                     "choose a model file with a complete vocabulary");
}

// GPT-2's printable alphabet: bytes that print stand for themselves, the 68 others for U+0100 on.
std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}

// Bytes that a token written in the alphabet stands for; nullopt if a character is not in it. All
// characters of the alphabet take one or two bytes in UTF-8.
std::optional<std::string> bytes_of(std::string_view token) {
  static const auto byte_from_char = [] {
    std::unordered_map<char32_t, char> map;
    const auto alphabet = make_alphabet();
    for (std::size_t byte = 0; byte < 256; ++byte) {
      map.emplace(alphabet[byte], static_cast<char>(byte));
    }
    return map;
  }();
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    auto code = static_cast<char32_t>(static_cast<unsigned char>(token[i]));
    if (code >= 0x80) {
      if ((code & 0xe0) != 0xc0 || i + 1 == token.size()) return std::nullopt;
      code = (code & 0x1f) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3f);
    }
    const auto it = byte_from_char.find(code);
    if (it == byte_from_char.end()) return std::nullopt;
    bytes += it->second;
  }
  return bytes;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

struct Merge {
  std::int32_t rank = 0;
  std::int32_t product = 0;
};

struct Special {
  std::string literal;
  std::int32_t id = 0;
};

// A token in the making, in a doubly linked list over a vector.
struct Symbol {
  std::int32_t id = 0;
  int previous = -1;
  int next = -1;
  std::size_t begin = 0;
};

// A pair that may merge; stale once either side has changed.
struct Candidate {
  Merge merge;
  int left = 0;
  std::int32_t left_id = 0, right_id = 0;
};

// Lowest rank first, then leftmost; std heaps keep the largest on top.
bool merges_later(const Candidate& a, const Candidate& b) {
  return a.merge.rank != b.merge.rank ? a.merge.rank > b.merge.rank : a.left > b.left;
}

}  // namespace

struct Tokenizer::Impl {
  std::vector<std::string> bytes_from_id;
  std::unordered_map<std::string, std::int32_t> control_ids;
  std::vector<Special> specials;  // longest first
  std::array<std::int32_t, 256> id_from_byte{};
  std::unordered_map<std::uint64_t, Merge> merges;
  std::int32_t eos = -1;
  mutable std::atomic<std::int64_t> dropped{0};

  explicit Impl(const TokenizerData& data);
  void add_tokens(const TokenizerData& data,
                  std::unordered_map<std::string_view, std::int32_t>& id_from_token);
  void add_merges(const TokenizerData& data,
                  const std::unordered_map<std::string_view, std::int32_t>& id_from_token);

  // What encode_piece works in, kept from piece to piece.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };
  void push_candidate(Scratch& scratch, int left) const;
  void encode_piece(std::string_view piece, std::size_t begin, Scratch& scratch,
                    Encoding& out) const;
  void encode_text(std::string_view text, std::size_t begin, Scratch& scratch, Encoding& out) const;
  const Special* special_at(std::string_view rest) const;
};

Tokenizer::Impl::Impl(const TokenizerData& data) : eos(data.eos) {
  if (data.pre_tokenizer != "smollm") {
    throw input_error(
        "cannot use the tokenizer of this model",
        fmt::format("its pre-tokenizer \"{}\" is not implemented", data.pre_tokenizer),
        "choose a model with the pre-tokenizer \"smollm\"");
  }
  std::unordered_map<std::string_view, std::int32_t> id_from_token;
  add_tokens(data, id_from_token);
  add_merges(data, id_from_token);
}

void Tokenizer::Impl::add_tokens(
    const TokenizerData& data, std::unordered_map<std::string_view, std::int32_t>& id_from_token) {
  const auto count = static_cast<std::int32_t>(data.tokens.size());
  if (count == 0) throw contradiction("its vocabulary is empty");
  if (!data.types.empty() && data.types.size() != data.tokens.size()) {
    throw contradiction(
        fmt::format("it has {} tokens but {} token types", data.tokens.size(), data.types.size()));
  }
  if (data.eos >= count || data.bos >= count) {
    throw contradiction("its begin or end token lies outside the vocabulary");
  }
  id_from_byte.fill(-1);
  bytes_from_id.reserve(data.tokens.size());
  id_from_token.reserve(data.tokens.size());
  for (std::int32_t id = 0; id < count; ++id) {
    const std::string& token = data.tokens[id];
    const std::int32_t type = data.types.empty() ? kNormalType : data.types[id];
    if (token.empty()) throw contradiction(fmt::format("token {} is empty", id));
    if (!id_from_token.emplace(token, id).second) {
      throw contradiction(fmt::format("token {} repeats an earlier one", id));
    }
    if (type == kControlType || type == kUserDefinedType) {
      bytes_from_id.push_back(token);
      specials.push_back({token, id});
      if (type == kControlType) control_ids.emplace(token, id);
      continue;
    }
    auto bytes = bytes_of(token);
    if (!bytes) {
      throw contradiction(fmt::format("token {} is not in the byte alphabet of GPT-2", id));
    }
    if (bytes->size() == 1) id_from_byte[static_cast<unsigned char>(bytes->front())] = id;
    bytes_from_id.push_back(std::move(*bytes));
  }
  std::stable_sort(specials.begin(), specials.end(), [](const Special& a, const Special& b) {
    return a.literal.size() > b.literal.size();
  });
}

void Tokenizer::Impl::add_merges(
    const TokenizerData& data,
    const std::unordered_map<std::string_view, std::int32_t>& id_from_token) {
  const auto id_of = [&](std::string_view token, std::size_t rank) {
    const auto it = id_from_token.find(token);
    if (it == id_from_token.end()) {
      throw contradiction(
          fmt::format("merge {} names a token that is not in the vocabulary", rank));
    }
    return it->second;
  };
  merges.reserve(data.merges.size());
  for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const auto space = merge.find(' ');
    if (space == std::string_view::npos) {
      throw contradiction(fmt::format("merge {} is not a pair of tokens", rank));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    const std::int32_t product = id_of(std::string(left).append(right), rank);
    if (!data.types.empty() && data.types[product] == kControlType) {
      throw contradiction(fmt::format("merge {} makes a control token out of text", rank));
    }
    merges.emplace(pair_key(id_of(left, rank), id_of(right, rank)),
                   Merge{static_cast<std::int32_t>(rank), product});
  }
}

const Special* Tokenizer::Impl::special_at(std::string_view rest) const {
  for (const Special& special : specials) {
    if (rest.substr(0, special.literal.size()) == special.literal) return &special;
  }
  return nullptr;
}

void Tokenizer::Impl::push_candidate(Scratch& scratch, int left) const {
  if (left < 0) return;
  const Symbol& symbol = scratch.symbols[left];
  if (symbol.next < 0) return;
  const std::int32_t right_id = scratch.symbols[symbol.next].id;
  const auto it = merges.find(pair_key(symbol.id, right_id));
  if (it == merges.end()) return;
  scratch.heap.push_back({it->second, left, symbol.id, right_id});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), merges_later);
}

void Tokenizer::Impl::encode_piece(std::string_view piece, std::size_t begin, Scratch& scratch,
                                   Encoding& out) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.heap.clear();
  std::int64_t without_token = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const std::int32_t id = id_from_byte[static_cast<unsigned char>(piece[i])];
    if (id < 0) {
      ++without_token;
      continue;
    }
    const int index = static_cast<int>(symbols.size());
    symbols.push_back({id, index - 1, -1, begin + i});
    if (index > 0) symbols[index - 1].next = index;
  }
  if (without_token > 0) dropped += without_token;
  if (symbols.empty()) return;
  for (int i = 0; i + 1 < static_cast<int>(symbols.size()); ++i) push_candidate(scratch, i);

  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), merges_later);
    const Candidate best = scratch.heap.back();
    scratch.heap.pop_back();
    Symbol& left = symbols[best.left];
    if (left.id != best.left_id || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    if (right.id != best.right_id) continue;
    left.id = best.merge.product;
    right.id = -1;  // makes candidates that start at it stale
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = best.left;
    push_candidate(scratch, left.previous);
    push_candidate(scratch, best.left);
  }
  // The first symbol is never the right side of a pair, so the list begins there.
  for (int i = 0; i >= 0; i = symbols[i].next) {
    out.ids.push_back(symbols[i].id);
    out.begins.push_back(symbols[i].begin);
  }
}

void Tokenizer::Impl::encode_text(std::string_view text, std::size_t begin, Scratch& scratch,
                                  Encoding& out) const {
  for (const std::string_view piece : pre_tokenise_smollm(text)) {
    encode_piece(piece, begin + static_cast<std::size_t>(piece.data() - text.data()), scratch, out);
  }
}

Tokenizer::Tokenizer() = default;
Tokenizer::Tokenizer(TokenizerData data) : impl_(std::make_unique<Impl>(data)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Encoding Tokenizer::encode_with_offsets(std::string_view text, SpecialTokens special) const {
  KVLOUPE_CHECK(impl_ != nullptr);
  Encoding out;
  Impl::Scratch scratch;
  std::size_t begin = 0;
  if (special == SpecialTokens::Parse) {
    for (std::size_t pos = 0; pos < text.size();) {
      const Special* found = impl_->special_at(text.substr(pos));
      if (found == nullptr) {
        ++pos;
        continue;
      }
      impl_->encode_text(text.substr(begin, pos - begin), begin, scratch, out);
      out.ids.push_back(found->id);
      out.begins.push_back(pos);
      pos += found->literal.size();
      begin = pos;
    }
  }
  impl_->encode_text(text.substr(begin), begin, scratch, out);
  return out;
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

std::int32_t Tokenizer::eos() const { return impl_ ? impl_->eos : -1; }

std::int32_t Tokenizer::special_id(std::string_view literal) const {
  if (!impl_) return -1;
  const auto it = impl_->control_ids.find(std::string(literal));
  return it == impl_->control_ids.end() ? -1 : it->second;
}

std::int64_t Tokenizer::dropped_bytes() const { return impl_ ? impl_->dropped.load() : 0; }

}  // namespace kvloupe::capture
