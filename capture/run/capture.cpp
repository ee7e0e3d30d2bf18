// The course of a capture: check everything, load the model, estimate, run and record.
#include "capture/run/capture.h"

#include "capture/model/model.h"
#include "capture/model/model_file.h"
#include "capture/run/calibrate.h"
#include "capture/run/capture_run.h"
#include "capture/run/decode_from.h"
#include "capture/run/estimate.h"
#include "capture/run/memory_plan.h"
#include "capture/run/probe.h"
#include "capture/run/prompt_source.h"
#include "capture/run/recorded_method.h"
#include "capture/run/recorder.h"
#include "capture/run/resume.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/seconds_since.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/device/torch_device.h"
#include "core/selection/spec/method_files.h"
#include "core/trace/decoded_prompt.h"
#include "core/trace/trace_writer.h"
#include "core/trace/write/part_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// --- before the model is loaded
// --------------------------------------------------------------------

void check_numbers(const CaptureOptions& options) {
  if (options.chunk_size < 1) {
    throw usage_error(fmt::format("--chunk-size {} is out of range", options.chunk_size),
                      "a chunk has at least one token", "use a number such as 128");
  }
  if (options.max_new_tokens < 0) {
    throw usage_error(fmt::format("--max-new-tokens {} is out of range", options.max_new_tokens),
                      "a number of tokens is not negative", "use 0 to record the prompt alone");
  }
}

void check_drift(const CaptureOptions& options) {
  if (!options.store.has(trace::Part::Drift) || options.closed_loop) return;
  throw usage_error("--drift needs a closed loop",
                    "it says how far a closed loop is from the dense model",
                    "name a method by --closed-loop SPEC");
}

InputFiles inputs_of(const CaptureOptions& options) {
  InputFiles files = files_of_model(options.model);
  if (options.prompt_file) files.push_back(*options.prompt_file);
  if (options.messages_file) files.push_back(*options.messages_file);
  const auto add = [&](const selection::MethodSpec& spec) {
    for (const fs::path& file : selection::files_of(spec)) files.push_back(file);
  };
  std::for_each(options.methods.begin(), options.methods.end(), add);
  if (options.closed_loop) add(*options.closed_loop);
  return files;
}

void check_output(const CaptureOptions& options) {
  if (options.output.empty()) {
    if (options.estimate_only) return;
    throw usage_error("a capture needs a file to write", "no name was given",
                      "give one by -o T.h5");
  }
  if (options.resume) {
    trace::open_left_part(options.output, inputs_of(options), options.force);
  } else {
    trace::check_trace_file(options.output, inputs_of(options), options.force);
  }
}

// --- once the model is known
// -----------------------------------------------------------------------

std::vector<int> layers_to_record(const CaptureOptions& options, const trace::ModelInfo& model) {
  for (const int layer : options.layers)
    if (layer < 0 || layer >= model.num_layers)
      throw input_error(fmt::format("layer {} is not in the model", layer),
                        fmt::format("its layers are 0 to {}", model.num_layers - 1),
                        "name layers of that range");
  if (!options.layers.empty()) return options.layers;
  return all_layers(model);
}

RecorderOptions recorder_options(const CaptureOptions& options, const trace::ModelInfo& model,
                                 const selection::BasisMaker& bases) {
  // An estimate makes no basis: the method is counted without the one that the capture will make.
  const auto recorded = [&](const selection::MethodSpec& spec, const std::vector<int>& layers) {
    if (options.estimate_only && bases.is_due(spec, model))
      return RecordedMethod{spec.resolved(selection::shape_of(model)), nullptr};
    return recorded_method(spec, model, layers);
  };
  RecorderOptions result;
  result.dtype = options.dtype;
  result.layers = layers_to_record(options, model);
  result.store = options.store;
  // A method that cannot serve this model says so now, before a file is begun.
  if (options.closed_loop) result.closed_loop = recorded(*options.closed_loop, all_layers(model));
  for (const selection::MethodSpec& spec : options.methods)
    result.open_loop.push_back(recorded(spec, result.layers));
  return result;
}

// Their progress is none of the capture's.
void make_bases(const CaptureOptions& options, const trace::ModelInfo& model,
                const selection::BasisMaker& bases, const CancelToken& cancel) {
  const WorkContext quiet{cancel, {}};
  for (const selection::MethodSpec& spec : options.methods) bases.make(spec, model, quiet);
  if (options.closed_loop) bases.make(*options.closed_loop, model, quiet);
}

bool needs_probe(const CaptureOptions& options) {
  const auto needs = [](const selection::MethodSpec& spec) { return spec.traits().needs_probe; };
  return options.store.has(trace::Part::Probe) ||
         (options.closed_loop && needs(*options.closed_loop)) ||
         std::any_of(options.methods.begin(), options.methods.end(), needs);
}

void check_disk(const CaptureEstimate& estimate, const fs::path& output) {
  std::error_code code;
  const fs::path folder = folder_of(output_target(output));
  const fs::space_info space = fs::space(folder, code);
  if (code || space.available >= estimate.bytes) return;
  throw input_error(
      "the disk is too full for this capture",
      fmt::format("it takes about {} and {} are free in {}", format_bytes(estimate.bytes),
                  format_bytes(space.available), folder.string()),
      "free some space, record fewer --layers or write elsewhere");
}

trace::CaptureRequest request_of(const CaptureOptions& options, const RecorderOptions& recorder,
                                 const TaskPrompt& task) {
  trace::CaptureRequest request;
  if (options.model == kBundledModel) request.model = options.model;
  request.chunk_size = options.chunk_size;
  request.max_new_tokens = options.max_new_tokens;
  request.device = device::open_device(options.device).id;
  request.store = recorder.store;
  request.answers = task.answers;
  request.prompt = task.prompt.ids;
  return request;
}

trace::TraceHeader header_of(const CaptureOptions& options, const RecorderOptions& recorder,
                             const LoadedModel& model, const TaskPrompt& task, const Probe& probe,
                             const std::vector<trace::ChunkInfo>& plan) {
  const Prompt& prompt = task.prompt;
  trace::TraceHeader header;
  header.model = model.info;
  header.mode = options.closed_loop ? trace::LoopMode::ClosedLoop : trace::LoopMode::OpenLoop;
  header.dtype = options.dtype;
  header.layers = recorder.layers;
  header.max_tokens = plan.back().end();
  header.max_chunks = static_cast<std::int32_t>(plan.size());
  header.store = recorder.store;
  header.probe_text = probe.text;
  header.probe_len = recorder.probe_len;
  header.probe_ids = probe.ids;
  header.runs = runs_of(recorder, model.info, prompt.ids);
  header.spans = prompt.spans;
  header.request = request_of(options, recorder, task);
  return header;
}

void warn_of_dropped_bytes(const Tokenizer& tokenizer) {
  if (tokenizer.dropped_bytes() == 0) return;
  log::warning("{} bytes of the prompt have no token in this model and were left out",
               format_count(tokenizer.dropped_bytes()));
}

// A vocabulary may name control tokens that the model has no row for (model.cpp).
void require_rows_of(const LoadedModel& model, const std::vector<std::int32_t>& prompt) {
  for (const std::int32_t id : prompt)
    if (id < 0 || id >= model.vocab_size)
      throw input_error("the model cannot read this prompt",
                        fmt::format("its embedding has no row for the token {}",
                                    printable(model.tokenizer.decode_bytes(id))),
                        "leave it out of the prompt");
}

// The tokens that are prefilled; those that are decoded become a span of the prompt.
std::int32_t prefill_of(const CaptureOptions& options, Prompt& prompt) {
  const auto tokens = static_cast<std::int32_t>(prompt.ids.size());
  if (options.decode_from.empty()) return tokens;
  const std::int32_t prefilled = prefill_tokens("--decode-from", options.decode_from, prompt);
  prompt.spans.push_back({trace::kDecodedPrompt, prefilled, tokens});
  return prefilled;
}

struct Checked {
  c10::Device device;
  PromptSource source;
};

// What the arguments and the file system say, before the seconds that a model takes to load.
Checked check_before_loading(const CaptureOptions& options) {
  check_numbers(options);
  check_drift(options);
  const c10::Device device = device_for_model(options.device);
  check_output(options);
  return {device, read_prompt_source(options)};
}

CaptureReport capture_with(const CaptureOptions& options, const PromptSource& source,
                           const std::shared_ptr<const LoadedModel>& model,
                           const std::function<void(const CaptureEstimate&)>& on_estimate,
                           const WorkContext& context) {
  const selection::BasisMaker bases = basis_maker();
  if (!options.estimate_only) make_bases(options, model->info, bases, context.cancel);
  RecorderOptions recording = recorder_options(options, model->info, bases);
  const Probe probe = needs_probe(options) ? make_probe(model->tokenizer) : Probe{};
  recording.probe_len = static_cast<int>(probe.ids.size());
  recording.store.set(trace::Part::Probe, recording.probe_len > 0);
  recording.store.set(trace::Part::Top, options.max_new_tokens > 0);
  const TaskRequest request{
      model->tokenizer, options.raw,
      model->context_length - std::max(options.max_new_tokens, recording.probe_len), options.seed};
  TaskPrompt task = make_prompt(source, request);
  require_rows_of(*model, task.prompt.ids);
  add_named_spans(model->tokenizer, options.spans, task.prompt.ids, task.prompt.spans);
  const auto prompt_len = static_cast<std::int32_t>(task.prompt.ids.size());
  recording.prefill_len = prefill_of(options, task.prompt);
  if (task.wants_losses) recording.store.set(trace::Part::Loss);
  recording.store = trace::with_needed(recording.store);
  warn_of_dropped_bytes(model->tokenizer);

  const std::int64_t decoded_prompt = prompt_len - recording.prefill_len;
  const auto plan =
      plan_chunks(recording.prefill_len, decoded_prompt + std::max(0, options.max_new_tokens - 1),
                  options.chunk_size);
  if (plan.size() >= trace::kAlive) {
    throw input_error(fmt::format("a trace cannot hold {} chunks",
                                  format_count(static_cast<std::int64_t>(plan.size()))),
                      fmt::format("it has room for {}", format_count(trace::kAlive - 1)),
                      "use a larger --chunk-size, a later --decode-from or fewer new tokens");
  }
  if (options.mass_if_small &&
      4 * mass_bytes(model->info, recording, plan) <= qkv_bytes(model->info, recording, plan))
    recording.store.set(trace::Part::Mass);
  // The CPU's memory may be swapped.
  if (const c10::Device device = model->device(); device.is_cuda())
    require_memory(plan_memory(*model, recording, plan), options.device,
                   device::memory_bytes(device));
  CaptureEstimate estimate = estimate_capture(*model, recording, plan);
  estimate.prompt_tokens = prompt_len;
  estimate.prefill_tokens = recording.prefill_len;
  estimate.num_layers = model->info.num_layers;
  estimate.spans = task.prompt.spans;
  if (!options.output.empty()) check_disk(estimate, options.output);
  if (on_estimate) on_estimate(estimate);
  if (options.estimate_only) return {};
  context.cancel.throw_if_cancelled();

  const trace::TraceHeader header = header_of(options, recording, *model, task, probe, plan);
  std::optional<trace::TraceReader> left;
  const fs::path part = trace::part_path(output_target(options.output));
  if (options.resume) require_same_request(header, trace::TraceReader(part));
  trace::TraceWriter writer(options.output, header, options.force,
                            options.resume ? trace::Begin::Resumed : trace::Begin::Anew);
  if (options.resume) {
    left.emplace(part);
    log::info("going on after {} of {} chunks", left->info().chunks.size(), plan.size());
  }
  Recorder recorder(&writer, model->info, recording);
  Decoder decoder(model,
                  {cache_tokens(plan, prompt_len, probe), recording.dtype == trace::DType::F16});
  CaptureRun run(model, decoder, {std::move(task.prompt.ids), plan, options.max_new_tokens, {}, {}},
                 recording, probe, recorder, left ? &*left : nullptr);

  CaptureReport report;
  const auto begin = Clock::now();
  report.complete = run.run(context);
  recorder.finish();
  const std::vector<std::int32_t> dense_answer = run.dense_answer(context.cancel);
  if (recording.store.has(trace::Part::Drift)) {
    std::vector<std::string> texts;
    for (const std::int32_t id : dense_answer) texts.push_back(model->tokenizer.decode_bytes(id));
    writer.write_dense_answer(dense_answer, texts);
  }
  const bool timed = device::parse_device(options.device).kind != device::DeviceKind::Sim;
  if (report.complete && timed) report.speed = run.speed();
  if (report.speed) writer.write_speed(*report.speed);
  writer.finish(run.generated(), report.complete);
  report.total_seconds = seconds_since(begin);

  std::error_code code;
  report.bytes = fs::file_size(options.output, code);
  report.tokens = run.tokens();
  report.decoded = std::max<std::int64_t>(0, report.tokens - prompt_len);
  report.chunks = run.chunks_done();
  report.answer = run.answer();
  report.dense_answer = text_of_answer(model->tokenizer, dense_answer);
  report.mean_loss = run.mean_loss();
  report.mean_dense_loss = run.mean_dense_loss();
  report.expected_answers = task.answers;
  report.marked_cells = recorder.marked_cells();
  report.times = recorder.times();
  if (report.marked_cells > 0) {
    log::warning("{} cells (chunk, layer) hold a NaN or Inf in q, k or v; {}", report.marked_cells,
                 options.dtype == trace::DType::F16 ? "--dtype f32 has a wider range"
                                                    : "the model itself computes them");
  }
  return report;
}

// A failure that a signal told of (the file has reached its largest size), or that came with one,
// ends as the signal does.
template <typename Body>
CaptureReport unless_stopped(const WorkContext& context, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input || !context.cancel.cancelled()) throw;
    throw Error(ErrorKind::Cancelled, "the capture was stopped", error.why(),
                "remove the cause and go on by --resume where chunks were done");
  }
}

}  // namespace

CaptureReport run_capture(const CaptureOptions& options,
                          const std::function<void(const CaptureEstimate&)>& on_estimate,
                          const WorkContext& context) {
  const Checked checked = check_before_loading(options);
  const std::shared_ptr<const LoadedModel> model =
      load_model(options.model, options.compute, checked.device);
  context.cancel.throw_if_cancelled();
  return unless_stopped(
      context, [&] { return capture_with(options, checked.source, model, on_estimate, context); });
}

CaptureReport capture_with(std::shared_ptr<const LoadedModel> model, const CaptureOptions& options,
                           const std::function<void(const CaptureEstimate&)>& on_estimate,
                           const WorkContext& context) {
  const Checked checked = check_before_loading(options);
  KVLOUPE_CHECK(model->device() == checked.device);
  return unless_stopped(
      context, [&] { return capture_with(options, checked.source, model, on_estimate, context); });
}

}  // namespace kvloupe::capture
