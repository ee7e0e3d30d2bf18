#include "capture/model/model_config.h"

#include "capture/model/gguf_cursor.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr std::int64_t kMaxSize = 1 << 24;  // of any dimension of a model

std::int64_t required_size(const GgufFile& file, std::string_view key) {
  const auto value = file.integer(key);
  if (!value) throw damaged(file, fmt::format("the metadata key {} is missing", key));
  if (*value < 1 || *value > kMaxSize) {
    throw damaged(file,
                  fmt::format("the metadata key {} is {}, not 1 to {}", key, *value, kMaxSize));
  }
  return *value;
}

double positive_real(const GgufFile& file, std::string_view key, std::optional<double> fallback) {
  const auto value = file.real(key);
  if (!value && !fallback) throw damaged(file, fmt::format("the metadata key {} is missing", key));
  const double number = value ? *value : *fallback;
  if (!std::isfinite(number) || number <= 0) {
    throw damaged(file, fmt::format("the metadata key {} is {}, not above 0", key, number));
  }
  return number;
}

// What the decoder would have to know and does not: better refused than run wrongly.
void refuse_unsupported(const GgufFile& file) {
  const auto architecture = file.text("general.architecture");
  if (!architecture) throw damaged(file, "the metadata key general.architecture is missing");
  if (*architecture != "llama") {
    throw unsupported(file,
                      fmt::format("its architecture \"{}\" is not implemented", *architecture));
  }
  const auto scaling = file.text("llama.rope.scaling.type").value_or("none");
  if (scaling != "none") {
    throw unsupported(file, fmt::format("its RoPE scaling \"{}\" is not implemented", scaling));
  }
  for (const auto* key : {"llama.expert_count", "llama.attention.sliding_window"}) {
    if (file.integer(key).value_or(0) != 0) {
      throw unsupported(file,
                        fmt::format("what its metadata key {} asks for is not implemented", key));
    }
  }
}

}  // namespace

Error unsupported(const GgufFile& file, std::string why) {
  return input_error(fmt::format("cannot use the model file {}", file.path().string()),
                     std::move(why), "choose a llama-architecture model without it");
}

Error damaged(const GgufFile& file, std::string why) {
  return damaged(file.path(), std::move(why));
}

ModelConfig read_config(const GgufFile& file) {
  refuse_unsupported(file);
  ModelConfig model;
  trace::ModelInfo& info = model.info;
  info.architecture = "llama";
  info.name = file.text("general.name").value_or(file.path().stem().string());
  info.num_layers = static_cast<int>(required_size(file, "llama.block_count"));
  info.num_q_heads = static_cast<int>(required_size(file, "llama.attention.head_count"));
  info.num_kv_heads = file.has("llama.attention.head_count_kv")
                          ? static_cast<int>(required_size(file, "llama.attention.head_count_kv"))
                          : info.num_q_heads;
  info.hidden_size = static_cast<int>(required_size(file, "llama.embedding_length"));
  model.ffn_size = required_size(file, "llama.feed_forward_length");
  model.context_length = required_size(file, "llama.context_length");
  model.rms_norm_eps = positive_real(file, "llama.attention.layer_norm_rms_epsilon", std::nullopt);

  info.head_dim = static_cast<int>(file.has("llama.attention.key_length")
                                       ? required_size(file, "llama.attention.key_length")
                                       : info.hidden_size / info.num_q_heads);
  const auto value_dim = file.integer("llama.attention.value_length").value_or(info.head_dim);
  const auto rope_dim = file.integer("llama.rope.dimension_count").value_or(info.head_dim);
  if (info.num_q_heads % info.num_kv_heads != 0) {
    throw damaged(file, fmt::format("its {} query heads do not share {} KV heads evenly",
                                    info.num_q_heads, info.num_kv_heads));
  }
  if (info.head_dim < 2 || info.head_dim % 2 != 0) {
    throw damaged(file, fmt::format("its head dimension is {}, not even", info.head_dim));
  }
  if (value_dim != info.head_dim || rope_dim != info.head_dim) {
    throw unsupported(file,
                      fmt::format("its heads have {} key, {} value and {} rotated dimensions; "
                                  "only equal numbers are implemented",
                                  info.head_dim, value_dim, rope_dim));
  }
  info.softmax_scale = 1.0 / std::sqrt(static_cast<double>(info.head_dim));
  info.rope_theta = positive_real(file, "llama.rope.freq_base", 10000.0);
  // Files of this architecture hold query and key rows permuted, so that pairs lie side by side.
  info.rope_pairing = trace::RopePairing::Interleaved;
  return model;
}

}  // namespace kvloupe::capture
