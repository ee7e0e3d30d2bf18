// Byte-level BPE (GPT-2 alphabet) from a model file's metadata, with its chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

struct TokenizerData {
  std::string pre_tokenizer;        // "smollm"
  std::vector<std::string> tokens;  // in the GPT-2 printable alphabet, by id
  std::vector<std::int32_t> types;  // 3: control
  std::vector<std::string> merges;  // "left right", by rank
  std::int32_t bos = -1, eos = -1;
};

enum class SpecialTokens { Parse, Literal };  // Literal: "<|im_end|>" in user text stays text

// Tokens with the byte of the text at which each begins; bytes that were dropped belong to the
// token before them.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> begins;
};

class Tokenizer {
 public:
  Tokenizer();
  explicit Tokenizer(
      TokenizerData data);  // throws Error{Input} when the data contradict themselves
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const;
  Encoding encode_with_offsets(std::string_view text, SpecialTokens special) const;
  // Raw bytes of one token: a character may be spread over several. Throws Error{Input} for an id
  // outside the vocabulary.
  std::string decode_bytes(std::int32_t id) const;
  std::string decode(std::span<const std::int32_t> ids) const;
  std::int32_t vocab_size() const;
  std::int32_t eos() const;
  // -1 when the vocabulary has no such control token.
  std::int32_t special_id(std::string_view literal) const;
  // Bytes that had no token and were dropped, over all encode calls so far.
  std::int64_t dropped_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe::capture
