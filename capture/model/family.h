// Model families as data: how the files of a family name what the decoder (decoder.h) needs, and what
// of the decoder it uses. A family is one file in families/ and one line in family_list.h.
#pragma once

#include "capture/model/model_config.h"

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// What a tensor is for. Names are without ".weight" and ".bias"; {} stands for the layer.
enum class Role {
  TokenEmbedding,
  OutputNorm,
  Output,  // absent: the embedding again
  AttentionNorm,
  Query,
  Key,
  Value,
  QueryNorm,
  KeyNorm,
  Sinks,  // no ".weight" in Hugging Face's files
  AttentionOutput,
  AfterAttentionNorm,  // of what attention adds, before it is added
  FeedForwardNorm,
  Gate,
  Up,
  Down,
  AfterFeedForwardNorm,
  Router,
  // Of all experts, [experts, ffn_size, hidden_size] and [experts, hidden_size, ffn_size] for down; a
  // name with a second {}, for the expert, is of one of them.
  ExpertGate,
  ExpertUp,
  ExpertDown,
  // Gate and up rows in turn, of all experts and transposed: [experts, hidden_size, 2 ffn_size]; down
  // is then transposed, too.
  ExpertGateUp,
};

struct TensorName {
  Role role;
  std::string_view gguf, hugging_face;
};

struct Family {
  std::string_view id;  // as a trace's architecture
  // What files call it, the id unless the family says otherwise: general.architecture, model_type.
  std::vector<std::string_view> gguf, hugging_face;
  // The order of query and key rows in GGUF files; in Hugging Face's it is half-split.
  trace::RopePairing gguf_pairing = trace::RopePairing::HalfSplit;
  // Beside the names that all families share, or in their place.
  std::vector<TensorName> names;
  void (*configure)(const ModelSource& source, ModelConfig& model) = nullptr;
  // What Hugging Face's configuration class fills in where config.json says nothing; 0: it has to be there.
  struct Unsaid {
    std::int64_t num_q_heads = 0, num_kv_heads = 0, head_dim = 0, context_length = 0;
    double rope_theta = 0;
  } unsaid;

  // "" where files of the format have none.
  std::string_view name_of(Role role, ModelSource::Format format) const;
};

const std::vector<Family>& families();
// Throws Error{Input}, naming the families that there are.
const Family& family_of(const ModelSource& source);

// The tensor that has a row for each token. Throws Error{Input} where there is none.
const StoredTensor& token_embedding_of(const ModelSource& source);

// For the families' configure().
// The numbers that all have; throws Error{Input} where they are missing or make no sense.
std::int64_t required_size(const ModelSource& source, const Key& key);
std::int64_t size_or(const ModelSource& source, const Key& key, std::int64_t fallback);
double positive_real(const ModelSource& source, const Key& key, double fallback);
bool flag(const ModelSource& source, const Key& key, bool fallback);
// One embedding for all layers, from the usual keys.
RopeForm usual_rope(const ModelSource& source, double theta = RopeForm().theta);
void use_one_rope(ModelConfig& model, RopeForm rope);
// Layers [first, last] see `window` keys.
void set_window(ModelConfig& model, int layer, std::int64_t window);
// By Hugging Face's layer_types; nothing where the model has none.
bool windows_by_layer_types(const ModelSource& source, ModelConfig& model, std::int64_t window);
// As Qwen's configurations turn them on.
void windows_of_qwen(const ModelSource& source, ModelConfig& model);
// Softmax before the choice unless the family says otherwise.
ExpertForm usual_experts(const ModelSource& source);

}  // namespace kvloupe::capture
