// llama.cpp's merging of text into tokens. It never sees special tokens: what is a marker and what is text is decided
// before (tokenizer.cpp), so that no text can become one.
#pragma once

#include "capture/text/tokenizer_data.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

struct llama_vocab;

namespace kvloupe::capture {

class LlamaVocabulary {
 public:
  // `data` was completed and checked.
  explicit LlamaVocabulary(const TokenizerData& data);

  // Appends the tokens of `text`: a piece in the byte alphabet for ByteLevel, else a text in UTF-8.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  std::shared_ptr<llama_vocab> vocab_;
};

}  // namespace kvloupe::capture
