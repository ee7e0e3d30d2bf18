#include "tests/replay/small_trace.h"

#include "core/trace/basis_file.h"
#include "core/trace/trace_writer.h"
#include "tests/trace/half_bits.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>

#include <unistd.h>

namespace kvloupe::replay::testing {
namespace {

// Rows [begin, end) of every head, as the writer wants them.
std::vector<float> chunk_of(const std::vector<float>& whole, int heads, int tokens, int dim,
                            int begin, int end) {
  std::vector<float> part;
  for (int head = 0; head < heads; ++head) {
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(head) * tokens * dim;
    part.insert(part.end(), first + static_cast<std::ptrdiff_t>(begin) * dim,
                first + static_cast<std::ptrdiff_t>(end) * dim);
  }
  return part;
}

std::vector<std::uint16_t> halves_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(trace::half_bits_of_exact(value));
  return bits;
}

std::filesystem::path fresh_folder() {
  static std::atomic<int> counter = 0;
  const auto folder =
      std::filesystem::temp_directory_path() /
      ("kvloupe_analysis_" + std::to_string(::getpid()) + "_" + std::to_string(counter++));
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

SmallTrace::SmallTrace(const SmallTraceShape& shape)
    : shape_(shape),
      num_tokens_(
          std::accumulate(shape.chunk_lengths.begin(), shape.chunk_lengths.end(), shape.decoded)),
      folder_(fresh_folder()) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto fill = [&](int heads) {
    std::vector<float> values(static_cast<std::size_t>(heads) * num_tokens_ * shape_.head_dim);
    for (float& value : values) value = normal(random) + 0.3f;
    return values;
  };
  for (int layer = 0; layer < shape_.num_layers; ++layer) {
    q_.push_back(fill(shape_.num_q_heads));
    k_.push_back(fill(shape_.num_kv_heads));
    v_.push_back(fill(shape_.num_kv_heads));
  }
  if (shape_.probe_len > 0) {
    const std::size_t per_layer = shape_.chunk_lengths.size() *
                                  static_cast<std::size_t>(shape_.num_q_heads) * shape_.probe_len *
                                  shape_.head_dim;
    probe_.assign(shape_.num_layers, std::vector<float>(per_layer));
    for (auto& layer : probe_)
      for (float& value : layer) value = normal(random);
    novelty_.resize(num_tokens_);
    for (float& value : novelty_) value = std::abs(normal(random));
    novelty_.front() = std::numeric_limits<float>::infinity();
  }
  if (shape_.layers.empty()) {
    shape_.layers.resize(shape_.num_layers);
    std::iota(shape_.layers.begin(), shape_.layers.end(), 0);
  }
  for (auto* layers : {&q_, &k_})
    for (std::vector<float>& values : *layers)
      for (float& value : values) value *= shape_.q_and_k_times;
  if (shape_.broken_key_at >= 0)
    const_cast<float*>(key(1, 1, shape_.broken_key_at))[0] = std::nanf("");
  write();
  session_ = std::make_shared<session::TraceSession>(folder_ / "small.h5");
}

SmallTrace::~SmallTrace() {
  session_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

const float* SmallTrace::query(int layer, int q_head, int position) const {
  return q_[layer].data() +
         (static_cast<std::ptrdiff_t>(q_head) * num_tokens_ + position) * shape_.head_dim;
}

const float* SmallTrace::key(int layer, int kv_head, int position) const {
  return k_[layer].data() +
         (static_cast<std::ptrdiff_t>(kv_head) * num_tokens_ + position) * shape_.head_dim;
}

const float* SmallTrace::value(int layer, int kv_head, int position) const {
  return v_[layer].data() +
         (static_cast<std::ptrdiff_t>(kv_head) * num_tokens_ + position) * shape_.head_dim;
}

const float* SmallTrace::probe_query(int layer, int chunk, int q_head, int row) const {
  const std::ptrdiff_t index =
      (static_cast<std::ptrdiff_t>(chunk) * shape_.num_q_heads + q_head) * shape_.probe_len + row;
  return probe_[layer].data() + index * shape_.head_dim;
}

double SmallTrace::score(int layer, int q_head, int query_pos, int key_pos) const {
  const float* a = query(layer, q_head, query_pos);
  const float* b = key(layer, q_head / gqa_group_size(), key_pos);
  double sum = 0;
  for (int c = 0; c < shape_.head_dim; ++c)
    sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  const double logit = sum / std::sqrt(static_cast<double>(shape_.head_dim));
  return shape_.softcap > 0 ? shape_.softcap * std::tanh(logit / shape_.softcap) : logit;
}

bool SmallTrace::sees(int query_pos, int key_pos) const {
  return key_pos <= query_pos && (shape_.window == 0 || key_pos > query_pos - shape_.window);
}

double SmallTrace::sink_weight(int q_head) const {
  return shape_.sink_logits.empty() ? 0 : std::exp(static_cast<double>(shape_.sink_logits[q_head]));
}

double SmallTrace::probability(int layer, int q_head, int query_pos, int key_pos) const {
  if (!sees(query_pos, key_pos)) return 0;
  double sum = sink_weight(q_head);
  for (int j = 0; j <= query_pos; ++j)
    if (sees(query_pos, j)) sum += std::exp(score(layer, q_head, query_pos, j));
  return std::exp(score(layer, q_head, query_pos, key_pos)) / sum;
}

std::vector<double> SmallTrace::mass(int layer, int kv_head, int begin, int end) const {
  std::vector<double> mass(static_cast<std::size_t>(end), 0.0);
  const int group = gqa_group_size();
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int query = begin; query < end; ++query)
      for (int key = 0; key <= query; ++key) mass[key] += probability(layer, head, query, key);
  return mass;
}

void SmallTrace::write() {
  trace::TraceHeader header;
  header.model = {
      .name = "random",
      .architecture = "llama",
      .num_layers = shape_.num_layers,
      .num_q_heads = shape_.num_q_heads,
      .num_kv_heads = shape_.num_kv_heads,
      .head_dim = shape_.head_dim,
      .hidden_size = shape_.num_q_heads * shape_.head_dim,
      .softmax_scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim)),
      .rope_theta = 10000,
      .file_hash = std::string(64, 'a'),
      .compute = ComputeType::Fp32,
      .layer_types = std::vector(shape_.num_layers, shape_.window > 0 ? trace::LayerType::Sliding
                                                                      : trace::LayerType::Full)};
  const SoftmaxForm softmax(header.model.softmax_scale, shape_.window, shape_.softcap,
                            shape_.sink_logits);
  for (int layer = 0; layer < shape_.num_layers && !softmax.is_plain(); ++layer)
    header.model.shaped_softmax[layer] = softmax;
  header.dtype = shape_.dtype;
  header.layers = shape_.layers;
  header.probe_len = shape_.probe_len;
  header.store.set(trace::Part::Probe, shape_.probe_len > 0);
  header.store = trace::with_needed(header.store);
  if (shape_.probe_len > 0) header.probe_text = "what matters?";
  header.max_tokens = num_tokens_;
  std::vector<int> lengths = shape_.chunk_lengths;
  lengths.insert(lengths.end(), static_cast<std::size_t>(shape_.decoded), 1);
  header.max_chunks = static_cast<int>(lengths.size());
  header.store.set(trace::Part::Lse, shape_.store_lse);
  trace::TraceWriter writer(folder_ / "small.h5", header, true);
  int begin = 0;
  for (std::size_t c = 0; c < lengths.size(); ++c) {
    const int length = lengths[c];
    const trace::ChunkInfo chunk{
        begin, length,
        c < shape_.chunk_lengths.size() ? trace::Phase::Prefill : trace::Phase::Decode};
    for (const int layer : shape_.layers) {
      const auto part = [&](const std::vector<float>& whole, int heads) {
        return chunk_of(whole, heads, num_tokens_, shape_.head_dim, begin, begin + length);
      };
      const auto q = part(q_[layer], shape_.num_q_heads), k = part(k_[layer], shape_.num_kv_heads),
                 v = part(v_[layer], shape_.num_kv_heads);
      std::vector<float> lse;
      for (int head = 0; head < shape_.num_q_heads; ++head) {
        for (int position = begin; position < begin + length; ++position) {
          double sum = sink_weight(head);
          for (int j = 0; j <= position; ++j)
            if (sees(position, j)) sum += std::exp(score(layer, head, position, j));
          lse.push_back(static_cast<float>(std::log(sum)));
        }
      }
      const float* stored_lse = shape_.store_lse ? lse.data() : nullptr;
      if (shape_.dtype == trace::DType::F32) {
        writer.write_layer(chunk, {layer, q.data(), k.data(), v.data(), stored_lse, nullptr});
      } else {
        const auto q16 = halves_of(q), k16 = halves_of(k), v16 = halves_of(v);
        writer.write_layer(chunk, {layer, q16.data(), k16.data(), v16.data(), stored_lse, nullptr});
      }
      if (shape_.probe_len > 0 && chunk.phase == trace::Phase::Prefill)
        writer.write_probe(chunk, {layer, probe_query(layer, static_cast<int>(c), 0, 0)});
    }
    if (shape_.probe_len > 0)
      writer.write<float>(trace::Field::Nll, chunk, std::span(novelty_).subspan(begin, length));
    std::vector<std::int32_t> ids(length, 1);
    writer.end_chunk(chunk, ids, std::vector<std::string>(length, "a"));
    begin += length;
  }
  writer.finish({}, true);
}

std::string write_plain_basis(const SmallTrace& trace, const std::string& source) {
  const int dim = trace.shape().head_dim, heads = trace.shape().num_kv_heads;
  trace::Basis basis;
  basis.kind = trace::BasisKind::Aqua;
  basis.model_name = trace.session().info().model.name;
  basis.model_hash = trace.session().info().model.file_hash;
  basis.num_kv_heads = heads;
  basis.head_dim = dim;
  basis.source = source;
  basis.source_hash = std::string(64, source.front() == 'a' ? 'a' : 'b');
  basis.num_tokens = 100;
  for (const int layer : trace.session().info().layers) {
    trace::LayerBasis& of_layer = basis.layers[layer];
    of_layer.vectors.assign(static_cast<std::size_t>(heads) * dim * dim, 0.0F);
    of_layer.values.assign(static_cast<std::size_t>(heads) * dim, 1.0);
    for (int i = 0; i < heads * dim; ++i)
      of_layer.vectors[static_cast<std::size_t>(i / dim * dim * dim + i % dim * (dim + 1))] = 1.0F;
  }
  const auto path =
      std::filesystem::path(trace.session().info().path).parent_path() / (source + ".h5");
  trace::write_basis(path, basis);
  return path.string();
}

}  // namespace kvloupe::replay::testing
