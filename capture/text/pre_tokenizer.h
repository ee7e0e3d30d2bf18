// Cuts text into the pieces inside which byte-pair merges happen, by the regular expressions of the tokenizer's file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// Each match is a piece.
struct SplitRule {
  std::string pattern;     // as Hugging Face's tokenizers write it
  bool keeps_rest = true;  // what lies between the matches is a piece too; otherwise it is left out
};

// Rules one after the other, each inside the pieces of the one before. Bytes that are not UTF-8 are pieces of their own.
class PreTokenizer {
 public:
  // Throws Error{Input} for an expression that means something else here, or nothing.
  explicit PreTokenizer(const std::vector<SplitRule>& rules);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Views into `text`, in its order. Throws Error{Input} for a text that an expression takes too long for.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  class Rule;
  std::vector<Rule> rules_;
};

// What llama.cpp's names stand for.
struct NamedPreTokenizer {
  std::vector<SplitRule> splits;
  bool ignores_merges = false;
  bool composes = false;
  bool adds_bos = false;
};
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

}  // namespace kvloupe::capture
