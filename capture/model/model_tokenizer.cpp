#include "capture/model/model_tokenizer.h"

#include "capture/model/gguf_cursor.h"
#include "capture/model/gguf_source.h"

#include <fmt/format.h>

#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::int64_t kMaxSize = 1 << 24;  // of a vocabulary

}  // namespace

Tokenizer read_tokenizer(const GgufFile& file) {
  const auto kind = file.text("tokenizer.ggml.model").value_or("");
  if (kind != "gpt2") {
    throw input_error(fmt::format("cannot use the model {}", file.path().string()),
                      fmt::format("its tokenizer \"{}\" is not implemented", kind),
                      "choose another model");
  }
  if (file.integer("tokenizer.ggml.add_bos_token").value_or(0) != 0 ||
      file.integer("tokenizer.ggml.add_space_prefix").value_or(0) != 0) {
    throw input_error(fmt::format("cannot use the model {}", file.path().string()),
                      "its tokenizer adds tokens of its own, which is not implemented",
                      "choose another model");
  }
  TokenizerData data;
  data.pre_tokenizer = file.text("tokenizer.ggml.pre").value_or("");
  data.tokens = file.texts("tokenizer.ggml.tokens").value_or(std::vector<std::string>{});
  data.merges = file.texts("tokenizer.ggml.merges").value_or(std::vector<std::string>{});
  for (const auto type :
       file.integers("tokenizer.ggml.token_type").value_or(std::vector<std::int64_t>{})) {
    data.types.push_back(static_cast<std::int32_t>(type));
  }
  const auto token_id = [&](std::string_view key) {
    const auto id = file.integer(key).value_or(-1);
    if (id < -1 || id > kMaxSize) throw damaged(file.path(), fmt::format("{} is {}", key, id));
    return static_cast<std::int32_t>(id);
  };
  data.bos = token_id("tokenizer.ggml.bos_token_id");
  data.eos = token_id("tokenizer.ggml.eos_token_id");
  return Tokenizer(std::move(data));
}

Tokenizer read_tokenizer(const ModelSource& source) {
  if (const auto* gguf = dynamic_cast<const GgufSource*>(&source))
    return read_tokenizer(gguf->file());
  throw unsupported(source, "tokenizers of Hugging Face folders are not implemented");
}

}  // namespace kvloupe::capture
