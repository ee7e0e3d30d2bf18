#include "core/trace/fields.h"

#include "core/base/error.h"
#include "core/trace/trace_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace kvloupe::trace {
namespace {

struct AxisInfo {
  Axis id;
  const char* name;    // of the attribute `axes`; null: the dataset has none
  const char* symbol;  // in FORMAT.md
  bool grows, may_exceed;
};

constexpr AxisInfo kAxes[] = {
    {Axis::Token, "token", "T", false, true},
    {Axis::TokenEnd, "token", "T+1", false, true},
    {Axis::Chunk, "chunk", "C", false, true},
    {Axis::ChunkEnd, "chunk", "C+1", false, true},
    {Axis::QHead, "q_head", "H", false, false},
    {Axis::KvHead, "kv_head", "G", false, false},
    {Axis::Channel, "channel", "D", false, false},
    {Axis::Rank, "rank", "32", false, false},
    {Axis::Layer, "layer", "captured layers", false, false},
    {Axis::ProbeToken, "probe_token", "n", false, false},
    {Axis::ProbeChunk, "chunk", "C'", true, true},
    {Axis::TextByte, "byte", "bytes", true, true},
    {Axis::MassValue, "cell", "N", true, true},
    {Axis::Step, "step", "any", true, true},
    {Axis::AnswerToken, nullptr, "n", true, true},
    {Axis::AnswerByte, nullptr, "bytes", true, true},
    {Axis::AnswerEnd, nullptr, "n+1", true, true},
};

const AxisInfo& axis_info(Axis axis) { return kAxes[static_cast<std::size_t>(axis)]; }

std::uint64_t size_of(Axis axis, const FieldSizes& sizes) {
  switch (axis) {
    case Axis::Token:
      return sizes.tokens;
    case Axis::TokenEnd:
      return sizes.tokens + 1;
    case Axis::Chunk:
      return sizes.chunks;
    case Axis::ChunkEnd:
      return sizes.chunks + 1;
    case Axis::QHead:
      return sizes.q_heads;
    case Axis::KvHead:
      return sizes.kv_heads;
    case Axis::Channel:
      return sizes.head_dim;
    case Axis::Rank:
      return kTopTokens;
    case Axis::Layer:
      return sizes.layers;
    case Axis::ProbeToken:
      return sizes.probe_tokens;
    case Axis::ProbeChunk:
      return sizes.probe_chunks;
    case Axis::TextByte:
      return sizes.text_bytes;
    case Axis::MassValue:
      return sizes.mass_values;
    case Axis::Step:
    case Axis::AnswerToken:
    case Axis::AnswerByte:
    case Axis::AnswerEnd:
      break;
  }
  return 0;  // known when they are written
}

FieldSizes sizes_of(const ModelInfo& model, std::size_t layers, int probe_tokens) {
  FieldSizes sizes;
  sizes.q_heads = static_cast<std::uint64_t>(model.num_q_heads);
  sizes.kv_heads = static_cast<std::uint64_t>(model.num_kv_heads);
  sizes.head_dim = static_cast<std::uint64_t>(model.head_dim);
  sizes.layers = layers;
  sizes.probe_tokens = static_cast<std::uint64_t>(probe_tokens);
  return sizes;
}

const std::vector<FieldInfo>& table() {
  using enum Axis;
  using enum Element;
  using F = Field;
  using P = Part;
  static const std::vector<FieldInfo> fields = {
      {F::TokenIds, "/tokens/ids", P::Always, false, 0, Int32, {Token}, "1", "token id"},
      {F::TextOffsets,
       "/tokens/text_offsets",
       P::Always,
       true,
       0,
       UInt64,
       {TokenEnd},
       "byte",
       "where each token's bytes begin in text"},
      {F::Text,
       "/tokens/text",
       P::Always,
       true,
       0,
       UInt8,
       {TextByte},
       "1",
       "raw bytes of all tokens"},
      {F::Nll,
       "/tokens/nll",
       P::Loss,
       true,
       1,
       Float32,
       {Token},
       "nat",
       "-log P of each token given those before it"},
      {F::Generated,
       "/tokens/generated",
       P::Always,
       true,
       0,
       Int32,
       {Step},
       "1",
       "sampled token ids"},
      {F::ChunkBegin,
       "/chunks/begin",
       P::Always,
       false,
       0,
       Int32,
       {Chunk},
       "token",
       "first token of the chunk"},
      {F::ChunkLength,
       "/chunks/length",
       P::Always,
       false,
       0,
       Int32,
       {Chunk},
       "token",
       "tokens in the chunk"},
      {F::ChunkPhase,
       "/chunks/phase",
       P::Always,
       false,
       0,
       UInt8,
       {Chunk},
       "1",
       "0 prefill, 1 decode"},
      {F::MassOffsets,
       "/chunks/mass_offsets",
       P::Mass,
       true,
       0,
       Int64,
       {ChunkEnd},
       "1",
       "where each chunk begins in key_mass"},
      {F::TopIds,
       "/chunks/top_ids",
       P::Top,
       true,
       5,
       Int32,
       {Chunk, Rank},
       "1",
       "most probable next tokens after each chunk, by the model as it ran"},
      {F::TopLogProbs,
       "/chunks/top_log_probs",
       P::Top,
       true,
       5,
       Float32,
       {Chunk, Rank},
       "nat",
       "their log-probabilities, by the model as it ran"},
      {F::DriftNll,
       "/drift/nll",
       P::Drift,
       true,
       5,
       Float32,
       {Token},
       "nat",
       "-log P of each token by the dense model"},
      {F::DriftKl,
       "/drift/kl",
       P::Drift,
       true,
       5,
       Float32,
       {Token},
       "nat",
       "KL(dense || closed loop) of the token after each"},
      {F::DriftAgrees,
       "/drift/agrees",
       P::Drift,
       true,
       5,
       UInt8,
       {Token},
       "1",
       "whether both find the same next token most probable"},
      {F::DriftQ,
       "/drift/q",
       P::Drift,
       true,
       5,
       Float32,
       {Chunk, Layer},
       "1",
       "relative distance of the queries from the dense model's"},
      {F::DriftK,
       "/drift/k",
       P::Drift,
       true,
       5,
       Float32,
       {Chunk, Layer},
       "1",
       "relative distance of the keys from the dense model's"},
      {F::DriftTopIds,
       "/drift/top_ids",
       P::DriftTop,
       true,
       5,
       Int32,
       {Chunk, Rank},
       "1",
       "most probable next tokens after each chunk, by the dense model"},
      {F::DriftTopLogProbs,
       "/drift/top_log_probs",
       P::DriftTop,
       true,
       5,
       Float32,
       {Chunk, Rank},
       "nat",
       "their log-probabilities, by the dense model"},
      {F::DenseAnswer,
       "/drift/generated",
       P::Drift,
       true,
       5,
       Int32,
       {AnswerToken},
       "1",
       "what the dense model samples when left alone"},
      {F::DenseText,
       "/drift/generated_text",
       P::Drift,
       true,
       5,
       UInt8,
       {AnswerByte},
       "1",
       "raw bytes of its tokens"},
      {F::DenseTextOffsets,
       "/drift/generated_text_offsets",
       P::Drift,
       true,
       5,
       UInt64,
       {AnswerEnd},
       "byte",
       "where each token's bytes begin"},
      {F::Q, "/layers/{l}/q", P::Qkv, true, 0, Stored, {QHead, Token, Channel}, "1", "queries"},
      {F::K, "/layers/{l}/k", P::Qkv, true, 0, Stored, {KvHead, Token, Channel}, "1", "keys"},
      {F::V, "/layers/{l}/v", P::Qkv, true, 0, Stored, {KvHead, Token, Channel}, "1", "values"},
      {F::KeyMass,
       "/layers/{l}/key_mass",
       P::Mass,
       true,
       0,
       Float32,
       {MassValue},
       "probability",
       "attention mass of each key"},
      {F::Lse,
       "/layers/{l}/lse",
       P::Lse,
       true,
       0,
       Float32,
       {QHead, Token},
       "nat",
       "log-sum-exp of the scaled logits"},
      {F::ProbeQ,
       "/layers/{l}/probe_q",
       P::Probe,
       true,
       1,
       Stored,
       {ProbeChunk, QHead, ProbeToken, Channel},
       "1",
       "queries of the probe after each prefill chunk"},
  };
  return fields;
}

}  // namespace

bool FieldInfo::by_layer() const { return std::string_view(path).starts_with("/layers/"); }

bool FieldInfo::grows() const { return axis_info(axes.front()).grows; }

bool FieldInfo::by_chunk() const { return axes.front() < Axis::Step; }

std::span<const FieldInfo> all_fields() { return table(); }

const FieldInfo& info_of(Field field) {
  const FieldInfo& found = table().at(static_cast<std::size_t>(field));
  KVLOUPE_CHECK(found.id == field);
  return found;
}

FieldSizes sizes_of(const TraceHeader& header) {
  FieldSizes sizes = sizes_of(header.model, header.layers.size(), header.probe_len);
  sizes.tokens = static_cast<std::uint64_t>(header.max_tokens);
  sizes.chunks = static_cast<std::uint64_t>(header.max_chunks);
  return sizes;
}

FieldSizes sizes_of(const TraceInfo& info) {
  FieldSizes sizes = sizes_of(info.model, info.layers.size(), info.probe_len);
  sizes.tokens = static_cast<std::uint64_t>(info.num_tokens);
  sizes.chunks = info.chunks.size();
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    if (info.chunks[c].phase == Phase::Prefill) sizes.probe_chunks = c + 1;
  }
  return sizes;
}

bool is_stored(Part part, const TraceHeader& header) {
  switch (part) {
    case Part::Always:
      return true;
    case Part::Qkv:
      return header.store_qkv;
    case Part::Lse:
      return header.store_lse;
    case Part::Mass:
      return header.store_mass;
    case Part::Loss:
      return header.store_nll;
    case Part::Probe:
      return header.probe_len > 0;
    case Part::Top:
      return header.store_top;
    case Part::Drift:
      return header.store_drift;
    case Part::DriftTop:
      break;
  }
  return header.store_drift && header.store_top;
}

std::string path_of(const FieldInfo& field, int layer) {
  return field.by_layer() ? fmt::format(fmt::runtime(field.path), fmt::arg("l", layer))
                          : std::string(field.path);
}

std::vector<std::uint64_t> shape_of(const FieldInfo& field, const FieldSizes& sizes) {
  std::vector<std::uint64_t> shape;
  for (const Axis axis : field.axes) shape.push_back(size_of(axis, sizes));
  return shape;
}

bool may_exceed(Axis axis) { return axis_info(axis).may_exceed; }

std::uint64_t bytes_of(Element element, const TraceHeader& header) {
  switch (element) {
    case Element::UInt8:
      return 1;
    case Element::Int32:
    case Element::Float32:
      return 4;
    case Element::Int64:
    case Element::UInt64:
      return 8;
    case Element::Stored:
      break;
  }
  return header.dtype == DType::F16 ? 2 : 4;
}

const char* text_of(Element element) {
  constexpr const char* kTexts[] = {"uint8",  "int32",   "int64",
                                    "uint64", "float32", "float16 or float32"};
  return kTexts[static_cast<std::size_t>(element)];
}

std::string shape_text(const FieldInfo& field) {
  std::vector<std::string> symbols;
  for (const Axis axis : field.axes) symbols.emplace_back(axis_info(axis).symbol);
  return fmt::format("[{}]", fmt::join(symbols, ", "));
}

const char* axis_name(Axis axis) { return axis_info(axis).name; }

}  // namespace kvloupe::trace
