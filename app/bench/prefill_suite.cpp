// The suite `prefill`: tokens a second of the default model's prefill, and what its linear layers, and
// those of a model of a thousand million parameters, reach of a plain matrix product of Torch in
// their type (device.h); ours are packed, which can be more.
#include "app/bench/bench.h"
#include "app/bench/scratch_folder.h"
#include "capture/engine.h"
#include "capture/run/linear_bench.h"
#include "capture/run/prefill_bench.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/measure/timing.h"

#include <fmt/format.h>

#include <array>

namespace kvloupe::bench {
namespace {

constexpr std::array<std::int64_t, 2> kPrefillLengths = {1024, 4096};
constexpr int kPrefillRepetitions = 3;

Row prefill_row(std::int64_t tokens, const WorkContext& context) {
  const ScratchFolder folder;
  capture::PrefillBenchOptions options;
  options.tokens = tokens;
  options.repetitions = kPrefillRepetitions;
  options.folder = folder.path();
  const capture::PrefillBench bench = capture_engine().bench_prefill(options, context);
  Row row{.id = fmt::format("prefill_{}k", tokens / 1024),
          .meaning = "prefill of smollm2, dense, nothing recorded",
          .unit = "tokens/s"};
  row.time = measure::stats_of(bench.plain_ms);
  const auto prompt = static_cast<double>(bench.tokens);
  row.value = 1000 * prompt / row.time.median_ms;
  const measure::LatencyStats recorded = measure::stats_of(bench.recorded_ms);
  const measure::LatencyStats answered = measure::stats_of(bench.answered_ms);
  row.numbers = {{"tokens", prompt},
                 {"recorded_tokens_per_s", 1000 * prompt / recorded.median_ms},
                 {"answered_tokens_per_s", 1000 * prompt / answered.median_ms}};
  row.details = {{"recorded", stats_text(recorded)}, {"answered", stats_text(answered)}};
  return row;
}

struct LinearCase {
  const char* id;
  const char* what;
  capture::LinearShape shape;
  ComputeType type;
};
// The default model whole; of the other, the shape of Llama 3.2 1B, two layers of 16.
constexpr capture::LinearShape kSmollm2 = {
    .layers = 30, .hidden = 576, .ffn = 1536, .q_heads = 9, .kv_heads = 3, .head_dim = 64};
constexpr capture::LinearShape kLlama1B = {
    .layers = 2, .hidden = 2048, .ffn = 8192, .q_heads = 32, .kv_heads = 8, .head_dim = 64};
constexpr std::array<LinearCase, 4> kLinear = {{
    {"linear_smollm2", "smollm2", kSmollm2, ComputeType::Fp32},
    {"linear_1b", "a llama of 1B", kLlama1B, ComputeType::Fp32},
    {"linear_smollm2_bf16", "smollm2 in bf16", kSmollm2, ComputeType::Bf16},
    {"linear_1b_bf16", "a llama of 1B in bf16", kLlama1B, ComputeType::Bf16},
}};
constexpr std::int64_t kLinearTokens = 4096;

Row linear_row(const LinearCase& what, const WorkContext& context) {
  Row row{
      .id = what.id,
      .meaning = fmt::format("linear layers of {} over {} tokens, of Torch's plain matrix product",
                             what.what, format_count(kLinearTokens)),
      .unit = "%",
      .threshold = 60,
      .goal = Goal::AtLeast};
  if (!engine().multiplies(what.type)) {
    row.reason = "this processor does not multiply matrices of bf16";
    return row;
  }
  const double peak = engine().measure_peak_flops(what.type);
  const capture::LinearBench bench = capture_engine().bench_linear(
      what.shape, what.type, kLinearTokens, kPrefillRepetitions, context);
  row.time = measure::stats_of(bench.ms);
  const double flops = 1000 * bench.flops / row.time.median_ms;
  row.value = 100 * flops / peak;
  row.numbers = {{"gflops", flops / 1e9}, {"peak_gflops", peak / 1e9}};
  return row;
}

}  // namespace

void run_prefill_suite(SuiteRun& run) {
  const std::size_t steps = kPrefillLengths.size() + kLinear.size();
  std::size_t done = 0;
  for (const std::int64_t tokens : kPrefillLengths) {
    run.step(done++, steps, fmt::format("prefill of {} tokens", format_count(tokens)));
    run.add(prefill_row(tokens, run.quiet()));
  }
  for (const LinearCase& what : kLinear) {
    run.step(done++, steps, fmt::format("linear layers of {}", what.what));
    run.add(linear_row(what, run.quiet()));
  }
  run.step(steps, steps, "done");
}

}  // namespace kvloupe::bench
