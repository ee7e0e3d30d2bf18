#include "capture/run/prefill_bench.h"

#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "capture/run/estimate.h"
#include "capture/run/prompt_source.h"
#include "capture/run/request_run.h"
#include "core/base/error.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kvloupe::capture {
namespace {

using Clock = std::chrono::steady_clock;

CaptureOptions capture_options(const PrefillBenchOptions& options) {
  CaptureOptions capture;
  capture.model = "smollm2";
  capture.task = fmt::format("niah:length={},depth=0.5,seed=1", options.tokens);
  capture.dtype = trace::DType::F16;
  capture.store.set(trace::Part::Mass);
  capture.force = true;
  capture.output = options.folder / "prefill_bench.h5";
  return capture;
}

std::vector<std::int32_t> prompt_ids(const CaptureOptions& options, const LoadedModel& model) {
  const TaskRequest request{model.tokenizer, options.raw, model.context_length, options.seed};
  return make_prompt(read_prompt_source(options), request).prompt.ids;
}

double plain_prefill_ms(const std::shared_ptr<const LoadedModel>& model,
                        const std::vector<std::int32_t>& ids, int chunk_size,
                        const WorkContext& context) {
  // The same rounding of q, k and v as in a capture: the sides differ in recording alone.
  Decoder decoder(model, {static_cast<std::int64_t>(ids.size()), true});
  DenseAttention hook;
  const auto begin = Clock::now();
  for (const trace::ChunkInfo& chunk :
       plan_chunks(static_cast<std::int64_t>(ids.size()), 0, chunk_size)) {
    context.cancel.throw_if_cancelled();
    decoder.forward(std::span(ids).subspan(chunk.begin, chunk.length), hook, false);
  }
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// From the line of the request to that of its answer.
double answered_prefill_ms(const std::shared_ptr<const LoadedModel>& model,
                           const std::vector<std::int32_t>& ids, int chunk_size,
                           const WorkContext& context) {
  RequestOptions options;
  options.chunk_size = chunk_size;
  options.dtype = trace::DType::F16;
  const std::string line =
      fmt::format(R"({{"id": 0, "tokens": [{}], "max_new_tokens": 1}})", fmt::join(ids, ", "));
  int asked = 0;
  std::string problem;
  RequestLines lines;
  lines.next = [&] { return asked++ == 0 ? std::optional(line) : std::nullopt; };
  lines.answer = [&](const std::string& answer, bool is_error) {
    if (is_error) problem = answer;
  };
  const auto begin = Clock::now();
  answer_requests(model, options, lines, {context.cancel, {}});
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  if (!problem.empty())
    throw input_error("a request could not be timed", problem, "see kvloupe run");
  return ms;
}

}  // namespace

PrefillBench bench_prefill(const PrefillBenchOptions& options, const WorkContext& context) {
  const CaptureOptions capture = capture_options(options);
  const std::shared_ptr<const LoadedModel> model = load_model(capture.model);
  const std::vector<std::int32_t> ids = prompt_ids(capture, *model);
  if (!options.ids_file.empty()) {
    std::ofstream file(options.ids_file);
    for (const std::int32_t id : ids) file << id << '\n';
  }
  PrefillBench bench;
  bench.tokens = static_cast<std::int64_t>(ids.size());
  for (int i = 0; i < options.warm_up + options.repetitions; ++i) {
    context.report(i, options.warm_up + options.repetitions, "prefills");
    double plain = 0, answered = 0;
    if (options.want_plain) {
      plain = plain_prefill_ms(model, ids, capture.chunk_size, context);
      answered = answered_prefill_ms(model, ids, capture.chunk_size, context);
    }
    context.cancel.throw_if_cancelled();
    // Without progress of its own: that would count tokens.
    const CaptureReport report = capture_with(model, capture, {}, {context.cancel, {}});
    std::error_code code;
    std::filesystem::remove(capture.output, code);
    context.cancel.throw_if_cancelled();
    if (i < options.warm_up) continue;
    if (options.want_plain) {
      bench.plain_ms.push_back(plain);
      bench.answered_ms.push_back(answered);
    }
    bench.recorded_ms.push_back(report.total_seconds * 1000);
  }
  return bench;
}

}  // namespace kvloupe::capture
