// Captures whose model runs on the device `sim`, whose memory host code cannot touch, against those of
// the CPU: the same numbers to 1e-5, the same tokens.
#include "capture/run/memory_plan.h"
#include "core/base/error.h"
#include "core/device/sim_plugin.h"
#include "core/device/torch_device.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"
#include "tests/capture/method_specs.h"
#include "tests/capture/tiny_llama.h"
#include "tests/device/tested_device.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using device::testing::tested_device;
using selection::MethodSpec;

c10::Device sim() { return device::torch_device(tested_device()); }

CaptureOptions exact_options(const std::string& name) {
  CaptureOptions options = tiny_options(name);
  options.dtype = trace::DType::F32;
  options.store.set(trace::Part::Mass);
  options.store.set(trace::Part::Loss);
  return options;
}

std::string text_of_bytes(std::size_t count) {
  std::string text;
  while (text.size() < count) text += some_text();
  return text.substr(0, count);
}

// Largest difference relative to the largest number; infinities stand in the same places.
void expect_near(const at::Tensor& got, const at::Tensor& want, double tolerance) {
  ASSERT_EQ(got.sizes(), want.sizes());
  ASSERT_TRUE(at::equal(at::isfinite(got), at::isfinite(want)));
  const at::Tensor a = at::nan_to_num(got, 0, 0, 0), b = at::nan_to_num(want, 0, 0, 0);
  EXPECT_LE((a - b).abs().max().item<float>(), tolerance * b.abs().max().item<float>());
}

at::Tensor lse_of(const trace::TraceReader& reader, int layer) {
  const trace::TraceInfo& info = reader.info();
  at::Tensor lse = at::empty({info.model.num_q_heads, info.num_tokens}, at::kFloat);
  for (int head = 0; head < info.model.num_q_heads; ++head)
    reader.read_lse(layer, head, 0, info.num_tokens, lse[head].data_ptr<float>());
  return lse;
}

void expect_same_trace(const std::string& got, const std::string& want, double tolerance) {
  const trace::TraceReader a(got), b(want);
  EXPECT_EQ(trace::validate_trace(got), std::vector<std::string>{});
  EXPECT_EQ(a.token_ids(), b.token_ids());
  EXPECT_EQ(a.info().generated, b.info().generated);
  ASSERT_EQ(a.info().chunks.size(), b.info().chunks.size());
  for (const int layer : b.info().layers) {
    SCOPED_TRACE(testing::Message() << "layer " << layer);
    const StoredLayer x = read_layer(a, layer), y = read_layer(b, layer);
    expect_near(x.q, y.q, tolerance);
    expect_near(x.k, y.k, tolerance);
    expect_near(x.v, y.v, tolerance);
    expect_near(lse_of(a, layer), lse_of(b, layer), tolerance);
    for (std::size_t c = 0; c < b.info().chunks.size(); ++c) {
      const auto mass = a.read_key_mass(layer, static_cast<int>(c));
      const auto expected = b.read_key_mass(layer, static_cast<int>(c));
      ASSERT_EQ(mass.has_value(), expected.has_value());
      if (mass) expect_near(at::tensor(*mass), at::tensor(*expected), tolerance);
    }
  }
  if (b.info().has_losses)
    expect_near(at::tensor(a.read<float>(trace::Field::Nll)),
                at::tensor(b.read<float>(trace::Field::Nll)), tolerance);
}

using Change = std::function<void(LoadedModel&)>;

// On the CPU and on the device; `change` makes another model of the tiny one.
void compare(CaptureOptions options, double tolerance = 1e-5, const Change& change = {}) {
  const auto model = [&](c10::Device device) {
    auto tiny = make_tiny_model();
    if (change) change(*tiny);
    move_to(*tiny, device);
    EXPECT_EQ(tiny->device(), device);
    return tiny;
  };
  options.output = "cpu.h5";
  EXPECT_TRUE(capture_tiny(options, {}, model(c10::kCPU)).complete);
  options.device = tested_device();
  options.output = "sim.h5";
  const CaptureReport report = capture_tiny(options, {}, model(sim()));
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.speed.has_value(), sim().is_cuda());  // `sim` is no device that has one
  expect_same_trace("sim.h5", "cpu.h5", tolerance);
}

// 512 tokens of a model file, whose weights the CPU packs.
TEST(CaptureOnSim, IsTheCpusTraceOf512Tokens) {
  TinyLlama tiny;
  tiny.context_length = 600;
  CaptureOptions options = exact_options("cpu.h5");
  options.model = tiny.build().write("tiny.gguf");
  options.prompt_text = text_of_bytes(520);  // some pairs of bytes are one token
  options.chunk_size = 128;
  ASSERT_TRUE(run_capture(options, {}, {}).complete);
  options.device = tested_device();
  options.output = "sim.h5";
  ASSERT_TRUE(run_capture(options, {}, {}).complete);
  EXPECT_GE(trace::TraceReader("sim.h5").info().num_tokens, 512);
  expect_same_trace("sim.h5", "cpu.h5", 1e-5);
  EXPECT_EQ(device::sim_allocated_bytes(), 0U);
}

TEST(CaptureOnSim, HalfPrecisionTraces) {
  CaptureOptions options = exact_options("cpu.h5");
  options.dtype = trace::DType::F16;
  compare(options, 2e-3);
}

TEST(CaptureOnSim, LayersThatAreNotRecorded) {
  CaptureOptions options = exact_options("cpu.h5");
  options.layers = {1};
  options.store.set(trace::Part::Loss, false);
  compare(options);
}

TEST(CaptureOnSim, HalfSplitRotationQkNormBiasesAndNormsAfter) {
  for (const QkNorm norm : {QkNorm::EachHead, QkNorm::AllHeads}) {
    compare(exact_options("cpu.h5"), 1e-5, [&](LoadedModel& model) {
      const trace::ModelInfo& info = model.info;
      const bool all = norm == QkNorm::AllHeads;
      model.info.rope_pairing = trace::RopePairing::HalfSplit;
      model.qk_norm = norm;
      model.norms_after = true;
      model.embedding_scale = 3;
      model.activation = Activation::GeluTanh;
      model.rope_of_layer.back() = -1;
      model.output = model.token_embedding;
      at::manual_seed(5);
      for (LayerWeights& layer : model.layers) {
        layer.qkv_bias = at::randn({layer.qkv_proj.size(0)});
        layer.q_norm = at::rand({all ? info.num_q_heads * info.head_dim : info.head_dim}) + 0.5;
        layer.k_norm = at::rand({all ? info.num_kv_heads * info.head_dim : info.head_dim}) + 0.5;
        layer.after_attn_norm = at::rand({info.hidden_size}) + 0.5;
        layer.after_ffn_norm = at::rand({info.hidden_size}) + 0.5;
      }
    });
  }
}

TEST(CaptureOnSim, Experts) {
  compare(exact_options("cpu.h5"), 1e-5, [](LoadedModel& model) {
    model.experts = {4, 2, true, true};
    at::manual_seed(6);
    for (LayerWeights& layer : model.layers) {
      layer.router = at::randn({4, model.info.hidden_size});
      for (int expert = 0; expert < 4; ++expert)
        layer.experts.push_back({at::randn_like(layer.ffn.gate_up_proj) * 0.1F,
                                 {},
                                 at::randn_like(layer.ffn.down_proj) * 0.1F,
                                 {}});
      layer.ffn = {};
    }
  });
}

// Sums are rounded to 8 binary digits: those of two devices may fall on either side.
TEST(CaptureOnSim, RoundedWeights) {
  CaptureOptions options = exact_options("cpu.h5");
  options.max_new_tokens = 0;
  compare(options, 0.05, [](LoadedModel& model) {
    model.info.compute = ComputeType::Bf16;
    const auto round = [](at::Tensor& weight) { weight = weight.to(at::kBFloat16); };
    round(model.token_embedding);
    round(model.output);
    for (LayerWeights& layer : model.layers) {
      round(layer.qkv_proj);
      round(layer.o_proj);
      round(layer.ffn.gate_up_proj);
      round(layer.ffn.down_proj);
    }
  });
}

// The dense model beside a closed loop, and a probe.
TEST(CaptureOnSim, ClosedLoopAndDrift) {
  CaptureOptions options = exact_options("cpu.h5");
  options.closed_loop = MethodSpec::parse("sliding_window:budget_tokens=24");
  options.methods = {MethodSpec::parse("random:budget_tokens=24")};
  options.store.set(trace::Part::Drift);
  options.store.set(trace::Part::Probe);
  compare(options);
  const trace::TraceReader sim("sim.h5"), cpu("cpu.h5");
  for (const int run : {0, 1})
    for (const int layer : cpu.info().layers)
      EXPECT_EQ(sim.read_run_layer(run, layer).positions, cpu.read_run_layer(run, layer).positions);
  const trace::Drift a = sim.read_drift(), b = cpu.read_drift();
  expect_near(at::tensor(a.kl), at::tensor(b.kl), 1e-4);
  expect_near(at::tensor(a.q), at::tensor(b.q), 1e-4);
  expect_near(at::tensor(a.k), at::tensor(b.k), 1e-4);
  EXPECT_EQ(a.agrees, b.agrees);
  EXPECT_EQ(a.dense_answer, b.dense_answer);
}

// Every method on the recorder's tensors, which lie on the device.
TEST(CaptureOnSim, RecordsWhatEveryMethodKeeps) {
  CaptureOptions options = exact_options("cpu.h5");
  options.store.set(trace::Part::Probe);
  for (const std::string& spec : all_method_specs(24))
    options.methods.push_back(MethodSpec::parse(spec));
  compare(options);
  const trace::TraceReader sim("sim.h5"), cpu("cpu.h5");
  ASSERT_EQ(sim.info().runs.size(), options.methods.size());
  for (std::size_t run = 0; run < options.methods.size(); ++run)
    for (const int layer : cpu.info().layers)
      EXPECT_EQ(sim.read_run_layer(static_cast<int>(run), layer).positions,
                cpu.read_run_layer(static_cast<int>(run), layer).positions)
          << options.methods[run].canonical();
}

// And the model attends to it: lanes, pages, masks, reassigned positions, single keys.
TEST(CaptureOnSim, ClosesTheLoopWithEveryMethod) {
  for (const std::string& spec : all_method_specs(24)) {
    SCOPED_TRACE(spec);
    CaptureOptions options = exact_options("cpu.h5");
    options.max_new_tokens = 2;
    options.store.set(trace::Part::Loss, false);
    options.closed_loop = MethodSpec::parse(spec);
    compare(options, 1e-4);
  }
}

TEST(CaptureOnSim, GoesOnWhereItWasCutShort) {
  const auto model = make_tiny_model();
  move_to(*model, sim());
  CaptureOptions options = exact_options("whole.h5");
  options.device = tested_device();
  capture_tiny(options, {}, model);
  options.output = "cut.h5";
  cut_short(options, 192, model);
  CaptureOptions rest = options_left("cut.h5");
  EXPECT_EQ(rest.device, tested_device());
  rest.force = true;
  CaptureOptions elsewhere = rest;
  elsewhere.device = "cpu";
  try {
    capture_tiny(elsewhere);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--device " + tested_device() + ", not cpu"));
  }
  capture_tiny(rest, {}, model);
  expect_same_trace("cut.h5", "whole.h5", 0);
}

TEST(CaptureOnSim, PackedWeightsBecomePlain) {
  TinyLlama().build().write("tiny.gguf");
  const auto source = open_model("tiny.gguf");
  const auto packed = load_weights(*source, read_config(*source));
  ASSERT_TRUE(packed->layers[0].qkv_proj.is_mkldnn());
  const auto plain = load_weights(*source, read_config(*source), ComputeType::Fp32, sim());
  move_to(*packed, sim());
  for (std::size_t layer = 0; layer < plain->layers.size(); ++layer) {
    const LayerWeights &a = packed->layers[layer], &b = plain->layers[layer];
    EXPECT_TRUE(at::equal(a.qkv_proj.cpu(), b.qkv_proj.cpu()));
    EXPECT_TRUE(at::equal(a.ffn.down_proj.cpu(), b.ffn.down_proj.cpu()));
    EXPECT_EQ(a.attn_norm.device(), sim());
  }
  EXPECT_TRUE(packed->output.is_same(packed->token_embedding));  // tied
}

TEST(MemoryPlan, SaysWhatDoesNotFit) {
  const auto model = make_tiny_model();
  RecorderOptions options;
  const std::vector<trace::ChunkInfo> chunks = {{0, 64, trace::Phase::Prefill},
                                                {64, 36, trace::Phase::Prefill}};
  const MemoryPlan plan = plan_memory(*model, options, chunks);
  EXPECT_EQ(plan.caches, 3U * 2 * 2 * 100 * 16 * 4);  // layers, k and v, heads, tokens, dim, fp32
  std::int64_t weights = model->token_embedding.numel() + model->output.numel();
  for (const LayerWeights& layer : model->layers)
    weights += layer.qkv_proj.numel() + layer.o_proj.numel() + layer.ffn.gate_up_proj.numel() +
               layer.ffn.down_proj.numel();
  EXPECT_EQ(plan.weights, static_cast<std::uint64_t>(weights) * 4);
  EXPECT_GT(plan.working, 0U);
  options.store.set(trace::Part::Drift);
  EXPECT_EQ(plan_memory(*model, options, chunks).caches, 2 * plan.caches);
  require_memory(plan, "cuda:1", plan.total());
  try {
    require_memory(plan, "cuda:1", plan.total() - 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), HasSubstr("cuda:1"));
    EXPECT_THAT(error.what(), HasSubstr("not spread over several GPUs"));
    EXPECT_THAT(error.what(), HasSubstr("--compute bf16"));
  }
}

}  // namespace
}  // namespace kvloupe::capture
