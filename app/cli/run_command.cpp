// `kvloupe run`: a model answers requests, a line of JSON each.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "app/cli/request_lines.h"
#include "capture/engine.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/seconds_since.h"
#include "core/base/units.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

namespace kvloupe::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct RunArguments {
  capture::RequestOptions options;
  std::string closed_loop, dtype = "f32", compute = "fp32", requests, output = "-";
  bool accept_terms = false, resume = false;
};

capture::RequestOptions options_from(const RunArguments& arguments) {
  capture::RequestOptions options = arguments.options;
  if (!arguments.closed_loop.empty())
    options.closed_loop = selection::MethodSpec::parse(arguments.closed_loop);
  if (arguments.dtype == "f16") options.dtype = trace::DType::F16;
  options.compute = *trace::from_text<ComputeType>(arguments.compute);
  if (const auto* model = capture_engine().find_optional_model(options.model))
    capture_engine().fetch(*model, arguments.accept_terms);
  return options;
}

void check_output(const RunArguments& arguments, const capture::RequestOptions& options) {
  InputFiles inputs = capture_engine().request_inputs(options);
  inputs.push_back(arguments.requests);
  check_result_file(arguments.output, inputs, /*force=*/false, "give another name by -o");
  std::error_code code;
  if (arguments.resume &&
      (is_standard_output(arguments.output) || std::filesystem::is_other(arguments.output, code)))
    throw usage_error("--resume needs a file of answers", "standard output cannot be read again",
                      "name the file by -o");
}

// A line a second at most.
class Progress {
 public:
  void operator()(bool is_error) {
    ++answered_;
    errors_ += int(is_error);
    if (Clock::now() - last_ < std::chrono::seconds(1)) return;
    last_ = Clock::now();
    log::info("{} answered, {:.2f} s each{}", format_count(answered_),
              seconds_since(begin_) / static_cast<double>(answered_),
              errors_ > 0 ? fmt::format(", {} of them by an error", format_count(errors_)) : "");
  }

 private:
  std::int64_t answered_ = 0, errors_ = 0;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

void say_totals(const capture::RequestTotals& totals) {
  log::info(
      "{} answered, {} of them by an error; {} prompt tokens, of which {} were prefilled for "
      "an earlier request",
      format_count(totals.answered), format_count(totals.errors),
      format_count(totals.prompt_tokens), format_count(totals.shared_tokens));
  if (totals.passed_over > 0)
    log::info("{} were answered before", format_count(totals.passed_over));
}

void run(const RunArguments& arguments) {
  capture::RequestOptions options = options_from(arguments);
  check_output(arguments, options);
  LineReader reader(arguments.requests);
  AnswerFile answers(arguments.output, arguments.resume);
  options.answered = answers.answered();
  WorkContext context;
  context.cancel = interrupt_token();
  Progress progress;
  const capture::RequestLines lines{[&] {
                                      answers.open();
                                      return reader.next(context.cancel);
                                    },
                                    [&](const std::string& line, bool is_error) {
                                      answers.write(line);
                                      progress(is_error);
                                    }};
  try {
    say_totals(capture_engine().run_requests(options, lines, context));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Cancelled) throw;
    throw Error(ErrorKind::Cancelled, "the run was stopped", "the answers so far are written",
                "go on with --resume where they are in a file");
  }
}

}  // namespace

Command run_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<RunArguments>();
  capture::RequestOptions& options = arguments->options;
  Command command("run", "answer requests, a line of JSON each, densely or by what a method keeps");
  command
      .option("--model", &options.model,
              "smollm2, a .gguf file, a Hugging Face folder, or a name that `kvloupe models` lists")
      .required();
  command.option("--accept-terms", &arguments->accept_terms,
                 "the terms of a model that is fetched on demand: gemma3-270m");
  command
      .option("--requests", &arguments->requests,
              "the file of requests, - for standard input: {id, prompt or tokens or messages, "
              "raw, special, tokenize, until, max_new_tokens, decode_from} or {id, context, "
              "continuation, special, decode_from}")
      .required();
  command.option("-o,--output", &arguments->output, "the file of answers, - for standard output")
      .show_default();
  command.option("--resume", &arguments->resume,
                 "pass over what the file of answers has answered, and append the rest");
  command.option("--closed-loop", &arguments->closed_loop,
                 "the model attends only to what this method selects (default: densely)");
  add_prefill_chunk_option(command, options.chunk_size);
  command
      .option("--dtype", &arguments->dtype,
              "f16: q, k and v are rounded, as a capture's are by default")
      .one_of({"f16", "f32"})
      .show_default();
  add_compute_option(command, arguments->compute);
  command
      .option("--device", &options.device,
              "cpu, cuda:N or sim (`kvloupe devices` lists them): where the model runs and the "
              "method selects")
      .show_default();
  command.run = with_engine(global, [arguments] { run(*arguments); });
  return command;
}

}  // namespace kvloupe::cli
