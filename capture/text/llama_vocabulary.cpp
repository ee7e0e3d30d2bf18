#include "capture/text/llama_vocabulary.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <kvloupe_vocab.h>

#include <exception>
#include <limits>
#include <string>

namespace kvloupe::capture {
namespace {

struct FreeMetadata {
  void operator()(gguf_context* context) const { gguf_free(context); }
};

// Texts that no input holds, since they are not UTF-8.
std::string hidden_name(std::size_t id) { return fmt::format("\xff{}", id); }

std::unique_ptr<gguf_context, FreeMetadata> metadata_of(const TokenizerData& data) {
  std::unique_ptr<gguf_context, FreeMetadata> context(gguf_init_empty());
  gguf_context* const to = context.get();
  gguf_set_val_str(to, "general.architecture", "llama");
  gguf_set_val_bool(to, "tokenizer.ggml.add_space_prefix", false);
  gguf_set_val_bool(to, "tokenizer.ggml.add_bos_token", false);
  // "gemma4" merges text as it is given; our pieces hold no newline, at which it would cut.
  gguf_set_val_str(to, "tokenizer.ggml.model",
                   data.kind == TokenizerKind::Scores ? "llama" : "gemma4");

  std::vector<std::string> texts = data.tokens;
  std::vector<std::int32_t> types(texts.size(), static_cast<std::int32_t>(TokenType::Normal));
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const TokenType type = type_of(data, static_cast<std::int32_t>(id));
    if (type == TokenType::Byte) types[id] = static_cast<std::int32_t>(type);
    // The array is one of C strings, so that a zero byte would cut one short.
    if (type == TokenType::Control || type == TokenType::Unknown || type == TokenType::Unused ||
        texts[id].find('\0') != std::string::npos)
      texts[id] = hidden_name(id);
  }
  const auto set_texts = [to](const char* key, const std::vector<std::string>& values) {
    std::vector<const char*> pointers;
    pointers.reserve(values.size());
    for (const std::string& value : values) pointers.push_back(value.c_str());
    gguf_set_arr_str(to, key, pointers.data(), pointers.size());
  };
  set_texts("tokenizer.ggml.tokens", texts);
  gguf_set_arr_data(to, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
  if (data.kind == TokenizerKind::Scores) {
    gguf_set_arr_data(to, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, data.scores.data(),
                      data.scores.size());
  } else {
    set_texts("tokenizer.ggml.merges", data.merges);
  }
  return context;
}

}  // namespace

LlamaVocabulary::LlamaVocabulary(const TokenizerData& data) {
  static const bool silenced = [] {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    return true;
  }();
  static_cast<void>(silenced);
  try {
    vocab_.reset(kvloupe_vocab_new(metadata_of(data).get()), kvloupe_vocab_free);
  } catch (const std::exception& error) {
    throw input_error("cannot build the tokenizer of this model",
                      fmt::format("llama.cpp refuses its vocabulary ({})", error.what()),
                      "choose a model file with a complete vocabulary");
  }
}

void LlamaVocabulary::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  // At most a token a byte, and a space is three where it is written as U+2581.
  const std::size_t most = 3 * text.size();
  KVLOUPE_CHECK(most <= std::numeric_limits<std::int32_t>::max());
  ids.resize(begin + most);
  const int count =
      llama_tokenize(vocab_.get(), text.data(), static_cast<std::int32_t>(text.size()),
                     ids.data() + begin, static_cast<std::int32_t>(most),
                     /*add_special=*/false, /*parse_special=*/false);
  KVLOUPE_CHECK(count >= 0);
  ids.resize(begin + static_cast<std::size_t>(count));
}

}  // namespace kvloupe::capture
