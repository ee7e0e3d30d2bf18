// Text to tokens and back, for the vocabulary of a model: special tokens and byte offsets here, pieces by the file's
// regular expressions (pre_tokenizer.h), merging by llama.cpp (llama_vocabulary.h).
#pragma once

#include "capture/text/tokenizer_data.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

enum class SpecialTokens { Parse, Literal };  // Literal: "<|im_end|>" in user text stays text

// Tokens with the byte of the text at which each begins; bytes that were dropped belong to the
// token before them.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> begins;
};

// A part of a text in which special tokens are parsed, or not.
struct TextPart {
  std::string_view text;
  SpecialTokens special = SpecialTokens::Literal;
};

class Tokenizer {
 public:
  Tokenizer();
  explicit Tokenizer(
      TokenizerData data);  // throws Error{Input} when the data contradict themselves
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // No begin token is added.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const;
  Encoding encode_with_offsets(std::string_view text, SpecialTokens special) const;
  // The parts as one text: merges reach across their borders, special tokens do not.
  Encoding encode_parts(std::span<const TextPart> parts) const;
  // Raw bytes of one token: a character may be spread over several. Throws Error{Input} for an id
  // outside the vocabulary.
  std::string decode_bytes(std::int32_t id) const;
  std::string decode(std::span<const std::int32_t> ids) const;
  std::int32_t vocab_size() const;
  // One more than the last id that plain text is made into.
  std::int32_t text_vocab_size() const;
  std::int32_t bos() const;  // -1: none
  bool adds_bos() const;     // whether the model was trained on texts that begin with bos()
  std::int32_t eos() const;
  // eos() and the others after which an answer is over.
  bool ends_answer(std::int32_t id) const;
  // A control token: one that no text is made into, unless special tokens are parsed.
  bool is_special(std::int32_t id) const;
  // -1 when the vocabulary has no such control token.
  std::int32_t special_id(std::string_view literal) const;
  // The texts of all control tokens.
  std::vector<std::string> special_literals() const;
  // The model's chat template; empty when it has none.
  const std::string& chat_template() const;
  // Bytes that had no token and were dropped or replaced, over all encode calls so far.
  std::int64_t dropped_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe::capture
