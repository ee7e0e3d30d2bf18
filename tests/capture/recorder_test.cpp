// Captures of a tiny random model, read back: stored values against plain loops, recorded sets
// against a replay by fresh selectors, open and closed loop.
#include "capture/capture.h"

#include "capture/decoder.h"
#include "capture/model.h"
#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/selection/selector.h"
#include "core/trace/trace_reader.h"
#include "tests/capture/tiny_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using selection::MethodSpec;
using testing::HasSubstr;

// 230 bytes: with chunks of 64 the last one is ragged.
std::string some_text() {
  std::string text;
  for (int i = 0; i < 230; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  return text;
}

CaptureOptions tiny_options(const std::string& name) {
  CaptureOptions options;
  options.prompt_text = some_text();
  options.raw = true;
  options.chunk_size = 64;
  options.max_new_tokens = 6;
  options.output = name;
  options.force = true;
  return options;
}

CaptureReport capture_tiny(const CaptureOptions& options, const WorkContext& context = {},
                           std::shared_ptr<const LoadedModel> model = make_tiny_model()) {
  // The model is too small to share among threads.
  at::set_num_threads(1);
  return run_capture(options, std::move(model), {}, context);
}

at::Tensor read_heads(const trace::TraceReader& reader, trace::Stored what, int layer) {
  const trace::TraceInfo& info = reader.info();
  const int heads = what == trace::Stored::Q ? info.model.num_q_heads : info.model.num_kv_heads;
  at::Tensor result = at::empty({heads, info.num_tokens, info.model.head_dim}, at::kFloat);
  for (int head = 0; head < heads; ++head) {
    reader.read_rows(what, layer, head, 0, info.num_tokens, result[head].data_ptr<float>());
  }
  return result;
}

struct StoredLayer {
  at::Tensor q, k, v;
};

StoredLayer read_layer(const trace::TraceReader& reader, int layer) {
  return {read_heads(reader, trace::Stored::Q, layer), read_heads(reader, trace::Stored::K, layer),
          read_heads(reader, trace::Stored::V, layer)};
}

// What a fresh selector makes of the stored values must be what the run holds, bit for bit.
void expect_replay_equals_run(const trace::TraceReader& reader, int run) {
  const trace::TraceInfo& info = reader.info();
  const trace::RunInfo& run_info = info.runs[static_cast<std::size_t>(run)];
  SCOPED_TRACE(run_info.method);
  const MethodSpec spec = MethodSpec::parse(run_info.method);
  EXPECT_EQ(spec.canonical(), run_info.method);
  const auto selector = selection::make_selector(spec, selection::shape_of(info.model));
  for (const int layer : info.layers) {
    const StoredLayer stored = read_layer(reader, layer);
    const trace::RunLayer recorded = reader.read_run(run, layer);
    const std::size_t rows = static_cast<std::size_t>(recorded.num_rows);
    std::vector<std::vector<std::uint16_t>> evict_chunk(
        rows, std::vector<std::uint16_t>(static_cast<std::size_t>(info.num_tokens), trace::kAlive));
    for (std::size_t c = 0; c < info.chunks.size(); ++c) {
      const trace::ChunkInfo& chunk = info.chunks[c];
      selection::Cell cell;
      cell.layer = layer;
      cell.chunk = static_cast<int>(c);
      cell.past_len = chunk.begin;
      cell.chunk_len = chunk.length;
      cell.phase = chunk.phase;
      cell.softmax_scale = info.model.softmax_scale;
      cell.q = stored.q.slice(1, chunk.begin, chunk.end()).contiguous();
      cell.k = stored.k.slice(1, 0, chunk.end());
      cell.v = stored.v.slice(1, 0, chunk.end());
      const selection::CellSelection fresh = selector->select(cell);
      ASSERT_EQ(fresh.rows.size(), rows);
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t at = c * rows + row;
        const std::vector<std::int32_t> positions(
            recorded.positions.begin() + recorded.offsets[at],
            recorded.positions.begin() + recorded.offsets[at + 1]);
        const int flag = fresh.dense_fallback ? 1 : fresh.dense_reason ? 2 : 0;
        EXPECT_EQ(int(recorded.flags[at]), flag) << "layer " << layer << " chunk " << c;
        EXPECT_EQ(positions, flag ? std::vector<std::int32_t>{} : fresh.rows[row].positions)
            << "layer " << layer << " chunk " << c << " row " << row;
        if (!fresh.evicted.empty()) {
          for (const std::int32_t position : fresh.evicted[row]) {
            evict_chunk[row][static_cast<std::size_t>(position)] = static_cast<std::uint16_t>(c);
          }
        }
      }
    }
    if (run_info.state_action == trace::StateAction::Eviction) {
      std::vector<std::uint16_t> flat;
      for (const auto& row : evict_chunk) flat.insert(flat.end(), row.begin(), row.end());
      EXPECT_EQ(recorded.evict_chunk, flat);
      EXPECT_THAT(flat, testing::Contains(testing::Lt(trace::kAlive)));
    } else {
      EXPECT_TRUE(recorded.evict_chunk.empty());
    }
  }
}

std::vector<std::string> all_method_specs() {
  std::vector<std::string> specs;
  for (const selection::MethodInfo& method : selection::catalogue()) {
    specs.push_back(method.budget == selection::BudgetUse::None ? method.id
                                                                : method.id + ":budget_tokens=40");
    if (method.accepts_scope_all) {
      specs.push_back(method.id + ":budget_tokens=40,budget_scope=all");
    }
    for (const selection::ParamInfo& param : method.params) {
      if (param.name == "state") specs.push_back(method.id + ":budget_tokens=40,state=select");
    }
  }
  specs.push_back("snapkv:budget_ratio=0.3");
  return specs;
}

class Recording : public testing::TestWithParam<trace::DType> {};

TEST_P(Recording, ReplayOfStoredValuesGivesTheRecordedSets) {
  CaptureOptions options = tiny_options("open.h5");
  options.dtype = GetParam();
  for (const std::string& spec : all_method_specs()) {
    options.methods.push_back(MethodSpec::parse(spec));
  }
  const CaptureReport report = capture_tiny(options);
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(trace::validate_trace("open.h5"), std::vector<std::string>{});
  const trace::TraceReader reader("open.h5");
  EXPECT_EQ(reader.info().mode, trace::LoopMode::OpenLoop);
  ASSERT_EQ(reader.info().runs.size(), options.methods.size());
  for (std::size_t run = 0; run < options.methods.size(); ++run) {
    expect_replay_equals_run(reader, static_cast<int>(run));
  }
}

TEST_P(Recording, ClosedLoopIsRunZeroAndReplaysToo) {
  for (const char* spec : {"quoka:budget_tokens=24", "snapkv:budget_tokens=40",
                           "keydiff:budget_tokens=24", "oracle:budget_tokens=24,budget_scope=all",
                           "streaming_llm:budget_tokens=24", "random:budget_tokens=24"}) {
    CaptureOptions options = tiny_options("closed.h5");
    options.dtype = GetParam();
    options.closed_loop = MethodSpec::parse(spec);
    options.methods = {MethodSpec::parse("oracle:budget_tokens=24")};
    capture_tiny(options);
    const trace::TraceReader reader("closed.h5");
    EXPECT_EQ(reader.info().mode, trace::LoopMode::ClosedLoop);
    ASSERT_EQ(reader.info().runs.size(), 2u);
    EXPECT_EQ(reader.info().runs[0].mode, trace::LoopMode::ClosedLoop);
    EXPECT_EQ(reader.info().runs[1].mode, trace::LoopMode::OpenLoop);
    expect_replay_equals_run(reader, 0);
    expect_replay_equals_run(reader, 1);
  }
}

// exp-sum in double over the causal set, from the stored values.
TEST_P(Recording, LogSumExpAndMassAreThoseOfTheStoredValues) {
  for (const bool closed : {false, true}) {
    CaptureOptions options = tiny_options("lse.h5");
    options.dtype = GetParam();
    options.store_mass = true;
    if (closed) options.closed_loop = MethodSpec::parse("random:budget_tokens=16");
    capture_tiny(options);
    const trace::TraceReader reader("lse.h5");
    const trace::TraceInfo& info = reader.info();
    const int group = info.model.gqa_group_size();
    for (const int layer : info.layers) {
      const StoredLayer stored = read_layer(reader, layer);
      const auto q = stored.q.accessor<float, 3>();
      const auto k = stored.k.accessor<float, 3>();
      for (std::size_t c = 0; c < info.chunks.size(); ++c) {
        const trace::ChunkInfo& chunk = info.chunks[c];
        const std::size_t end = static_cast<std::size_t>(chunk.end());
        std::vector<double> mass(end * static_cast<std::size_t>(info.model.num_kv_heads));
        for (int head = 0; head < info.model.num_q_heads; ++head) {
          std::vector<float> lse(static_cast<std::size_t>(chunk.length));
          reader.read_lse(layer, head, chunk.begin, chunk.end(), lse.data());
          for (std::int32_t t = chunk.begin; t < chunk.end(); ++t) {
            std::vector<double> weight(static_cast<std::size_t>(t) + 1);
            double sum = 0;
            for (std::int32_t j = 0; j <= t; ++j) {
              double dot = 0;
              for (int d = 0; d < info.model.head_dim; ++d) {
                dot += double(q[head][t][d]) * double(k[head / group][j][d]);
              }
              sum += weight[static_cast<std::size_t>(j)] = std::exp(dot * info.model.softmax_scale);
            }
            ASSERT_NEAR(lse[static_cast<std::size_t>(t - chunk.begin)], std::log(sum), 1e-4);
            for (std::size_t j = 0; j < weight.size(); ++j) {
              mass[static_cast<std::size_t>(head / group) * end + j] += weight[j] / sum;
            }
          }
        }
        const auto stored_mass = reader.read_key_mass(layer, static_cast<int>(c));
        ASSERT_EQ(stored_mass.has_value(), chunk.phase == trace::Phase::Prefill);
        if (!stored_mass) continue;
        ASSERT_EQ(stored_mass->size(), mass.size());
        for (std::size_t i = 0; i < mass.size(); ++i) ASSERT_NEAR((*stored_mass)[i], mass[i], 1e-3);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Recording, testing::Values(trace::DType::F16, trace::DType::F32),
                         [](const auto& param) {
                           return param.param == trace::DType::F16 ? "f16" : "f32";
                         });

TEST(Capture, ChunksTokensAndAnswerAreThoseOfTheModel) {
  const CaptureReport report = capture_tiny(tiny_options("plain.h5"));
  const trace::TraceReader reader("plain.h5");
  const trace::TraceInfo& info = reader.info();
  EXPECT_TRUE(info.complete);
  // 230 prompt tokens in 4 chunks; of 6 new tokens the last one is not fed.
  ASSERT_EQ(info.chunks.size(), 9u);
  EXPECT_EQ(info.chunks[3].begin, 192);
  EXPECT_EQ(info.chunks[3].length, 38);
  EXPECT_EQ(info.chunks[4].phase, trace::Phase::Decode);
  EXPECT_EQ(info.chunks[8].begin, 234);
  EXPECT_EQ(info.num_tokens, 235);
  EXPECT_EQ(report.tokens, 235);
  EXPECT_EQ(report.chunks, 9);
  ASSERT_EQ(info.generated.size(), 6u);
  const std::vector<std::int32_t> ids = reader.token_ids();
  EXPECT_TRUE(std::equal(ids.begin() + 230, ids.end(), info.generated.begin()));
  const std::vector<std::string> texts = reader.token_texts();
  std::string prompt;
  for (int i = 0; i < 230; ++i) prompt += texts[static_cast<std::size_t>(i)];
  EXPECT_EQ(prompt, some_text());

  // Greedy decoding without any recording, in one chunk.
  const auto model = make_tiny_model();
  Decoder decoder(model, {300, true});
  DenseAttention dense;
  at::Tensor logits = decoder.forward(std::span(ids).first(230), dense);
  for (const std::int32_t token : info.generated) {
    EXPECT_EQ(logits.argmax().item<std::int64_t>(), token);
    logits = decoder.forward({&token, 1}, dense);
  }
}

TEST(Capture, DtypeDecidesWhatTheModelComputesWith) {
  CaptureOptions options = tiny_options("f16.h5");
  capture_tiny(options);
  options.output = "f32.h5";
  options.dtype = trace::DType::F32;
  capture_tiny(options);
  const StoredLayer half = read_layer(trace::TraceReader("f16.h5"), 0);
  const StoredLayer full = read_layer(trace::TraceReader("f32.h5"), 0);
  const auto prompt_of = [](const at::Tensor& tensor) { return tensor.slice(1, 0, 230); };
  EXPECT_TRUE(at::equal(prompt_of(full.k).to(at::kHalf).to(at::kFloat), prompt_of(half.k)));
  EXPECT_FALSE(at::equal(prompt_of(full.k), prompt_of(half.k)));
}

TEST(Capture, ClosedLoopChangesWhatLaterLayersSee) {
  CaptureOptions options = tiny_options("a.h5");
  options.max_new_tokens = 0;
  capture_tiny(options);
  options.output = "b.h5";
  options.closed_loop = MethodSpec::parse("sliding_window:budget_tokens=8");
  capture_tiny(options);
  const trace::TraceReader open("a.h5"), closed("b.h5");
  // Layer 0 sees embeddings alone; of layer 1 the first chunk, which has no past, is the same.
  EXPECT_TRUE(at::equal(read_layer(open, 0).k, read_layer(closed, 0).k));
  const at::Tensor open_k = read_layer(open, 1).k, closed_k = read_layer(closed, 1).k;
  EXPECT_TRUE(at::equal(open_k.slice(1, 0, 64), closed_k.slice(1, 0, 64)));
  EXPECT_FALSE(at::allclose(open_k.slice(1, 64), closed_k.slice(1, 64), 1e-3, 1e-3));
}

TEST(Capture, ClosedLoopWithRoomForAllEqualsDense) {
  CaptureOptions options = tiny_options("dense.h5");
  capture_tiny(options);
  const trace::TraceReader dense("dense.h5");
  for (const char* spec : {"quoka:budget_tokens=1000", "snapkv:budget_tokens=1000",
                           "random:budget_tokens=1000,budget_scope=all", "dense"}) {
    options.output = "full.h5";
    options.closed_loop = MethodSpec::parse(spec);
    capture_tiny(options);
    const trace::TraceReader full("full.h5");
    EXPECT_EQ(full.info().generated, dense.info().generated) << spec;
    for (const int layer : {0, 1, 2}) {
      EXPECT_TRUE(at::equal(read_layer(full, layer).q, read_layer(dense, layer).q)) << spec;
      EXPECT_TRUE(at::equal(read_layer(full, layer).v, read_layer(dense, layer).v)) << spec;
    }
  }
}

// Keeps the queries that pass through another hook.
class RecordQueries final : public AttentionHook {
 public:
  explicit RecordQueries(AttentionHook& inner) : inner_(inner) {}

  at::Tensor attend(const AttentionCall& call) override {
    queries_.resize(std::max(queries_.size(), static_cast<std::size_t>(call.layer) + 1));
    queries_[static_cast<std::size_t>(call.layer)].push_back(call.q.clone());
    return inner_.attend(call);
  }
  at::Tensor of(int layer) const { return at::cat(queries_[static_cast<std::size_t>(layer)], 1); }

 private:
  AttentionHook& inner_;
  std::vector<std::vector<at::Tensor>> queries_;
};

// Attention in double over the sets that a trace's run 0 holds: past by the set, the chunk
// causally; in scope `all` the set, causally, and the query's own key.
class AttendToRecorded final : public AttentionHook {
 public:
  AttendToRecorded(const trace::TraceReader& reader, bool scope_all)
      : reader_(reader), scope_all_(scope_all) {}

  at::Tensor attend(const AttentionCall& call) override {
    if (!runs_.contains(call.layer)) runs_[call.layer] = reader_.read_run(0, call.layer);
    const trace::RunLayer& run = runs_[call.layer];
    const int chunk = reader_.info().chunk_of_token(static_cast<std::int32_t>(call.past_len));
    const std::int64_t rows = call.q.size(1), dim = call.q.size(2);
    const std::int64_t group = call.q.size(0) / call.k.size(0);
    at::Tensor output = at::zeros_like(call.q);
    for (std::int64_t head = 0; head < call.q.size(0); ++head) {
      const auto cell = static_cast<std::size_t>(chunk * run.num_rows + head / group);
      const std::vector<std::int32_t> set(run.positions.begin() + run.offsets[cell],
                                          run.positions.begin() + run.offsets[cell + 1]);
      const at::Tensor k = call.k[head / group].to(at::kDouble);
      const at::Tensor v = call.v[head / group].to(at::kDouble);
      for (std::int64_t t = 0; t < rows; ++t) {
        const std::int64_t self = call.past_len + t;
        std::vector<std::int64_t> keys;
        for (std::int64_t j = 0; j <= self; ++j) {
          const bool in_set = run.flags[cell] != 0 || std::binary_search(set.begin(), set.end(), j);
          const bool open = scope_all_ ? j == self : j >= call.past_len;
          if (in_set || open) keys.push_back(j);
        }
        const at::Tensor index = at::tensor(keys, at::kLong);
        const at::Tensor q = call.q[head][t].to(at::kDouble);
        const at::Tensor logits = at::mv(k.index_select(0, index), q) * call.softmax_scale;
        output[head][t] = at::matmul(at::softmax(logits, 0), v.index_select(0, index));
      }
    }
    return output.reshape({call.q.size(0), rows, dim});
  }

 private:
  const trace::TraceReader& reader_;
  std::map<int, trace::RunLayer> runs_;
  bool scope_all_;
};

TEST(Capture, ClosedLoopAttendsToWhatItRecordsAndNothingElse) {
  for (const bool scope_all : {false, true}) {
    CaptureOptions options = tiny_options("truth.h5");
    options.dtype = trace::DType::F32;
    options.closed_loop = MethodSpec::parse(scope_all ? "oracle:budget_tokens=20,budget_scope=all"
                                                      : "snapkv:budget_tokens=40");
    capture_tiny(options);
    const trace::TraceReader reader("truth.h5");
    const std::vector<std::int32_t> ids = reader.token_ids();
    const auto model = make_tiny_model();
    Decoder decoder(model, {300, false});
    AttendToRecorded truth(reader, scope_all);
    RecordQueries queries(truth);
    for (const trace::ChunkInfo& chunk : reader.info().chunks) {
      decoder.forward(std::span(ids).subspan(chunk.begin, chunk.length), queries);
    }
    for (const int layer : {0, 1, 2}) {
      const at::Tensor stored = read_layer(reader, layer).q;
      EXPECT_LT((queries.of(layer) - stored).abs().max().item<float>(), 1e-3) << layer;
    }
  }
}

TEST(Capture, OnlyNamedLayersAreRecordedButAllRun) {
  CaptureOptions options = tiny_options("all.h5");
  options.closed_loop = MethodSpec::parse("quoka:budget_tokens=16");
  options.methods = {MethodSpec::parse("snapkv:budget_tokens=40")};
  capture_tiny(options);
  options.output = "one.h5";
  options.layers = {2, 2};
  capture_tiny(options);
  const trace::TraceReader all("all.h5"), one("one.h5");
  EXPECT_EQ(one.info().layers, std::vector<int>{2});
  EXPECT_TRUE(at::equal(read_layer(all, 2).q, read_layer(one, 2).q));
  EXPECT_EQ(all.read_run(0, 2).positions, one.read_run(0, 2).positions);
  EXPECT_EQ(all.read_run(1, 2).positions, one.read_run(1, 2).positions);
  EXPECT_EQ(all.info().generated, one.info().generated);
}

TEST(Capture, StoreDecidesWhatTheFileHolds) {
  CaptureOptions options = tiny_options("store.h5");
  options.store_lse = false;
  options.store_mass = false;
  capture_tiny(options);
  const trace::TraceReader reader("store.h5");
  EXPECT_FALSE(reader.has_lse(0));
  EXPECT_FALSE(reader.read_key_mass(0, 0).has_value());
}

// A quarter of q, k, v decides: T/2 mean keys x 4 bytes x G x chunks against (H + 2G) x D x 2 x T.
TEST(Capture, MassIsStoredUnaskedOnlyWhereItIsSmall) {
  CaptureOptions options = tiny_options("mass.h5");
  options.chunk_size = 128;
  capture_tiny(options);
  // (128 + 230) x 2 x 4 = 2,864 bytes against 10 x 16 x 2 x 235 / 4 = 18,800.
  EXPECT_TRUE(trace::TraceReader("mass.h5").read_key_mass(0, 1).has_value());
  options.chunk_size = 2;
  capture_tiny(options);
  // 2 x (1 + ... + 115) x 2 x 4 = 106,720 bytes.
  EXPECT_FALSE(trace::TraceReader("mass.h5").read_key_mass(0, 1).has_value());
}

TEST(Capture, CancelLeavesAValidIncompleteTrace) {
  CancelSource source;
  WorkContext context;
  context.cancel = source.token();
  context.progress = [&](std::int64_t done, std::int64_t, const std::string&) {
    if (done >= 128) source.cancel();
  };
  CaptureOptions options = tiny_options("stopped.h5");
  options.methods = {MethodSpec::parse("snapkv:budget_tokens=40")};
  const CaptureReport report = capture_tiny(options, context);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.tokens, 128);
  EXPECT_FALSE(fs::exists("stopped.h5.part"));
  EXPECT_EQ(trace::validate_trace("stopped.h5"), std::vector<std::string>{});
  const trace::TraceReader reader("stopped.h5");
  EXPECT_FALSE(reader.info().complete);
  EXPECT_EQ(reader.info().chunks.size(), 2u);
  EXPECT_EQ(reader.info().num_tokens, 128);
  expect_replay_equals_run(reader, 0);
}

TEST(Capture, NonFiniteValuesAreCountedAndStored) {
  auto model = std::make_shared<LoadedModel>();
  const auto sound = make_tiny_model();
  model->info = sound->info;
  model->context_length = sound->context_length;
  model->vocab_size = sound->vocab_size;
  model->ffn_size = sound->ffn_size;
  model->rms_norm_eps = sound->rms_norm_eps;
  model->token_embedding = sound->token_embedding.clone();
  model->output_norm = sound->output_norm;
  model->output = sound->output;
  model->layers = sound->layers;
  model->tokenizer = byte_tokenizer();
  // Byte 'z' has no place in the text but the one put there: position 100, chunk 1.
  model->token_embedding[3 + 'Z'].fill_(std::numeric_limits<float>::quiet_NaN());
  CaptureOptions options = tiny_options("nan.h5");
  (*options.prompt_text)[100] = 'Z';
  options.max_new_tokens = 0;
  options.methods = {
      MethodSpec::parse("quoka:budget_tokens=40"), MethodSpec::parse("snapkv:budget_tokens=40"),
      MethodSpec::parse("keydiff:budget_tokens=40"), MethodSpec::parse("oracle:budget_tokens=40")};
  const CaptureReport report = capture_tiny(options, {}, model);
  EXPECT_TRUE(report.complete);
  // Chunk 1 of layer 0 holds it; later tokens attend to it, so from layer 1 on chunks 1 to 3 do.
  EXPECT_EQ(report.marked_cells, 1 + 3 + 3);
}

ErrorKind failure_of(const CaptureOptions& options) {
  try {
    capture_tiny(options);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("; "));
    return error.kind();
  }
  ADD_FAILURE() << "the capture was accepted";
  return ErrorKind::Internal;
}

TEST(Capture, WrongArgumentsAreToldApart) {
  const CaptureOptions good = tiny_options("never.h5");
  CaptureOptions options = good;
  options.prompt_text.reset();
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.task = "niah:length=100";
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.prompt_text = "";
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.prompt_text = std::string(1025, 'a');
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.max_new_tokens = 1000;
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.layers = {0, 3};
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.device = "cuda:0";
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.device = "tpu";
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.output = "no/such/folder/t.h5";
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.prompt_text.reset();
  options.prompt_file = "no_such_file.txt";
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  EXPECT_FALSE(fs::exists("never.h5"));
  EXPECT_FALSE(fs::exists("never.h5.part"));
}

TEST(Capture, RefusesToOverwriteUnasked) {
  std::ofstream("mine.h5") << "precious";
  CaptureOptions options = tiny_options("mine.h5");
  options.force = false;
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  std::ifstream stream("mine.h5");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "precious");
  options.force = true;
  capture_tiny(options);
  EXPECT_TRUE(trace::TraceReader("mine.h5").info().complete);
}

TEST(Capture, MessagesAreChecked) {
  CaptureOptions options = tiny_options("messages.h5");
  options.prompt_text.reset();
  options.raw = false;
  options.messages_file = "messages.json";
  const auto with = [&](const std::string& content) {
    std::ofstream("messages.json") << content;
    return options;
  };
  for (const char* content :
       {"", "{}", "[]", "[1]", "[{\"role\": \"user\"}]",
        "[{\"role\": \"tool\", \"content\": \"x\"}]", "[{\"role\": \"user\", \"content\": 3}]"}) {
    EXPECT_EQ(failure_of(with(content)), ErrorKind::Input) << content;
  }
  capture_tiny(with(R"([{"role": "system", "content": "Be brief."},
                        {"role": "user", "content": "Hi <|im_end|>"}])"));
  const trace::TraceReader reader("messages.h5");
  std::string text;
  for (const std::string& token : reader.token_texts()) text += token;
  EXPECT_THAT(text,
              testing::StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
                                  "Hi <|im_end|><|im_end|>\n<|im_start|>assistant\n"));
  options.raw = true;
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
}

}  // namespace
}  // namespace kvloupe::capture
