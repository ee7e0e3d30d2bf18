// The probe after each prefill chunk and the novelty of the tokens, against plain forward passes.
#include "capture/run/probe.h"

#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "core/base/error.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using selection::MethodSpec;

// Dense attention in double, causal, one query at a time; keeps the queries of the last call.
class PlainAttention final : public AttentionHook {
 public:
  at::Tensor attend(const AttentionCall& call) override {
    queries.resize(std::max(queries.size(), static_cast<std::size_t>(call.layer) + 1));
    queries[static_cast<std::size_t>(call.layer)] = call.q.clone();
    at::Tensor output = at::zeros_like(call.q);
    const std::int64_t group = call.q.size(0) / call.k.size(0);
    for (std::int64_t head = 0; head < call.q.size(0); ++head) {
      for (std::int64_t t = 0; t < call.q.size(1); ++t) {
        const std::int64_t end = call.past_len + t + 1;
        const at::Tensor k = call.k[head / group].slice(0, 0, end).to(at::kDouble);
        const at::Tensor v = call.v[head / group].slice(0, 0, end).to(at::kDouble);
        const at::Tensor logits = at::mv(k, call.q[head][t].to(at::kDouble)) * call.softmax.scale;
        output[head][t] = at::matmul(at::softmax(logits, 0), v);
      }
    }
    return output;
  }
  std::vector<at::Tensor> queries;  // by layer
};

CaptureOptions probed_options(const std::string& name) {
  CaptureOptions options = tiny_options(name);
  options.dtype = trace::DType::F32;
  options.store.set(trace::Part::Probe);
  return options;
}

// The model is f32: a trace's values are its own.
TEST(Probe, QueriesAreThoseOfAForwardOfTheTextBeforeAndTheProbe) {
  capture_tiny(probed_options("probed.h5"));
  const trace::TraceReader reader("probed.h5");
  const trace::TraceInfo& info = reader.info();
  const auto model = make_tiny_model();
  const Probe probe = make_probe(model->tokenizer);
  EXPECT_EQ(info.probe_text, probe.text);
  ASSERT_EQ(info.probe_len, static_cast<int>(probe.ids.size()));
  const std::vector<std::int32_t> ids = reader.token_ids();
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    if (info.chunks[c].phase == trace::Phase::Decode) {
      EXPECT_FALSE(reader.read_probe(0, static_cast<int>(c)).has_value());
      continue;
    }
    std::vector<std::int32_t> text(ids.begin(), ids.begin() + info.chunks[c].end());
    text.insert(text.end(), probe.ids.begin(), probe.ids.end());
    Decoder decoder(model, {static_cast<std::int64_t>(text.size()), false});
    PlainAttention plain;
    decoder.forward(text, plain);
    for (const int layer : info.layers) {
      const auto recorded = reader.read_probe(layer, static_cast<int>(c));
      ASSERT_TRUE(recorded.has_value());
      const at::Tensor expected =
          plain.queries[static_cast<std::size_t>(layer)].slice(1, info.chunks[c].end());
      EXPECT_LT(
          (at::tensor(*recorded).reshape(expected.sizes()) - expected).abs().max().item<float>(),
          1e-3)
          << "layer " << layer << " chunk " << c;
    }
  }
}

TEST(Probe, NoveltyIsTheLogSoftmaxOfOneForward) {
  capture_tiny(probed_options("novel.h5"));
  const trace::TraceReader reader("novel.h5");
  const std::vector<float> novelty = reader.read<float>(trace::Field::Nll);
  const std::vector<std::int32_t> ids = reader.token_ids();
  ASSERT_EQ(novelty.size(), ids.size());
  EXPECT_EQ(novelty.front(), std::numeric_limits<float>::infinity());
  const auto model = make_tiny_model();
  Decoder decoder(model, {static_cast<std::int64_t>(ids.size()), false});
  PlainAttention plain;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const at::Tensor logits = decoder.forward(std::span(ids).subspan(t, 1), plain);
    const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), 0);
    EXPECT_NEAR(novelty[t + 1], -log_p[ids[t + 1]].item<double>(), 1e-3) << "token " << t + 1;
  }
}

// Nothing that a trace without a probe holds is different in one with it.
TEST(Probe, TheProbeDoesNotDisturbTheRun) {
  for (const trace::DType dtype : {trace::DType::F16, trace::DType::F32}) {
    for (const char* closed_loop : {"", "h2o:budget_tokens=40"}) {
      CaptureOptions options = tiny_options("without.h5");
      options.dtype = dtype;
      if (*closed_loop) options.closed_loop = MethodSpec::parse(closed_loop);
      options.methods = {MethodSpec::parse("snapkv:budget_tokens=40")};
      capture_tiny(options);
      options.output = "with.h5";
      options.store.set(trace::Part::Probe);
      capture_tiny(options);
      const trace::TraceReader without("without.h5"), with("with.h5");
      EXPECT_EQ(without.info().probe_len, 0);
      EXPECT_GT(with.info().probe_len, 0);
      EXPECT_EQ(with.info().generated, without.info().generated);
      EXPECT_EQ(with.info().num_tokens, without.info().num_tokens);
      for (const int layer : with.info().layers) {
        const StoredLayer a = read_layer(with, layer), b = read_layer(without, layer);
        EXPECT_TRUE(at::equal(a.q, b.q) && at::equal(a.k, b.k) && at::equal(a.v, b.v));
        EXPECT_EQ(with.read_run_layer(0, layer).positions,
                  without.read_run_layer(0, layer).positions);
      }
    }
  }
}

// The same bits whether or not the other positions' logits are wanted, and after a detour.
TEST(Probe, LogitsDoNotDependOnEarlierOnesOrTruncatedTokens) {
  const auto model = make_tiny_model();
  const std::vector<std::int32_t> ids =
      model->tokenizer.encode(some_text(), SpecialTokens::Literal);
  const Probe probe = make_probe(model->tokenizer);
  Decoder plain(model, {400, true}), probed(model, {400, true});
  DenseAttention dense;
  for (const std::size_t begin : {0, 64, 128}) {
    const auto chunk = std::span(ids).subspan(begin, 64);
    at::Tensor earlier;
    const at::Tensor expected = plain.forward(chunk, dense);
    EXPECT_TRUE(at::equal(probed.forward(chunk, dense, true, &earlier), expected));
    EXPECT_EQ(earlier.size(0), 63);
    probed.forward(probe.ids, dense, false);
    probed.truncate(static_cast<std::int64_t>(begin) + 64);
    EXPECT_EQ(probed.length(), plain.length());
  }
}

// Attention in double over the keys alive before a chunk by the trace's run 0, the chunk, and the
// probe itself.
class ProbeOverSurvivors final : public AttentionHook {
 public:
  ProbeOverSurvivors(const trace::TraceReader& reader, int chunk)
      : reader_(reader), chunk_(chunk) {}

  at::Tensor attend(const AttentionCall& call) override {
    const trace::RunLayer run = reader_.read_run_layer(0, call.layer);
    const trace::ChunkInfo& chunk = reader_.info().chunks[static_cast<std::size_t>(chunk_)];
    const std::int64_t group = call.q.size(0) / call.k.size(0);
    queries.push_back(call.q.clone());
    at::Tensor output = at::zeros_like(call.q);
    for (std::int64_t head = 0; head < call.q.size(0); ++head) {
      for (std::int64_t t = 0; t < call.q.size(1); ++t) {
        std::vector<std::int64_t> keys;
        for (std::int64_t j = 0; j <= call.past_len + t; ++j) {
          const auto died = j < chunk.begin ? run.evict_chunk[static_cast<std::size_t>(
                                                  head / group * reader_.info().num_tokens + j)]
                                            : trace::kAlive;
          if (died >= chunk_) keys.push_back(j);
        }
        const at::Tensor index = at::tensor(keys, at::kLong);
        const at::Tensor k = call.k[head / group].index_select(0, index).to(at::kDouble);
        const at::Tensor v = call.v[head / group].index_select(0, index).to(at::kDouble);
        const at::Tensor logits = at::mv(k, call.q[head][t].to(at::kDouble)) * call.softmax.scale;
        output[head][t] = at::matmul(at::softmax(logits, 0), v);
      }
    }
    return output;
  }
  std::vector<at::Tensor> queries;  // by layer

 private:
  const trace::TraceReader& reader_;
  int chunk_;
};

// Puts a trace's stored keys and values into a decoder's cache: attention is not asked for.
class ReplayStored final : public AttentionHook {
 public:
  explicit ReplayStored(const trace::TraceReader& reader) {
    for (const int layer : reader.info().layers) stored_.push_back(read_layer(reader, layer));
  }
  at::Tensor attend(const AttentionCall& call) override {
    const StoredLayer& stored = stored_[static_cast<std::size_t>(call.layer)];
    at::Tensor k = call.k, v = call.v;
    k.copy_(stored.k.slice(1, 0, call.k.size(1)));
    v.copy_(stored.v.slice(1, 0, call.v.size(1)));
    return at::zeros_like(call.q);
  }

 private:
  std::vector<StoredLayer> stored_;
};

TEST(Probe, InAClosedLoopThatEvictsTheProbeSeesTheKeysAtHand) {
  for (const char* spec : {"infinipot:budget_tokens=30", "h2o:budget_tokens=30"}) {
    CaptureOptions options = probed_options("survivors.h5");
    options.closed_loop = MethodSpec::parse(spec);
    capture_tiny(options);
    const trace::TraceReader reader("survivors.h5");
    const trace::TraceInfo& info = reader.info();
    const auto model = make_tiny_model();
    const Probe probe = make_probe(model->tokenizer);
    const std::vector<std::int32_t> ids = reader.token_ids();
    for (std::size_t c = 0; c < info.chunks.size(); ++c) {
      if (info.chunks[c].phase == trace::Phase::Decode) continue;
      Decoder decoder(model, {400, false});
      ReplayStored stored(reader);
      decoder.forward(std::span(ids).first(static_cast<std::size_t>(info.chunks[c].end())), stored,
                      false);
      ProbeOverSurvivors truth(reader, static_cast<int>(c));
      decoder.forward(probe.ids, truth, false);
      for (const int layer : info.layers) {
        const at::Tensor& expected = truth.queries[static_cast<std::size_t>(layer)];
        const auto recorded = reader.read_probe(layer, static_cast<int>(c));
        ASSERT_TRUE(recorded.has_value());
        EXPECT_LT(
            (at::tensor(*recorded).reshape(expected.sizes()) - expected).abs().max().item<float>(),
            1e-3)
            << spec << " layer " << layer << " chunk " << c;
      }
    }
  }
}

TEST(Probe, IsRecordedForMethodsThatNeedItAndForNoOther) {
  CaptureOptions options = tiny_options("need.h5");
  options.methods = {MethodSpec::parse("oracle:budget_tokens=40")};
  capture_tiny(options);
  EXPECT_EQ(trace::TraceReader("need.h5").info().probe_len, 0);
  EXPECT_TRUE(trace::TraceReader("need.h5").read<float>(trace::Field::Nll).empty());
  options.methods.push_back(MethodSpec::parse("infinipot:budget_tokens=40"));
  capture_tiny(options);
  EXPECT_GT(trace::TraceReader("need.h5").info().probe_len, 0);
  options.methods.clear();
  options.closed_loop = MethodSpec::parse("infinipot:budget_tokens=40");
  capture_tiny(options);
  EXPECT_GT(trace::TraceReader("need.h5").info().probe_len, 0);
}

// 4 prefill chunks, 3 layers, 6 heads of 16 channels in half precision; 235 tokens in fp32.
TEST(Probe, IsCountedInTheEstimate) {
  std::vector<CaptureEstimate> estimates;
  for (const bool probed : {false, true}) {
    CaptureOptions options = tiny_options("estimate.h5");
    options.store.set(trace::Part::Probe, probed);
    at::set_num_threads(1);
    capture_with(make_tiny_model(), options,
                 [&](const CaptureEstimate& estimate) { estimates.push_back(estimate); }, {});
  }
  const std::uint64_t probe_len = make_probe(make_tiny_model()->tokenizer).ids.size();
  ASSERT_EQ(estimates.size(), 2u);
  EXPECT_EQ(estimates[1].tokens, 235);
  EXPECT_EQ(estimates[1].bytes - estimates[0].bytes, 4 * 3 * 6 * 16 * 2 * probe_len + 235 * 4);
}

// The model's context must hold the prompt and the probe, though not at once the new tokens.
TEST(Probe, NeedsItsRoomInTheContext) {
  const auto model_of = [](std::int64_t context) {
    return make_tiny_model({.context_length = context});
  };
  const auto probe_len =
      static_cast<std::int64_t>(make_probe(model_of(1024)->tokenizer).ids.size());
  CaptureOptions options = probed_options("room.h5");
  EXPECT_TRUE(capture_tiny(options, {}, model_of(230 + probe_len)).complete);
  options.output = "no_room.h5";
  std::filesystem::remove(options.output);
  try {
    capture_tiny(options, {}, model_of(230 + probe_len - 1));
    ADD_FAILURE() << "the probe had no room";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the prompt of 230 tokens does not fit"));
    EXPECT_THAT(error.what(), HasSubstr("leaves room for 229 tokens"));
  }
  EXPECT_FALSE(std::filesystem::exists("no_room.h5"));
  options.output = "room.h5";
  options.store.set(trace::Part::Probe, false);
  EXPECT_TRUE(capture_tiny(options, {}, model_of(236)).complete);
}

}  // namespace
}  // namespace kvloupe::capture
