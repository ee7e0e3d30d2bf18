// From a model's files to the matrices that the decoder multiplies by, a layer at a time: what a layer
// was read from is let go before the next one.
#include "capture/model/linear.h"
#include "capture/model/model.h"
#include "capture/model/weight_reader.h"
#include "core/device/torch_device.h"
#include "core/trace/fields/trace_names.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <utility>

namespace kvloupe::capture {
namespace {

class Weights {
 public:
  Weights(const ModelSource& source, LoadedModel& model, c10::Device device)
      : source_(source), model_(model), device_(device), reader_(source, family_of(source)) {}

  void read() {
    read_ends();
    move_to(model_, device_);
    for (int layer = 0; layer < model_.info.num_layers; ++layer) {
      model_.layers.push_back(read_layer(layer));
      move_to(model_.layers.back(), device_);
      source_.release_pages();
    }
    reader_.refuse_unread();
  }

 private:
  std::int64_t hidden() const { return model_.info.hidden_size; }
  ComputeType compute() const { return *model_.info.compute; }
  at::Tensor packed(const at::Tensor& weight) const {
    return device_.is_cpu() ? pack_projection(weight, compute()) : rounded(weight);
  }
  at::Tensor rounded(const at::Tensor& weight) const { return weight.to(scalar_type(compute())); }

  at::Tensor norm(Role role, std::int64_t size, int layer) {
    at::Tensor weight = reader_.read(role, {size}, layer);
    return model_.norm_offset == 0 ? weight : weight.add_(model_.norm_offset);
  }

  void read_ends() {
    model_.vocab_size = token_embedding_of(source_).shape.front();
    model_.token_embedding =
        rounded(reader_.read(Role::TokenEmbedding, {model_.vocab_size, hidden()}));
    model_.output_norm = norm(Role::OutputNorm, hidden(), 0);
    model_.output = reader_.has(Role::Output)
                        ? rounded(reader_.read(Role::Output, {model_.vocab_size, hidden()}))
                        : model_.token_embedding;
  }

  void read_attention(int layer, LayerWeights& weights) {
    const std::int64_t q = std::int64_t{model_.info.num_q_heads} * model_.info.head_dim;
    const std::int64_t kv = std::int64_t{model_.info.num_kv_heads} * model_.info.head_dim;
    const std::vector<WeightReader::Part> qkv = {
        {Role::Query, q}, {Role::Key, kv}, {Role::Value, kv}};
    weights.attn_norm = norm(Role::AttentionNorm, hidden(), layer);
    weights.qkv_proj = packed(reader_.stacked(qkv, hidden(), layer));
    weights.qkv_bias = reader_.stacked_bias(qkv, layer);
    if (model_.query_bias && !weights.qkv_bias.defined())
      throw damaged(source_, fmt::format("the biases of queries, keys and values of layer {} are "
                                         "missing",
                                         layer));
    weights.o_proj = packed(reader_.read(Role::AttentionOutput, {hidden(), q}, layer));
    weights.o_bias = reader_.bias(Role::AttentionOutput, hidden(), layer);
    if (model_.qk_norm != QkNorm::None) {
      const bool all = model_.qk_norm == QkNorm::AllHeads;
      weights.q_norm = norm(Role::QueryNorm, all ? q : model_.info.head_dim, layer);
      weights.k_norm = norm(Role::KeyNorm, all ? kv : model_.info.head_dim, layer);
    }
    if (model_.sinks) {
      const at::Tensor sinks = reader_.read(Role::Sinks, {model_.info.num_q_heads}, layer);
      const float* logits = sinks.const_data_ptr<float>();
      shaped_softmax(model_, layer).sink_logits.assign(logits, logits + sinks.numel());
    }
    if (model_.norms_after)
      weights.after_attn_norm = norm(Role::AfterAttentionNorm, hidden(), layer);
  }

  FeedForward read_feed_forward(int layer) {
    const std::int64_t size = model_.ffn_size;
    const std::vector<WeightReader::Part> gate_up = {{Role::Gate, size}, {Role::Up, size}};
    FeedForward ffn;
    ffn.gate_up_proj = packed(reader_.stacked(gate_up, hidden(), layer));
    ffn.gate_up_bias = reader_.stacked_bias(gate_up, layer);
    ffn.down_proj = packed(reader_.read(Role::Down, {hidden(), size}, layer));
    ffn.down_bias = reader_.bias(Role::Down, hidden(), layer);
    return ffn;
  }

  // Gate rows, then up rows, where they lie in turn.
  static at::Tensor unwoven(const at::Tensor& rows) {
    if (!rows.defined()) return rows;
    return at::cat({rows.slice(0, 0, std::nullopt, 2), rows.slice(0, 1, std::nullopt, 2)})
        .contiguous();
  }

  FeedForward read_expert(int layer, int expert) {
    const std::int64_t size = model_.ffn_size;
    const auto of = [&](Role role) {
      return WeightReader::OfExpert{role, model_.experts.count, layer, expert};
    };
    FeedForward ffn;
    if (family_of(source_).name_of(Role::ExpertGateUp, source_.format()).empty()) {
      ffn.gate_up_proj = at::cat({reader_.expert(of(Role::ExpertGate), size, hidden()),
                                  reader_.expert(of(Role::ExpertUp), size, hidden())});
      const at::Tensor gate = reader_.expert_bias(of(Role::ExpertGate), size);
      const at::Tensor up = reader_.expert_bias(of(Role::ExpertUp), size);
      if (gate.defined() != up.defined())
        throw damaged(source_,
                      fmt::format("of the experts of layer {} gate or up lacks its bias", layer));
      if (gate.defined()) ffn.gate_up_bias = at::cat({gate, up});
    } else {
      ffn.gate_up_proj = unwoven(reader_.expert(of(Role::ExpertGateUp), 2 * size, hidden()));
      ffn.gate_up_bias = unwoven(reader_.expert_bias(of(Role::ExpertGateUp), 2 * size));
    }
    ffn.gate_up_proj = packed(ffn.gate_up_proj);
    ffn.down_proj = packed(reader_.expert(of(Role::ExpertDown), hidden(), size).contiguous());
    ffn.down_bias = reader_.expert_bias(of(Role::ExpertDown), hidden());
    return ffn;
  }

  LayerWeights read_layer(int layer) {
    LayerWeights weights;
    read_attention(layer, weights);
    weights.ffn_norm = norm(Role::FeedForwardNorm, hidden(), layer);
    if (model_.experts.count > 0) {
      weights.router = reader_.read(Role::Router, {model_.experts.count, hidden()}, layer);
      weights.router_bias = reader_.bias(Role::Router, model_.experts.count, layer);
      for (int expert = 0; expert < model_.experts.count; ++expert)
        weights.experts.push_back(read_expert(layer, expert));
    } else {
      weights.ffn = read_feed_forward(layer);
    }
    if (model_.norms_after)
      weights.after_ffn_norm = norm(Role::AfterFeedForwardNorm, hidden(), layer);
    return weights;
  }

  const ModelSource& source_;
  LoadedModel& model_;
  c10::Device device_;
  WeightReader reader_;
};

}  // namespace

void check_memory(const ModelSource& source, ComputeType compute, c10::Device device) {
  const std::size_t bytes = compute == ComputeType::Fp32 ? 4 : 2;
  double needed = 0;
  for (const StoredTensor* tensor : source.tensors()) {
    // A byte of MXFP4 is two numbers.
    const int numbers = tensor->type == ElementType::Bytes ? 2 : 1;
    needed += numbers * static_cast<double>(tensor->num_elements * bytes);
  }
  const auto present = static_cast<double>(device::memory_bytes(device));
  if (needed <= present) return;
  throw input_error(fmt::format("cannot load the model {}", source.path().string()),
                    fmt::format("its weights take {:.1f} GB in {}, {} has {:.1f} GB", needed / 1e9,
                                trace::to_text(compute),
                                device.is_cuda() ? device.str() : "this machine", present / 1e9),
                    fmt::format("choose {}a smaller model{}",
                                compute == ComputeType::Fp32 ? "--compute bf16 or " : "",
                                device.is_cpu() ? "" : ", or --device cpu"));
}

std::shared_ptr<LoadedModel> load_weights(const ModelSource& source, ModelConfig config,
                                          ComputeType compute, c10::Device device) {
  const c10::InferenceMode no_gradients;
  auto model = std::make_shared<LoadedModel>();
  static_cast<ModelConfig&>(*model) = std::move(config);
  model->info.compute = compute;
  Weights(source, *model, device).read();
  return model;
}

}  // namespace kvloupe::capture
