#include "capture/model/family.h"

#include "capture/model/family_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvloupe::capture {

#define KVLOUPE_DECLARE(id) void family_##id(Family& family);
KVLOUPE_FAMILIES(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE

namespace {

constexpr std::int64_t kMaxSize = 1 << 24;  // of any dimension of a model

// What most families call them.
constexpr TensorName kUsualNames[] = {
    {Role::TokenEmbedding, "token_embd", "model.embed_tokens"},
    {Role::OutputNorm, "output_norm", "model.norm"},
    {Role::Output, "output", "lm_head"},
    {Role::AttentionNorm, "blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {Role::Query, "blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {Role::Key, "blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {Role::Value, "blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {Role::QueryNorm, "blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"},
    {Role::KeyNorm, "blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"},
    {Role::Sinks, "blk.{}.attn_sinks", "model.layers.{}.self_attn.sinks"},
    {Role::AttentionOutput, "blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
    {Role::FeedForwardNorm, "blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"},
    {Role::Gate, "blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {Role::Up, "blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"},
    {Role::Down, "blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
    {Role::Router, "blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"},
    {Role::ExpertGate, "blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{}.gate_proj"},
    {Role::ExpertUp, "blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{}.up_proj"},
    {Role::ExpertDown, "blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{}.down_proj"},
};

std::string_view in_format(const TensorName& name, ModelSource::Format format) {
  return format == ModelSource::Format::Gguf ? name.gguf : name.hugging_face;
}

std::string names_of_families() {
  std::vector<std::string_view> ids;
  for (const Family& family : families()) ids.push_back(family.id);
  return fmt::format("{}", fmt::join(ids, ", "));
}

// The keys of rope_parameters, and of what came before it.
std::optional<double> rope_number(const ModelSource& source, std::string_view gguf,
                                  std::string_view name) {
  for (const std::string object :
       {"rope_parameters.full_attention", "rope_parameters", "rope_scaling"})
    if (const auto number = source.real({gguf, object + "." + std::string(name)})) return number;
  return std::nullopt;
}

std::string rope_kind(const ModelSource& source) {
  for (const char* key : {"rope_parameters.full_attention.rope_type", "rope_parameters.rope_type",
                          "rope_scaling.rope_type", "rope_scaling.type"})
    if (const auto kind = source.text({"rope.scaling.type", key})) return *kind;
  return "none";
}

RopeScaling scaling_of(const ModelSource& source, const std::string& kind) {
  if (kind == "none" || kind == "default") return RopeScaling::None;
  if (kind == "linear") return RopeScaling::Linear;
  if (kind == "llama3") return RopeScaling::Llama3;
  if (kind == "yarn") return RopeScaling::Yarn;
  throw unsupported(source, fmt::format("its RoPE scaling \"{}\" is not implemented", kind));
}

}  // namespace

std::string_view Family::name_of(Role role, ModelSource::Format format) const {
  const auto of_role = [role](const TensorName& name) { return name.role == role; };
  if (const auto own = std::find_if(names.begin(), names.end(), of_role); own != names.end())
    return in_format(*own, format);
  const auto usual = std::find_if(std::begin(kUsualNames), std::end(kUsualNames), of_role);
  return usual == std::end(kUsualNames) ? std::string_view() : in_format(*usual, format);
}

const std::vector<Family>& families() {
  const auto described = [](std::string_view id, void (*describe)(Family&)) {
    Family family;
    family.id = id;
    family.gguf = family.hugging_face = {id};
    describe(family);
    return family;
  };
#define KVLOUPE_LIST(id) described(#id, family_##id),
  static const std::vector<Family> all = {KVLOUPE_FAMILIES(KVLOUPE_LIST)};
#undef KVLOUPE_LIST
  return all;
}

const Family& family_of(const ModelSource& source) {
  const std::string architecture = source.architecture();
  for (const Family& family : families()) {
    const auto& own =
        source.format() == ModelSource::Format::Gguf ? family.gguf : family.hugging_face;
    if (std::find(own.begin(), own.end(), architecture) != own.end()) return family;
  }
  throw unsupported(source, fmt::format("its architecture \"{}\" is not implemented; known are {}",
                                        architecture, names_of_families()));
}

const StoredTensor& token_embedding_of(const ModelSource& source) {
  const std::string name =
      std::string(family_of(source).name_of(Role::TokenEmbedding, source.format())) + ".weight";
  const StoredTensor* embedding = source.find_tensor(name);
  if (embedding == nullptr || embedding->shape.empty())
    throw damaged(source, fmt::format("the tensor {} is missing", name));
  return *embedding;
}

std::int64_t required_size(const ModelSource& source, const Key& key) {
  const auto value = source.integer(key);
  if (!value) throw damaged(source, fmt::format("{} is missing", source.spelt(key)));
  if (*value < 1 || *value > kMaxSize)
    throw damaged(source,
                  fmt::format("{} is {}, not 1 to {}", source.spelt(key), *value, kMaxSize));
  return *value;
}

std::int64_t size_or(const ModelSource& source, const Key& key, std::int64_t fallback) {
  return source.integer(key) ? required_size(source, key) : fallback;
}

double positive_real(const ModelSource& source, const Key& key, double fallback) {
  const double number = source.real(key).value_or(fallback);
  if (!std::isfinite(number) || number <= 0)
    throw damaged(source, fmt::format("{} is {}, not above 0", source.spelt(key), number));
  return number;
}

bool flag(const ModelSource& source, const Key& key, bool fallback) {
  return source.integer(key).value_or(fallback ? 1 : 0) != 0;
}

RopeForm usual_rope(const ModelSource& source, double theta) {
  RopeForm rope;
  rope.theta = positive_real(source, {"rope.freq_base", "rope_theta"},
                             rope_number(source, "", "rope_theta").value_or(theta));
  rope.scaling = scaling_of(source, rope_kind(source));
  const auto read = [&](std::string_view gguf, std::string_view name, double& value) {
    value = rope_number(source, gguf, name).value_or(value);
    if (!std::isfinite(value) || value < 0)
      throw damaged(source, fmt::format("its RoPE scaling has {} {}", name, value));
  };
  read("rope.scaling.factor", "factor", rope.factor);
  // Transformers takes it from the top of the file, too.
  rope.original_context =
      source.real({"", "original_max_position_embeddings"}).value_or(rope.original_context);
  read("rope.scaling.original_context_length", "original_max_position_embeddings",
       rope.original_context);
  if (source.format() == ModelSource::Format::Gguf && !source.text({"rope.scaling.type", ""})) {
    // Of before there were kinds: as llama.cpp reads them.
    read("rope.scale_linear", "", rope.factor);
    if (rope.factor > 1) rope.scaling = RopeScaling::Linear;
  }
  read("", "low_freq_factor", rope.low_freq_factor);
  read("", "high_freq_factor", rope.high_freq_factor);
  read("rope.scaling.yarn_beta_fast", "beta_fast", rope.beta_fast);
  read("rope.scaling.yarn_beta_slow", "beta_slow", rope.beta_slow);
  read("", "attention_factor", rope.attention_factor);
  // llama.cpp multiplies its own factor for YaRN by this one.
  const double times = positive_real(source, {"rope.scaling.attn_factor", ""}, 1);
  if (times != 1 && rope.scaling != RopeScaling::Yarn)
    throw unsupported(
        source,
        fmt::format("its RoPE scaling by attn_factor {} without YaRN is not implemented", times));
  if (times != 1) rope.attention_factor = times * (0.1 * std::log(rope.factor) + 1);
  if (const auto truncate = source.integer({"", "rope_parameters.truncate"}))
    rope.truncate = *truncate != 0;
  if (const auto truncate = source.integer({"", "rope_scaling.truncate"}))
    rope.truncate = *truncate != 0;
  if (const StoredTensor* divisors = source.find_tensor("rope_freqs.weight")) {
    if (divisors->type != ElementType::F32 || divisors->shape.size() != 1)
      throw damaged(source, "the tensor rope_freqs.weight is no list of numbers");
    rope.scaling = RopeScaling::Llama3;
    rope.divisors.resize(static_cast<std::size_t>(divisors->num_elements));
    std::memcpy(rope.divisors.data(), divisors->data.data(), divisors->data.size());
  }
  const bool by_context = rope.scaling == RopeScaling::Llama3 || rope.scaling == RopeScaling::Yarn;
  if (by_context && rope.divisors.empty() && rope.original_context <= 0)
    rope.original_context =
        static_cast<double>(required_size(source, {"context_length", "max_position_embeddings"}));
  if (rope.scaling != RopeScaling::None && rope.factor < 1)
    throw damaged(source, fmt::format("its RoPE scaling has the factor {}", rope.factor));
  if (rope.scaling == RopeScaling::Llama3 && rope.high_freq_factor <= rope.low_freq_factor)
    throw damaged(source, "its RoPE scaling has no frequencies between low and high");
  if (rope_number(source, "", "mscale") || rope_number(source, "", "mscale_all_dim"))
    throw unsupported(source, "its RoPE scaling by mscale is not implemented");
  return rope;
}

void use_one_rope(ModelConfig& model, RopeForm rope) {
  model.ropes = {std::move(rope)};
  model.rope_of_layer.assign(static_cast<std::size_t>(model.info.num_layers), 0);
}

void set_window(ModelConfig& model, int layer, std::int64_t window) {
  shaped_softmax(model, layer).window = window;
  model.info.layer_types[static_cast<std::size_t>(layer)] = trace::LayerType::Sliding;
}

bool windows_by_layer_types(const ModelSource& source, ModelConfig& model, std::int64_t window) {
  const auto types = source.texts({"", "layer_types"});
  if (!types) return false;
  if (types->size() != static_cast<std::size_t>(model.info.num_layers))
    throw damaged(source, fmt::format("layer_types has {} entries for {} layers", types->size(),
                                      model.info.num_layers));
  for (int layer = 0; layer < model.info.num_layers; ++layer) {
    const std::string& type = (*types)[static_cast<std::size_t>(layer)];
    if (type == "sliding_attention")
      set_window(model, layer, window);
    else if (type != "full_attention")
      throw unsupported(source, fmt::format("its layer type \"{}\" is not implemented", type));
  }
  return true;
}

void windows_of_qwen(const ModelSource& source, ModelConfig& model) {
  if (!flag(source, {"", "use_sliding_window"}, false)) return;
  const std::int64_t window = size_or(source, {"", "sliding_window"}, 0);
  if (window == 0 || windows_by_layer_types(source, model, window)) return;
  const std::int64_t first = source.integer({"", "max_window_layers"}).value_or(0);
  for (int layer = 0; layer < model.info.num_layers; ++layer)
    if (layer >= first) set_window(model, layer, window);
}

ExpertForm usual_experts(const ModelSource& source) {
  ExpertForm experts;
  const Key local{"expert_count", "num_local_experts"}, all{"", "num_experts"};
  experts.count = static_cast<int>(source.integer(local) ? required_size(source, local)
                                                         : required_size(source, all));
  experts.used =
      static_cast<int>(required_size(source, {"expert_used_count", "num_experts_per_tok"}));
  if (experts.used > experts.count || experts.count > 4096)
    throw damaged(
        source, fmt::format("it takes {} of {} experts for a token", experts.used, experts.count));
  return experts;
}

}  // namespace kvloupe::capture
