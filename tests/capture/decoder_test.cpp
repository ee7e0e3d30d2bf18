// The decoder on tiny random models against a plain fp64 forward pass, in chunks of any size.
#include "capture/model/decoder.h"

#include "capture/model/decoder_kernels.h"
#include "capture/model/model.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/capture/tiny_llama.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

namespace kvloupe::capture {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  // rows

std::vector<std::int32_t> tokens(int count) {
  std::vector<std::int32_t> ids(count);
  for (int i = 0; i < count; ++i) ids[i] = 3 + (i * i * 7 + i * 13) % 250;
  return ids;
}

// The forward pass as the papers write it, one loop a formula, interleaved rotation.
class SlowLlama {
 public:
  explicit SlowLlama(const TinyLlama& model) : model_(model) {}

  struct Layer {
    std::vector<Matrix> q, k, v;  // per head [tokens][head_dim]
  };
  std::vector<Layer> layers;

  Vector logits(const std::vector<std::int32_t>& ids) {
    Matrix x;
    for (const auto id : ids) x.push_back(row(weight("token_embd"), id, model_.hidden_size));
    for (int layer = 0; layer < model_.num_layers; ++layer) run_layer(layer, x);
    const std::string head = model_.tied ? "token_embd" : "output";
    return project(norm(x.back(), weight("output_norm")), weight(head));
  }

 private:
  const std::vector<float>& weight(const std::string& name) const {
    return model_.weights.at(name + ".weight");
  }
  static Vector row(const std::vector<float>& matrix, std::int64_t index, int columns) {
    return {matrix.begin() + index * columns, matrix.begin() + (index + 1) * columns};
  }
  Vector norm(const Vector& x, const std::vector<float>& scale) const {
    double sum = 0;
    for (const double value : x) sum += value * value;
    const double root = std::sqrt(sum / static_cast<double>(x.size()) + model_.rms_norm_eps);
    Vector out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] / root * scale[i];
    return out;
  }
  static Vector project(const Vector& x, const std::vector<float>& matrix) {
    Vector out(matrix.size() / x.size());
    for (std::size_t r = 0; r < out.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) out[r] += matrix[r * x.size() + c] * x[c];
    }
    return out;
  }
  Matrix heads_of(const Vector& projected, bool rotated, int position) const {
    Matrix heads;
    for (std::size_t begin = 0; begin < projected.size(); begin += model_.head_dim) {
      Vector head(projected.begin() + begin, projected.begin() + begin + model_.head_dim);
      for (int i = 0; rotated && i < model_.head_dim / 2; ++i) {
        const double angle = position * std::pow(model_.rope_theta, -2.0 * i / model_.head_dim);
        const double a = head[2 * i];
        const double b = head[2 * i + 1];
        head[2 * i] = a * std::cos(angle) - b * std::sin(angle);
        head[2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
      }
      heads.push_back(head);
    }
    return heads;
  }
  void run_layer(int index, Matrix& x) {
    const std::string prefix = "blk." + std::to_string(index) + ".";
    Layer layer{std::vector<Matrix>(model_.num_q_heads), std::vector<Matrix>(model_.num_kv_heads),
                std::vector<Matrix>(model_.num_kv_heads)};
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector h = norm(x[t], weight(prefix + "attn_norm"));
      const auto append_to = [&](std::vector<Matrix>& heads, const char* name, bool rotated) {
        const Matrix rows =
            heads_of(project(h, weight(prefix + name)), rotated, static_cast<int>(t));
        for (std::size_t i = 0; i < rows.size(); ++i) heads[i].push_back(rows[i]);
      };
      append_to(layer.q, "attn_q", true);
      append_to(layer.k, "attn_k", true);
      append_to(layer.v, "attn_v", false);
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      add(x[t], project(attend(layer, t), weight(prefix + "attn_output")));
      const Vector h = norm(x[t], weight(prefix + "ffn_norm"));
      Vector gate = project(h, weight(prefix + "ffn_gate"));
      const Vector up = project(h, weight(prefix + "ffn_up"));
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(x[t], project(gate, weight(prefix + "ffn_down")));
    }
    layers.push_back(std::move(layer));
  }
  Vector attend(const Layer& layer, std::size_t t) const {
    Vector out;
    for (int head = 0; head < model_.num_q_heads; ++head) {
      const int kv_head = head / (model_.num_q_heads / model_.num_kv_heads);
      const Vector& q = layer.q[head][t];
      Vector p(t + 1);
      double sum = 0;
      for (std::size_t j = 0; j <= t; ++j) {
        const Vector& k = layer.k[kv_head][j];
        p[j] = std::exp(std::inner_product(q.begin(), q.end(), k.begin(), 0.0) /
                        std::sqrt(static_cast<double>(model_.head_dim)));
        sum += p[j];
      }
      for (int d = 0; d < model_.head_dim; ++d) {
        double value = 0;
        for (std::size_t j = 0; j <= t; ++j) value += p[j] / sum * layer.v[kv_head][j][d];
        out.push_back(value);
      }
    }
    return out;
  }
  static void add(Vector& x, const Vector& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const TinyLlama& model_;
};

// Dense attention that keeps what it saw.
class Watching final : public AttentionHook {
 public:
  explicit Watching(AttentionHook& inner) : inner_(&inner) {}
  at::Tensor attend(const AttentionCall& call) override {
    calls.push_back(call);
    for (at::Tensor* tensor : {&calls.back().q, &calls.back().k, &calls.back().v}) {
      *tensor = tensor->clone();
    }
    return inner_->attend(call);
  }
  std::vector<AttentionCall> calls;

 private:
  AttentionHook* inner_;
};

double largest_difference(const at::Tensor& actual, const Vector& expected) {
  EXPECT_EQ(actual.numel(), static_cast<std::int64_t>(expected.size()));
  const at::Tensor flat = actual.contiguous();
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(flat.const_data_ptr<float>()[i] - expected[i]));
  }
  return largest;
}

at::Tensor run_in_chunks(Decoder& decoder, AttentionHook& hook,
                         const std::vector<std::int32_t>& ids, std::size_t chunk_size) {
  at::Tensor logits;
  for (std::size_t begin = 0; begin < ids.size(); begin += chunk_size) {
    const auto count = std::min(chunk_size, ids.size() - begin);
    logits = decoder.forward(std::span(ids).subspan(begin, count), hook);
  }
  return logits;
}

TEST(Decoder, AgreesWithPlainLoopsForEveryChunkSize) {
  for (const bool tied : {true, false}) {
    TinyLlama tiny;
    tiny.tied = tied;
    const auto model = load_model(tiny.build().write("tiny.gguf"));
    EXPECT_EQ(model->info.name, "tiny");
    EXPECT_EQ(model->info.gqa_group_size(), 3);
    EXPECT_EQ(model->info.rope_pairing, trace::RopePairing::Interleaved);
    const auto ids = tokens(70);
    SlowLlama slow(tiny);
    const Vector expected = slow.logits(ids);
    for (const std::size_t chunk_size : {1U, 7U, 16U, 64U, 70U}) {
      DenseAttention dense;
      Watching watching(dense);
      Decoder decoder(model, {static_cast<std::int64_t>(ids.size()), false});
      const at::Tensor logits = run_in_chunks(decoder, watching, ids, chunk_size);
      EXPECT_EQ(decoder.length(), 70);
      EXPECT_LT(largest_difference(logits, expected), 2e-5) << "chunks of " << chunk_size;
      // The last calls hold all of K and V, and the last rows of q.
      for (int layer = 0; layer < tiny.num_layers; ++layer) {
        const auto& call = watching.calls[watching.calls.size() - tiny.num_layers + layer];
        EXPECT_EQ(call.layer, layer);
        EXPECT_EQ(call.past_len + call.q.size(1), 70);
        for (int head = 0; head < tiny.num_kv_heads; ++head) {
          for (int t = 0; t < 70; ++t) {
            EXPECT_LT(largest_difference(call.k[head][t], slow.layers[layer].k[head][t]), 2e-5);
            EXPECT_LT(largest_difference(call.v[head][t], slow.layers[layer].v[head][t]), 2e-5);
          }
        }
        for (int head = 0; head < tiny.num_q_heads; ++head) {
          EXPECT_LT(largest_difference(call.q[head][-1], slow.layers[layer].q[head][69]), 2e-5);
        }
      }
    }
  }
}

TEST(Decoder, DecodingAgreesWithPrefillAndLogitsCanBeLeftOut) {
  TinyLlama tiny(2);
  const auto model = load_model(tiny.build().write("tiny.gguf"));
  const auto ids = tokens(40);
  DenseAttention dense;
  Decoder prefill(model, {40, false});
  const at::Tensor expected = prefill.forward(ids, dense);
  Decoder decoder(model, {40, false});
  EXPECT_FALSE(decoder.forward(std::span(ids).first(30), dense, false).defined());
  at::Tensor logits;
  for (int t = 30; t < 40; ++t) logits = decoder.forward(std::span(ids).subspan(t, 1), dense);
  EXPECT_LT((logits - expected).abs().max().item<float>(), 2e-5);
}

TEST(Decoder, RoundToHalfShowsTheHookExactlyWhatATraceHolds) {
  TinyLlama tiny(3);
  const auto model = load_model(tiny.build().write("tiny.gguf"));
  const auto ids = tokens(24);
  DenseAttention dense;
  Watching exact(dense), rounded(dense);
  Decoder exact_decoder(model, {24, false});
  exact_decoder.forward(ids, exact);
  Decoder rounded_decoder(model, {24, true});
  run_in_chunks(rounded_decoder, rounded, ids, 8);
  EXPECT_FALSE(exact.calls.front().q_half.defined());
  // In the first layer, nothing before was rounded.
  EXPECT_TRUE(at::equal(rounded.calls.front().q,
                        exact.calls.front().q.narrow(1, 0, 8).to(at::kHalf).to(at::kFloat)));
  for (const AttentionCall& call : rounded.calls) {
    const std::int64_t m = call.q.size(1);
    EXPECT_TRUE(at::equal(call.q, call.q_half.to(at::kFloat)));
    EXPECT_TRUE(at::equal(call.k.narrow(1, call.past_len, m), call.k_half.to(at::kFloat)));
    EXPECT_TRUE(at::equal(call.v.narrow(1, call.past_len, m), call.v_half.to(at::kFloat)));
    for (const auto& half : {call.q_half, call.k_half, call.v_half}) {
      EXPECT_TRUE(half.is_contiguous());
    }
  }
}

TEST(Decoder, HalfSplitRotationIsInterleavedRotationOfReorderedPairs) {
  const std::int64_t head_dim = 16;
  const at::Tensor x = at::sin(at::arange(5 * 3 * head_dim, at::kFloat)).view({5, 3 * head_dim});
  const RopeTable table = rope_table(11, 5, rope_frequencies({}, head_dim));
  const auto interleave = [&](const at::Tensor& t) {
    return at::stack({t.narrow(-1, 0, head_dim / 2), t.narrow(-1, head_dim / 2, head_dim / 2)}, -1)
        .flatten(-2);
  };
  const at::Tensor halves = split_and_rotate(x, 3, 2, table, trace::RopePairing::HalfSplit);
  const at::Tensor reordered =
      interleave(x.view({5, 3, head_dim})).reshape({5, 3 * head_dim}).contiguous();
  const at::Tensor pairs =
      split_and_rotate(reordered, 3, 2, table, trace::RopePairing::Interleaved);
  EXPECT_TRUE(at::allclose(interleave(halves), pairs, 1e-6, 1e-6));
  // The last head is not rotated, the others are.
  EXPECT_TRUE(at::equal(halves[2], x.view({5, 3, head_dim}).select(1, 2)));
  EXPECT_FALSE(at::allclose(halves[0], x.view({5, 3, head_dim}).select(1, 0)));
}

// ggml: mscale = attn_factor, and with YaRN times 1 + 0.1 ln(factor).
TEST(Decoder, YarnInGgufFilesScalesByBothFactors) {
  TinyLlama tiny;
  GgufBuilder builder = tiny.build();
  builder.add_text("llama.rope.scaling.type", "yarn");
  builder.add_f32("llama.rope.scaling.factor", 4);
  builder.add_f32("llama.rope.scaling.attn_factor", 0.5F);
  const auto model = load_model(builder.write("yarn.gguf"));
  EXPECT_NEAR(rope_frequencies(model->ropes.front(), tiny.head_dim).magnitude,
              0.5 * (1 + 0.1 * std::log(4.0)), 1e-6);
}

TEST(Decoder, RefusesWhatDoesNotFit) {
  TinyLlama tiny;
  const auto model = load_model(tiny.build().write("tiny.gguf"));
  EXPECT_THROW(Decoder(model, {0, false}), Error);
  EXPECT_THROW(Decoder(model, {tiny.context_length + 1, false}), Error);
  DenseAttention dense;
  Decoder decoder(model, {8, false});
  EXPECT_THROW(decoder.forward(tokens(9), dense), Error);
  const std::vector<std::int32_t> outside = {0, 100000};
  EXPECT_THROW(decoder.forward(outside, dense), Error);
  decoder.forward(tokens(8), dense);
  EXPECT_THROW(decoder.forward(tokens(1), dense), Error);
}

std::string load_error(const GgufBuilder& builder) {
  try {
    load_model(builder.write("damaged.gguf"));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

TEST(LoadModel, NamesWhatIsDamagedOrNotSupported) {
  const auto with = [](auto change) {
    TinyLlama tiny;
    GgufBuilder builder = tiny.build();
    change(builder);
    return load_error(builder);
  };
  EXPECT_EQ(with([](auto&) {}), "no error");
  EXPECT_THAT(with([](auto& b) { b.add_text("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("longrope"));
  EXPECT_THAT(with([](auto& b) { b.add_f32("llama.rope.scaling.attn_factor", 2); }),
              HasSubstr("attn_factor 2 without YaRN"));
  EXPECT_THAT(with([](auto& b) { b.add_u32("llama.expert_count", 8); }), HasSubstr("expert_count"));
  EXPECT_THAT(with([](auto& b) {
                b.add_f32_tensor("blk.0.attn_q.bias", {2}, {0, 0});
              }),
              HasSubstr("blk.0.attn_q.bias"));
  TinyLlama odd;
  odd.num_kv_heads = 4;
  EXPECT_THAT(load_error(odd.build()), HasSubstr("evenly"));
  GgufBuilder empty;
  EXPECT_THAT(load_error(empty), HasSubstr("general.architecture"));
  empty.add_text("general.architecture", "mamba");
  EXPECT_THAT(load_error(empty), HasSubstr("mamba"));
  EXPECT_THROW(load_model("no-such-model"), Error);
  EXPECT_THROW(load_model("."), Error);
}

TEST(LoadModel, TruncatedFilesAreRefused) {
  TinyLlama tiny;
  const std::string bytes = tiny.build().bytes();
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 97) {
    EXPECT_THROW(load_model(GgufBuilder::write_bytes("damaged.gguf", bytes.substr(0, size))),
                 Error);
  }
}

std::string load_error(const std::filesystem::path& path) {
  try {
    load_model(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// As llama-gguf-split does it: all metadata in the first part.
TEST(LoadModel, AModelInPartsIsTheSame) {
  const auto number = [](GgufBuilder& part, std::uint16_t no, std::uint16_t count) {
    part.add_scalar("split.no", 2, no);
    part.add_scalar("split.count", 2, count);
  };
  TinyLlama tiny(4);
  GgufBuilder layers, stranger;
  tiny.of_layers = &layers;
  GgufBuilder first = tiny.build();
  number(first, 0, 2);
  number(layers, 1, 2);
  number(stranger, 1, 3);
  const auto path = first.write("split-00001-of-00002.gguf");
  const std::string other = "split-00002-of-00002.gguf";
  layers.write(other);

  const auto model = load_model(path);
  const auto whole = load_model(TinyLlama(4).build().write("whole.gguf"));
  DenseAttention dense;
  const auto logits = [&](const std::shared_ptr<const LoadedModel>& of) {
    return Decoder(of, {32, false}).forward(tokens(32), dense);
  };
  EXPECT_TRUE(at::equal(logits(model), logits(whole)));
  EXPECT_EQ(files_of_model(path), (InputFiles{"split-00001-of-00002.gguf", other}));

  EXPECT_THAT(load_error(std::filesystem::path(other)), HasSubstr("it is part 2 of 2"));
  EXPECT_THAT(load_error(std::filesystem::path(first.write("renamed.gguf"))),
              HasSubstr("its name does not say so"));
  stranger.write(other);
  EXPECT_THAT(load_error(path), HasSubstr("is not part 2 of 2"));
  std::filesystem::remove(other);
  EXPECT_THAT(load_error(path), AllOf(HasSubstr(other), HasSubstr("llama-gguf-split --merge")));
}

TEST(LoadModel, APartOfAnImpossibleNumberIsDamaged) {
  constexpr std::uint32_t kInt64 = 11;
  for (const std::int64_t number :
       {std::numeric_limits<std::int64_t>::max(), std::int64_t{2}, std::int64_t{-1}}) {
    GgufBuilder part = TinyLlama(4).build();
    part.add_scalar("split.no", kInt64, number);
    part.add_scalar("split.count", kInt64, std::int64_t{2});
    const std::filesystem::path path = part.write("odd-00001-of-00002.gguf");
    EXPECT_THAT(load_error(path), HasSubstr("split.no is " + std::to_string(number)));
  }
}

TEST(LoadModel, HashIsTheSha256OfTheFile) {
  TinyLlama tiny;
  const auto path = tiny.build().write("tiny.gguf");
  FILE* pipe = ::popen(("sha256sum " + path.string()).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char text[65] = {};
  EXPECT_EQ(std::fread(text, 1, 64, pipe), 64U);
  ::pclose(pipe);
  EXPECT_EQ(load_model(path)->info.file_hash, text);
}

}  // namespace
}  // namespace kvloupe::capture
