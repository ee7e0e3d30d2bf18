// The course of a capture: check everything, load the model, estimate, run and record.
#include "capture/run/capture.h"

#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/model/model_file.h"
#include "capture/run/calibrate.h"
#include "capture/run/estimate.h"
#include "capture/run/probe.h"
#include "capture/run/prompt_source.h"
#include "capture/run/recorder.h"
#include "capture/run/resume.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/selection/basis.h"
#include "core/selection/method_files.h"
#include "core/selection/selector.h"
#include "core/trace/part_file.h"
#include "core/trace/trace_writer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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
  if (options.layers &&
      (options.layers->first < 0 || options.layers->second < options.layers->first)) {
    throw usage_error(
        fmt::format("--layers {}-{} is not a range", options.layers->first, options.layers->second),
        "the first layer is 0 and ranges ascend", "write it as in --layers 0-11");
  }
}

void check_device(const std::string& device) {
  if (device == "cpu") return;
  const bool cuda = device.starts_with("cuda:") && parse_int(device.substr(5)).value_or(-1) >= 0;
  if (!cuda) {
    throw usage_error(fmt::format("'{}' is not a device", device),
                      "devices are cpu and cuda:N with N from 0 on", "use --device cpu");
  }
  throw input_error(fmt::format("cannot capture on {}", device),
                    "this version runs models on the CPU only", "use --device cpu");
}

InputFiles inputs_of(const CaptureOptions& options) {
  InputFiles files = {file_of_model(options.model)};
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

std::vector<int> layers_to_record(const CaptureOptions& options, int num_layers) {
  const auto [first, last] = options.layers.value_or(std::pair(0, num_layers - 1));
  if (last >= num_layers) {
    throw input_error(fmt::format("layer {} is not in the model", last),
                      fmt::format("its layers are 0 to {}", num_layers - 1),
                      "name layers of that range");
  }
  std::vector<int> layers;
  for (int layer = first; layer <= last; ++layer) layers.push_back(layer);
  return layers;
}

// The calibrated basis that a method needs, for the layers that it will select in; null without.
selection::BasisPtr basis_of(const selection::MethodSpec& spec, const trace::ModelInfo& model,
                             const std::vector<int>& layers) {
  if (!spec.traits().basis) return nullptr;
  const selection::BasisPtr basis = selection::load_basis(spec, model);
  for (const int layer : layers) {
    if (basis->layers.contains(layer)) continue;
    throw input_error(
        fmt::format("{} cannot use the basis {}", spec.id(), spec.traits().basis->where),
        fmt::format("it has no directions for layer {}, in which the method selects", layer),
        "use a basis of all layers, such as kvloupe calibrate makes, or record other --layers");
  }
  return basis;
}

RecorderOptions recorder_options(const CaptureOptions& options, const trace::ModelInfo& model) {
  const selection::ModelShape shape = selection::shape_of(model);
  RecorderOptions result;
  result.dtype = options.dtype;
  result.layers = layers_to_record(options, model.num_layers);
  result.store_qkv = options.store_qkv;
  result.store_lse = options.store_lse;
  // A method that cannot serve this model says so now, before a file is begun.
  const auto recorded = [&](const selection::MethodSpec& given, const std::vector<int>& layers) {
    RecordedMethod method{given.resolved(shape), nullptr};
    method.basis = basis_of(method.spec, model, layers);
    selection::make_selector(method.spec, shape, method.basis);
    return method;
  };
  if (options.closed_loop) {
    std::vector<int> all_layers(static_cast<std::size_t>(model.num_layers));
    std::iota(all_layers.begin(), all_layers.end(), 0);
    result.closed_loop = recorded(*options.closed_loop, all_layers);
  }
  for (const selection::MethodSpec& spec : options.methods) {
    result.open_loop.push_back(recorded(spec, result.layers));
  }
  return result;
}

bool needs_probe(const CaptureOptions& options) {
  const auto needs = [](const selection::MethodSpec& spec) { return spec.traits().needs_probe; };
  return options.store_probe || (options.closed_loop && needs(*options.closed_loop)) ||
         std::any_of(options.methods.begin(), options.methods.end(), needs);
}

void check_disk(const CaptureEstimate& estimate, const fs::path& output) {
  std::error_code code;
  const fs::path folder = folder_of(output);
  const fs::space_info space = fs::space(folder, code);
  if (code || space.available >= estimate.bytes) return;
  throw input_error(
      "the disk is too full for this capture",
      fmt::format("it takes about {} and {} are free in {}", format_bytes(estimate.bytes),
                  format_bytes(space.available), folder.string()),
      "free some space, record fewer --layers or write elsewhere");
}

std::int32_t greedy_token(const at::Tensor& logits) {
  const at::Tensor row = logits.contiguous();
  const float* values = row.const_data_ptr<float>();
  return static_cast<std::int32_t>(std::max_element(values, values + row.numel()) - values);
}

// Feeds the planned chunks and samples greedily after the prompt.
class CaptureRun {
 public:
  CaptureRun(std::shared_ptr<const LoadedModel> model, const CaptureOptions& options,
             std::vector<std::int32_t> prompt, const std::vector<trace::ChunkInfo>& plan,
             const Probe& probe, Recorder& recorder, const trace::TraceReader* left)
      : model_(model),
        max_new_tokens_(options.max_new_tokens),
        ids_(std::move(prompt)),
        plan_(plan),
        probe_(probe),
        recorder_(recorder),
        decoder_(std::move(model), {cache_size(), options.dtype == trace::DType::F16}),
        left_(left) {
    if (left_ == nullptr) return;
    const std::vector<std::int32_t> fed = left_->token_ids();
    if (fed.size() > ids_.size()) {
      generated_.assign(fed.begin() + static_cast<std::ptrdiff_t>(ids_.size()), fed.end());
      ids_.insert(ids_.end(), generated_.begin(), generated_.end());
    }
    if (probe_.ids.empty()) return;
    left_novelty_ = left_->read_novelty();
  }

  // Returns false when it was cancelled before the end.
  bool run(const WorkContext& context) {
    if (left_ != nullptr) chunks_done_ = restore(*left_, decoder_, recorder_);
    const std::int64_t restored = decoder_.length();
    const auto begin = Clock::now();
    while (chunks_done_ < static_cast<int>(plan_.size())) {
      const trace::ChunkInfo& chunk = plan_[static_cast<std::size_t>(chunks_done_)];
      if (static_cast<std::int64_t>(ids_.size()) < chunk.end()) break;  // the answer has ended
      feed(chunk);
      const double seconds = seconds_since(begin);
      if (chunk.phase == trace::Phase::Prefill) prefill_seconds_ = seconds;
      const auto tokens = static_cast<double>(chunk.end() - restored);
      context.report(chunk.end(), plan_.back().end(),
                     fmt::format("{:.0f} tokens/s", tokens / std::max(1e-9, seconds)));
      if (chunks_done_ < static_cast<int>(plan_.size()) && context.cancel.cancelled()) return false;
    }
    return true;
  }

  const std::vector<std::int32_t>& generated() const { return generated_; }
  std::int64_t tokens() const { return decoder_.length(); }
  int chunks_done() const { return chunks_done_; }
  double prefill_seconds() const { return prefill_seconds_; }

  std::string answer() const {
    std::vector<std::int32_t> ids = generated_;
    if (!ids.empty() && ids.back() == model_->tokenizer.eos()) ids.pop_back();
    return model_->tokenizer.decode(ids);
  }

 private:
  void feed(const trace::ChunkInfo& chunk) {
    const std::span<const std::int32_t> ids(ids_.data() + chunk.begin,
                                            static_cast<std::size_t>(chunk.length));
    recorder_.begin_chunk(chunk, stands_in_trace() ? left_ : nullptr);
    const bool prompt_done = chunk.end() == static_cast<std::int64_t>(ids_.size());
    const bool wants_token = prompt_done && static_cast<int>(generated_.size()) < max_new_tokens_;
    const at::Tensor logits =
        probe_.ids.empty() ? decoder_.forward(ids, recorder_, wants_token) : probe(chunk, ids);
    std::vector<std::string> texts;
    for (const std::int32_t id : ids) texts.push_back(model_->tokenizer.decode_bytes(id));
    recorder_.end_chunk({ids.begin(), ids.end()}, std::move(texts));
    ++chunks_done_;
    if (wants_token) sample(logits);
  }

  // The chunk, the novelty of its tokens and, after prefill, the probe. Returns the chunk's logits.
  at::Tensor probe(const trace::ChunkInfo& chunk, std::span<const std::int32_t> ids) {
    std::vector<float> novelty;
    at::Tensor logits = decoder_.forward(ids, recorder_, true, &novelty);
    const float first = last_logits_.defined() ? novelty_of(last_logits_, ids.front())
                                               : std::numeric_limits<float>::infinity();
    novelty.insert(novelty.begin(), first);
    last_logits_ = logits;
    if (stands_in_trace())
      novelty.assign(left_novelty_.begin() + chunk.begin, left_novelty_.begin() + chunk.end());
    recorder_.add_novelty(std::move(novelty));
    if (chunk.phase == trace::Phase::Prefill) {
      recorder_.begin_probe();
      decoder_.forward(probe_.ids, recorder_, false);
      decoder_.truncate(chunk.end());
    }
    return logits;
  }

  bool stands_in_trace() const {
    return left_ != nullptr && chunks_done_ < static_cast<int>(left_->info().chunks.size());
  }

  // The probe follows the prompt and each of its chunks.
  std::int64_t cache_size() const {
    return std::max<std::int64_t>(plan_.back().end(),
                                  static_cast<std::int64_t>(ids_.size() + probe_.ids.size()));
  }

  // The new token is fed by the next chunk of the plan, unless it ends the answer.
  void sample(const at::Tensor& logits) {
    const std::int32_t token = greedy_token(logits);
    generated_.push_back(token);
    if (token != model_->tokenizer.eos()) ids_.push_back(token);
  }

  std::shared_ptr<const LoadedModel> model_;
  int max_new_tokens_;
  std::vector<std::int32_t> ids_;  // the prompt, then what was generated
  std::vector<std::int32_t> generated_;
  const std::vector<trace::ChunkInfo>& plan_;
  const Probe& probe_;      // no tokens: nothing is probed
  at::Tensor last_logits_;  // of the chunk before, when something is
  Recorder& recorder_;
  Decoder decoder_;
  const trace::TraceReader* left_;  // the chunks that a capture which goes on has done, if any
  std::vector<float> left_novelty_;
  int chunks_done_ = 0;
  double prefill_seconds_ = 0;
};

trace::CaptureRequest request_of(const CaptureOptions& options, const RecorderOptions& recorder,
                                 const TaskPrompt& task) {
  trace::CaptureRequest request;
  if (options.model == kBundledModel) request.model = options.model;
  request.chunk_size = options.chunk_size;
  request.max_new_tokens = options.max_new_tokens;
  std::vector<std::string> stored;
  if (recorder.store_qkv) stored.emplace_back("qkv");
  if (recorder.store_lse) stored.emplace_back("lse");
  if (recorder.store_mass) stored.emplace_back("mass");
  if (recorder.probe_len > 0) stored.emplace_back("probe");
  request.store = fmt::format("{}", fmt::join(stored, ","));
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
  header.store_qkv = recorder.store_qkv;
  header.store_lse = recorder.store_lse;
  header.store_mass = recorder.store_mass;
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

// What the arguments and the file system say, before the seconds that a model takes to load.
PromptSource check_before_loading(const CaptureOptions& options) {
  check_numbers(options);
  check_device(options.device);
  check_output(options);
  return read_prompt_source(options);
}

CaptureReport capture_with(const CaptureOptions& options, const PromptSource& source,
                           const std::shared_ptr<const LoadedModel>& model,
                           const std::function<void(const CaptureEstimate&)>& on_estimate,
                           const WorkContext& context) {
  for (const selection::MethodSpec& spec : options.methods) ensure_basis(spec, model, context);
  if (options.closed_loop) ensure_basis(*options.closed_loop, model, context);
  RecorderOptions recording = recorder_options(options, model->info);
  const Probe probe = needs_probe(options) ? make_probe(model->tokenizer) : Probe{};
  recording.probe_len = static_cast<int>(probe.ids.size());
  const TaskRequest request{
      model->tokenizer, options.raw,
      model->context_length - std::max(options.max_new_tokens, recording.probe_len), options.seed};
  TaskPrompt task = make_prompt(source, request);
  recording.prompt_len = static_cast<std::int32_t>(task.prompt.ids.size());
  warn_of_dropped_bytes(model->tokenizer);

  const auto plan = plan_chunks(static_cast<std::int64_t>(task.prompt.ids.size()),
                                std::max(0, options.max_new_tokens - 1), options.chunk_size);
  if (plan.size() >= trace::kAlive) {
    throw input_error(fmt::format("a trace cannot hold {} chunks",
                                  format_count(static_cast<std::int64_t>(plan.size()))),
                      fmt::format("it has room for {}", format_count(trace::kAlive - 1)),
                      "use a larger --chunk-size or fewer new tokens");
  }
  recording.store_mass = options.store_mass.value_or(4 * mass_bytes(model->info, recording, plan) <=
                                                     qkv_bytes(model->info, recording, plan));
  const CaptureEstimate estimate = estimate_capture(*model, recording, plan);
  check_disk(estimate, options.output);
  if (on_estimate) on_estimate(estimate);
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
  Recorder recorder(writer, model->info, recording);
  CaptureRun run(model, options, std::move(task.prompt.ids), plan, probe, recorder,
                 left ? &*left : nullptr);

  CaptureReport report;
  const auto begin = Clock::now();
  report.complete = run.run(context);
  recorder.finish();
  writer.finish(run.generated(), report.complete);
  report.total_seconds = seconds_since(begin);

  std::error_code code;
  report.bytes = fs::file_size(options.output, code);
  report.tokens = run.tokens();
  report.chunks = run.chunks_done();
  report.prefill_seconds = run.prefill_seconds();
  report.answer = run.answer();
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
  const PromptSource source = check_before_loading(options);
  const std::shared_ptr<const LoadedModel> model = load_model(options.model);
  context.cancel.throw_if_cancelled();
  return unless_stopped(context,
                        [&] { return capture_with(options, source, model, on_estimate, context); });
}

CaptureReport run_capture(const CaptureOptions& options, std::shared_ptr<const LoadedModel> model,
                          const std::function<void(const CaptureEstimate&)>& on_estimate,
                          const WorkContext& context) {
  const PromptSource source = check_before_loading(options);
  return unless_stopped(context,
                        [&] { return capture_with(options, source, model, on_estimate, context); });
}

}  // namespace kvloupe::capture
