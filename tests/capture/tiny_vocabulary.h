// A small byte-level vocabulary: three control tokens, all bytes but 0x04 and 0xff, a few merges.
#pragma once

#include "capture/text/tokenizer.h"

#include <string>
#include <vector>

namespace kvloupe::capture {

// UTF-8 of the character that stands for a byte in GPT-2's alphabet.
inline std::string byte_character(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

inline constexpr int kByteWithoutToken = 0x04;

// ChatML with a system message of its own where the messages have none.
inline constexpr const char* kChatMl =
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

inline TokenizerData tiny_vocabulary(const std::vector<std::string>& merges = {
                                         "h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or",
                                         "l d", "Ġwor ld"}) {
  TokenizerData data;
  data.pre_tokenizer = "smollm";
  data.bos = 1;
  data.eos = 2;
  data.chat_template = kChatMl;
  const auto add = [&](const std::string& token, int type) {
    data.tokens.push_back(token);
    data.types.push_back(type);
  };
  for (const char* token : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) add(token, 3);
  for (int byte = 0; byte < 255; ++byte) {
    if (byte != kByteWithoutToken) add(byte_character(byte), 1);
  }
  for (const std::string& merge : merges) {
    std::string product = merge;
    product.erase(product.find(' '), 1);
    add(product, 1);
    data.merges.push_back(merge);
  }
  return data;
}

}  // namespace kvloupe::capture
