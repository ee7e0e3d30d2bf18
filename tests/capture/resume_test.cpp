// A capture that was cut short and goes on leaves the trace that an uninterrupted one leaves.
#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "core/base/error.h"
#include "core/trace/trace_reader.h"
#include "tests/capture/capture_fixture.h"
#include "tests/capture/method_specs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using selection::MethodSpec;

CaptureReport resume(const fs::path& output) {
  CaptureOptions options = options_left(output);
  options.force = true;
  return capture_tiny(options);
}

auto numbers_of(const trace::RunLayer& run) {
  return std::tie(run.offsets, run.positions, run.flags, run.forced_offsets, run.forced_bounds,
                  run.evict_chunk, run.lane_counts, run.block_mask, run.block_forced,
                  run.block_abstains, run.table_indptr, run.table_indices);
}

void expect_same_runs(const trace::TraceReader& a, const trace::TraceReader& b) {
  ASSERT_EQ(a.info().runs.size(), b.info().runs.size());
  for (const trace::RunInfo& run : a.info().runs) {
    EXPECT_EQ(run.method, b.info().runs[static_cast<std::size_t>(run.id)].method);
    for (const int layer : a.info().layers) {
      const trace::RunLayer x = a.read_run_layer(run.id, layer),
                            y = b.read_run_layer(run.id, layer);
      EXPECT_EQ(numbers_of(x), numbers_of(y)) << run.method;
    }
  }
}

void expect_same_drift(const trace::Drift& a, const trace::Drift& b) {
  EXPECT_EQ(a.dense_nll, b.dense_nll);
  EXPECT_EQ(a.kl, b.kl);
  EXPECT_EQ(a.agrees, b.agrees);
  EXPECT_EQ(a.q, b.q);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.dense_top.log_probs, b.dense_top.log_probs);
  EXPECT_EQ(a.dense_answer, b.dense_answer);
}

void expect_same_trace(const std::string& left, const std::string& right) {
  EXPECT_EQ(trace::validate_trace(right), std::vector<std::string>{});
  const trace::TraceReader a(left), b(right);
  EXPECT_TRUE(b.info().complete);
  EXPECT_EQ(a.token_ids(), b.token_ids());
  EXPECT_EQ(a.token_texts(), b.token_texts());
  EXPECT_EQ(a.info().generated, b.info().generated);
  EXPECT_EQ(a.info().layers, b.info().layers);
  EXPECT_EQ(a.read<float>(trace::Field::Nll), b.read<float>(trace::Field::Nll));
  EXPECT_EQ(a.read_top_tokens().ids, b.read_top_tokens().ids);
  EXPECT_EQ(a.read_top_tokens().log_probs, b.read_top_tokens().log_probs);
  EXPECT_EQ(a.info().has_drift, b.info().has_drift);
  if (a.info().has_drift) expect_same_drift(a.read_drift(), b.read_drift());
  for (const int layer : a.info().layers) {
    const StoredLayer x = read_layer(a, layer), y = read_layer(b, layer);
    EXPECT_TRUE(at::equal(x.q, y.q) && at::equal(x.k, y.k) && at::equal(x.v, y.v)) << layer;
    std::vector<float> lse(static_cast<std::size_t>(a.info().num_tokens)), other = lse;
    for (int head = 0; head < a.info().model.num_q_heads; ++head) {
      a.read_lse(layer, head, 0, a.info().num_tokens, lse.data());
      b.read_lse(layer, head, 0, a.info().num_tokens, other.data());
      EXPECT_EQ(lse, other);
    }
    for (int chunk = 0; chunk < static_cast<int>(a.info().chunks.size()); ++chunk) {
      EXPECT_EQ(a.read_key_mass(layer, chunk), b.read_key_mass(layer, chunk));
      EXPECT_EQ(a.read_probe(layer, chunk), b.read_probe(layer, chunk));
    }
  }
  expect_same_runs(a, b);
}

// In the middle of the prompt, at its end, among the new tokens.
constexpr std::int64_t kCuts[] = {64, 192, 230, 233};

TEST(Resume, EveryMethodGoesOnAsIfNothingHadHappened) {
  CaptureOptions options = tiny_options("whole.h5");
  for (const std::string& spec : all_method_specs())
    options.methods.push_back(MethodSpec::parse(spec));
  const CaptureReport report = capture_tiny(options);
  const auto speed = trace::TraceReader("whole.h5").info().speed;
  ASSERT_TRUE(speed && report.speed);
  EXPECT_FALSE(speed->dense);
  EXPECT_GT(speed->model.decode_tokens_per_s, 0);
  EXPECT_LE(speed->model.ttft_ms, 1000 * report.total_seconds);
  EXPECT_EQ(speed->model.prefill_tokens_per_s, report.speed->model.prefill_tokens_per_s);
  options.output = "cut.h5";
  for (const std::int64_t tokens : kCuts) {
    cut_short(options, tokens);
    EXPECT_TRUE(resume("cut.h5").complete);
    EXPECT_FALSE(fs::exists("cut.h5.part"));
    EXPECT_FALSE(fs::exists("cut.h5.part.resumed"));
    expect_same_trace("whole.h5", "cut.h5");
    EXPECT_FALSE(trace::TraceReader("cut.h5").info().speed);
  }
}

TEST(Resume, ClosedLoopsAttendToWhatTheyWouldHave) {
  for (const char* spec :
       {"quoka:budget_tokens=40", "h2o:budget_tokens=40", "infinipot:budget_tokens=40",
        "snapkv:budget_tokens=40", "xattention:lowering=union,block_size=16,stride=4"}) {
    CaptureOptions options = tiny_options("whole.h5");
    options.closed_loop = MethodSpec::parse(spec);
    options.dtype = trace::DType::F32;
    options.store.set(trace::Part::Drift);
    const CaptureReport whole = capture_tiny(options);
    ASSERT_TRUE(whole.mean_loss && whole.mean_dense_loss);
    options.output = "cut.h5";
    for (const std::int64_t tokens : kCuts) {
      cut_short(options, tokens);
      const CaptureReport resumed = resume("cut.h5");
      // Of the whole text, not of what was left to run.
      EXPECT_NEAR(resumed.mean_loss.value(), *whole.mean_loss, 1e-6);
      EXPECT_NEAR(resumed.mean_dense_loss.value(), *whole.mean_dense_loss, 1e-6);
      expect_same_trace("whole.h5", "cut.h5");
    }
  }
}

// Where the file lacks what the model's cache held, the chunks done are run again.
TEST(Resume, RunsAgainWhereKeysAreMissing) {
  CaptureOptions options = tiny_options("whole.h5");
  options.methods = {MethodSpec::parse("h2o:budget_tokens=40"),
                     MethodSpec::parse("infinipot:budget_tokens=40")};
  options.layers = {1, 2};
  capture_tiny(options);
  options.output = "cut.h5";
  for (const std::int64_t tokens : kCuts) {
    cut_short(options, tokens);
    resume("cut.h5");
    expect_same_trace("whole.h5", "cut.h5");
  }
}

std::string refusal(const CaptureOptions& options,
                    std::shared_ptr<const LoadedModel> model = make_tiny_model()) {
  try {
    capture_tiny(options, {}, std::move(model));
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return error.what();
  }
  return "";
}

TEST(Resume, AnotherRequestIsRefusedAndTheChunksStay) {
  CaptureOptions begun = tiny_options("asked.h5");
  begun.methods = {MethodSpec::parse("h2o:budget_tokens=40")};
  begun.force = false;
  cut_short(begun, 128);
  begun.resume = true;
  const auto expect_refused = [](const CaptureOptions& options, const std::string& word) {
    const std::string said = refusal(options);
    EXPECT_NE(said.find(word), std::string::npos) << word << ": " << said;
    EXPECT_EQ(trace::TraceReader("asked.h5.part").info().num_tokens, 128);
  };
  CaptureOptions options = begun;
  options.chunk_size = 32;
  expect_refused(options, "--chunk-size 64, not 32");
  options = begun;
  (*options.prompt_text)[100] = 'X';
  expect_refused(options, "prompt");
  options = begun;
  options.max_new_tokens = 7;
  expect_refused(options, "--max-new-tokens 6, not 7");
  options = begun;
  options.dtype = trace::DType::F32;
  expect_refused(options, "--dtype f16, not f32");
  options = begun;
  options.layers = {0, 1};
  expect_refused(options, "--layers");
  options = begun;
  options.store.set(trace::Part::Lse, false);
  expect_refused(options, "--store");
  options = begun;
  options.methods = {MethodSpec::parse("h2o:budget_tokens=41")};
  expect_refused(options, "the methods");
  EXPECT_NE(refusal(begun, make_tiny_model({.compute = ComputeType::Bf16}))
                .find("--compute fp32, not bf16"),
            std::string::npos);
  TinyShape other;
  other.seed = 2;  // other weights under the same hash: what is computed differs
  EXPECT_NE(refusal(begun, make_tiny_model(other)).find("is not what was recorded"),
            std::string::npos);
  EXPECT_EQ(refusal(begun), "");
  EXPECT_TRUE(trace::TraceReader("asked.h5").info().complete);
  fs::remove("asked.h5");
}

TEST(Resume, WithoutAPartThereIsNothingToResume) {
  CaptureOptions options = tiny_options("never.h5");
  options.resume = true;
  EXPECT_NE(refusal(options).find("nothing to resume"), std::string::npos);
  EXPECT_THROW(options_left("never.h5"), Error);
  std::ofstream("never.h5.part") << "no trace";
  EXPECT_THROW(options_left("never.h5"), Error);
  EXPECT_TRUE(fs::exists("never.h5.part"));
  fs::remove("never.h5.part");
}

}  // namespace
}  // namespace kvloupe::capture
