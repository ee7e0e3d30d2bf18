// `kvloupe capture`: runs a model in chunked prefill and decode and records a trace.
#include "app/cli/capture_json.h"
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "capture/engine.h"
#include "capture/model/optional_model.h"
#include "capture/run/capture.h"
#include "capture/tasks/task.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/trace/fields/stored_parts.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::cli {
namespace {

using capture::CaptureEstimate;
using capture::CaptureOptions;
using capture::CaptureReport;

// The options as text, before they are checked. CaptureOptions holds what they mean.
struct CaptureArguments {
  CaptureOptions options;
  std::string prompt, prompt_file, messages, task;
  std::vector<std::string> methods, spans;
  bool accept_terms = false, drift = false;
  Indices layers;
  std::string decode_from, closed_loop, dtype = "f16", compute = "fp32", store, output, resume;
  bool json = false, events = false;
};

std::string task_help() {
  std::string help;
  for (const capture::TaskInfo& task : capture_engine().task_catalogue()) {
    help += fmt::format("\n  {}  {}", task.id, task.summary);
    for (const selection::ParamInfo& param : task.params) {
      help += fmt::format("\n      {}={}  {}", param.name, param.default_text, param.meaning);
    }
  }
  return help;
}

// "qkv,lse" and so on: of q, k, v and what follows from them, only what is named is stored.
void parse_store(const std::string& text, CaptureOptions& options) {
  options.mass_if_small = false;
  for (const trace::Part part : {trace::Part::Qkv, trace::Part::Lse, trace::Part::Mass})
    options.store.set(part, false);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::optional<trace::Part> part = trace::store_word(word);
    if (!part) {
      auto words = trace::store_words();
      const std::string_view last = words.back();
      words.pop_back();
      throw usage_error(fmt::format("--store cannot take '{}'", word),
                        fmt::format("it takes a list of {} and {}", fmt::join(words, ", "), last),
                        "write it as in --store qkv,lse");
    }
    options.store.set(*part);
    begin = end + 1;
  }
}

// The file to write: `--resume T.h5.part` names it as well as `--resume -o T.h5`.
std::string output_of(const CaptureArguments& arguments) {
  if (arguments.resume.empty()) return arguments.output;
  constexpr std::string_view kPart = ".part";
  std::string output = arguments.resume;
  if (output.ends_with(kPart)) output.resize(output.size() - kPart.size());
  if (!arguments.output.empty() && arguments.output != output)
    throw usage_error(
        fmt::format("--resume {} does not go with -o {}", arguments.resume, arguments.output),
        "a capture goes on under its own name", "leave one of the two out");
  return output;
}

std::string decode_from_of(const CaptureArguments& arguments) {
  if (arguments.decode_from.empty())
    throw usage_error("--decode-from is empty", "it says from where on the prompt is decoded",
                      "give a position or the name of a span");
  return arguments.decode_from;
}

// What is not given of a capture that goes on is as it was begun.
CaptureOptions options_from(const CaptureArguments& arguments, const Given& words) {
  const auto given = [&](const char* option) { return words.has(option); };
  const std::string output = output_of(arguments);
  if (output.empty() && !arguments.options.estimate_only)
    throw usage_error("a capture needs a file to write", "no name was given",
                      "give one by -o T.h5");
  CaptureOptions options =
      given("--resume") ? capture_engine().options_left(output) : CaptureOptions{};
  options.output = output;
  if (given("--model")) options.model = arguments.options.model;
  if (options.model.empty())
    throw usage_error("a capture needs a model", "none was given",
                      "give --model smollm2, a .gguf file or a Hugging Face folder");
  if (const auto* model = capture_engine().find_optional_model(options.model))
    capture_engine().fetch(*model, arguments.accept_terms);
  if (given("--chunk-size")) options.chunk_size = arguments.options.chunk_size;
  if (given("--max-new-tokens")) options.max_new_tokens = arguments.options.max_new_tokens;
  options.raw = arguments.options.raw;
  options.special = arguments.options.special;
  options.begin_token = arguments.options.begin_token;
  if (given("--decode-from")) options.decode_from = decode_from_of(arguments);
  if (given("--device")) options.device = arguments.options.device;
  options.seed = arguments.options.seed;
  options.force = arguments.options.force;
  options.estimate_only = arguments.options.estimate_only;
  if (given("--prompt")) options.prompt_text = arguments.prompt;
  if (given("--prompt-file")) options.prompt_file = arguments.prompt_file;
  if (given("--messages")) options.messages_file = arguments.messages;
  if (given("--task")) {
    capture_engine().parse_task(arguments.task);  // a wrong SPEC is reported before a missing file
    options.task = arguments.task;
  }
  if (given("--method")) options.methods.clear();
  for (const std::string& method : arguments.methods) {
    options.methods.push_back(selection::MethodSpec::parse(method));
  }
  if (given("--closed-loop")) {
    options.closed_loop = selection::MethodSpec::parse(arguments.closed_loop);
  }
  if (given("--layers")) options.layers = arguments.layers.numbers;
  if (given("--dtype"))
    options.dtype = arguments.dtype == "f32" ? trace::DType::F32 : trace::DType::F16;
  if (given("--compute")) options.compute = *trace::from_text<ComputeType>(arguments.compute);
  options.spans = capture_engine().parse_named_texts(arguments.spans);
  if (!options.spans.empty() && options.resume)
    throw usage_error("--span does not go with --resume",
                      "a capture goes on with the spans that it was begun with", "leave it out");
  if (arguments.drift) options.store.set(trace::Part::Drift);
  if (given("--store")) parse_store(arguments.store, options);
  return options;
}

// One line now and then: a second apart at least, and the last one.
class ProgressLines {
 public:
  void operator()(std::int64_t done, std::int64_t total, const std::string& stage) {
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    log::info("{} of {} tokens, {}", format_count(done), format_count(total), stage);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::string text_of(const CaptureEstimate& estimate, const CaptureOptions& options) {
  const capture::MemoryPlan& memory = estimate.memory;
  return fmt::format(
      "expecting about {} and {} for {} tokens on {} (an estimate from a short run)\n"
      "memory on {}: about {} (weights {}, KV cache {}, working set {})\n",
      format_bytes(estimate.bytes), format_duration(estimate.seconds),
      format_count(estimate.tokens), options.device, options.device, format_bytes(memory.total()),
      format_bytes(memory.weights), format_bytes(memory.caches), format_bytes(memory.working));
}

void print_speed(const CaptureReport& report) {
  if (!report.speed) return;
  results::print("{} (recording included)\n", text_of(report.speed->model));
  if (report.speed->dense)
    results::print("the dense model beside it: {}\n", text_of(*report.speed->dense));
}

void print_report(const CaptureReport& report, const CaptureOptions& options) {
  results::print("{}\n", printable(options.output.string()));
  results::print("{} tokens in {} chunks, {}, recorded in {}\n", format_count(report.tokens),
                 format_count(report.chunks), format_bytes(report.bytes),
                 format_duration(report.total_seconds));
  if (report.mean_loss) {
    const std::string dense =
        report.mean_dense_loss ? fmt::format(" (dense {:.3f})", std::exp(*report.mean_dense_loss))
                               : "";
    results::print("perplexity {:.3f}{}\n", std::exp(*report.mean_loss), dense);
  }
  print_speed(report);
  if (options.max_new_tokens == 0) return;
  results::print("answer: {}\n", printable(report.answer));
  if (options.store.has(trace::Part::Drift))
    results::print("dense answer: {}\n", printable(report.dense_answer));
  if (report.expected_answers.empty()) return;
  const double score = score_of(report);
  results::print("expected: {} ({})\n", fmt::join(report.expected_answers, ", "),
                 score == 1   ? "found"
                 : score == 0 ? "not found"
                              : "found in part");
}

void print_estimate(const CaptureArguments& arguments, const CaptureEstimate& estimate,
                    const CaptureOptions& options) {
  const std::string text = text_of(estimate, options);
  if (arguments.events) return print_event("estimate", estimate_json(estimate, options));
  if (options.estimate_only && arguments.json)
    return results::add_data(
        json_text("kvloupe-capture-estimate/1", estimate_json(estimate, options), 2));
  if (options.estimate_only) return results::add_text(text);
  const std::size_t line = text.find('\n');
  log::info("{}", text.substr(0, line));
  log::info("{}", text.substr(line + 1, text.size() - line - 2));
  log::info("writing {}", options.output.string());
}

[[noreturn]] void tell_stopped(const CaptureArguments& arguments, const CaptureReport& report,
                               const CaptureOptions& options) {
  if (arguments.events) print_event("stopped", report_json(report, options));
  const std::filesystem::path target = output_target(options.output);
  throw Error(ErrorKind::Cancelled, "the capture was stopped",
              fmt::format("{} holds the {} tokens done", options.output.string(),
                          format_count(report.tokens)),
              fmt::format("open it as it is, rename {} to {} and go on with --resume, or capture "
                          "again with --force",
                          target == options.output ? "it" : target.string(),
                          trace::part_path(target).filename().string()));
}

void run(const CaptureArguments& arguments, const Given& words) {
  const CaptureOptions options = options_from(arguments, words);
  WorkContext context;
  context.cancel = interrupt_token();
  CaptureEstimate expected;
  if (arguments.events)
    context.progress = [&](std::int64_t done, std::int64_t /*total*/, const std::string& pace) {
      print_event("progress", progress_json(done, expected, options.chunk_size, pace));
    };
  else
    context.progress = ProgressLines();
  const CaptureReport report = capture_engine().run_capture(
      options,
      [&](const CaptureEstimate& estimate) {
        expected = estimate;
        print_estimate(arguments, estimate, options);
      },
      context);
  if (options.estimate_only) return;
  if (!report.complete) tell_stopped(arguments, report, options);
  const auto& times = report.times;
  log::info("attention {}, selection {}, copies {}, waiting for the disk {}",
            format_duration(times.attention_seconds), format_duration(times.selection_seconds),
            format_duration(times.copy_seconds), format_duration(times.wait_seconds));
  if (arguments.events)
    print_event("done", report_json(report, options));
  else if (arguments.json)
    results::add_data(json_text("kvloupe-capture/1", report_json(report, options), 2));
  else
    print_report(report, options);
}

}  // namespace

Command capture_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<CaptureArguments>();
  CaptureOptions& options = arguments->options;
  Command command("capture", "run a model and record what it attends to");
  command.option(
      "--model", &options.model,
      "smollm2, a .gguf file, a Hugging Face folder, or a name that `kvloupe models` lists");
  command.option("--accept-terms", &arguments->accept_terms,
                 "the terms of a model that is fetched on demand: gemma3-270m");
  command.option("--prompt", &arguments->prompt, "the user's text");
  command.option("--prompt-file", &arguments->prompt_file, "a file with it, - for standard input");
  command.option("--messages", &arguments->messages,
                 "a JSON list of {role, content}, - for standard input");
  command.option("--task", &arguments->task,
                 "a generated prompt, such as niah:length=4096,depth=0.5");
  command.option("--raw", &options.raw, "no chat template around text or task");
  command.option(
      "--begin-token", &options.begin_token,
      "with --raw: the text comes after the token that begins one, or ends one where the "
      "model has no such, as a continuation without context does in run");
  command.option("--special", &options.special,
                 "with --raw: special tokens such as <|im_start|> in the text are these tokens, as "
                 "in a text that a chat template made");
  add_prefill_chunk_option(command, options.chunk_size);
  command
      .option("--method", &arguments->methods,
              "a method whose selections are recorded (open loop); may be repeated; one that "
              "takes a budget and names none has budget_tokens=1024")
      .repeated();
  command.option("--closed-loop", &arguments->closed_loop,
                 "the model attends only to what this method selects");
  command.option("--drift", &arguments->drift,
                 "also runs the dense model on the same tokens, and stores how far the closed "
                 "loop is from it: losses, next tokens, queries and keys; takes about twice the "
                 "time");
  add_layers_option(command, arguments->layers, "layers to record (default: all)");
  command.option("--dtype", &arguments->dtype, "type of the stored q, k and v")
      .one_of({"f16", "f32"})
      .show_default();
  add_compute_option(command, arguments->compute);
  command
      .option("--span", &arguments->spans,
              "NAME=TEXT: a span of that name where TEXT stands in the prompt, to be watched "
              "(compare --span NAME, --goto span=NAME); may be repeated. Where it stands more "
              "than once the next ones are NAME.2, NAME.3")
      .repeated();
  command.option("--decode-from", &arguments->decode_from,
                 "a position, or the name of a span such as question: the prompt from there on is "
                 "fed token by token, as decode chunks");
  command.option("--store", &arguments->store,
                 fmt::format("list of {} (default qkv,lse, mass where it is small, probe where a "
                             "method and loss where a task needs it)",
                             fmt::join(trace::store_words(), ", ")));
  command.option("--max-new-tokens", &options.max_new_tokens, "tokens to generate, greedily")
      .range(0, 1 << 20)
      .show_default();
  command
      .option("--device", &options.device,
              "cpu, cuda:N or sim (`kvloupe devices` lists them): where the model runs and the "
              "methods select")
      .show_default();
  command.option("--seed", &options.seed, "seed of a task that names none")
      .range(std::int64_t{0}, (std::int64_t{1} << 53) - 1)
      .show_default();
  command
      .option("--resume", &arguments->resume,
              "go on with T.h5.part, which a killed capture left: as --resume -o T.h5, or "
              "--resume T.h5.part. Options not given are as it was begun (a model file is "
              "named again); those given must be the same. The chunks done are not computed "
              "again where q, k and v of all layers are stored; for a moment they take their "
              "room on disk twice")
      .between(0, 1);
  command.option(
      "--json", &arguments->json,
      "print what was recorded as JSON, and of a task its answer: text, expected, found");
  command.option("--estimate", &options.estimate_only,
                 "say what it would take in bytes, memory and time, and write nothing (-o is not "
                 "needed); it loads the model for that. With --json also where the spans stand");
  command.option("--events", &arguments->events,
                 "for a program that runs this one: a line of JSON for each thing that happens "
                 "(estimate, progress, then done or stopped) in place of the report");
  command.option("--force", &options.force, "overwrite the output");
  command.option("-o,--output", &arguments->output, "the trace to write");
  // Asked for by --help alone, which need not start the engine for anything else.
  command.made_footer = [&global] {
    use_engine(global);
    return "Tasks:" + task_help();
  };
  command.run = [arguments, &global](const Given& words) {
    use_engine(global);
    run(*arguments, words);
  };
  return command;
}

}  // namespace kvloupe::cli
