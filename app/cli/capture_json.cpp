#include "app/cli/capture_json.h"

#include "app/cli/json_text.h"
#include "app/cli/speed_json.h"
#include "capture/engine.h"
#include "core/base/error.h"
#include "core/base/results.h"
#include "core/replay/method_choice.h"
#include "core/trace/fields/stored_parts.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kvloupe::cli {
namespace {

using capture::CaptureEstimate;
using capture::CaptureOptions;
using capture::CaptureReport;
using nlohmann::ordered_json;

ordered_json path_json(const std::optional<std::filesystem::path>& path) {
  return path ? ordered_json(path->string()) : ordered_json(nullptr);
}

// null where no token was asked for; what is not known of it likewise.
ordered_json answer_json(const CaptureReport& report, const CaptureOptions& options) {
  if (options.max_new_tokens == 0) return nullptr;
  ordered_json json{{"text", report.answer},
                    {"expected", nullptr},
                    {"found", nullptr},
                    {"score", nullptr},
                    {"dense_text", nullptr}};
  if (!report.expected_answers.empty()) {
    json["expected"] = report.expected_answers;
    json["score"] = score_of(report);
    json["found"] = score_of(report) == 1;
  }
  if (options.store.has(trace::Part::Drift)) json["dense_text"] = report.dense_answer;
  return json;
}

}  // namespace

double score_of(const CaptureReport& report) {
  return capture_engine().string_match_all(report.answer, report.expected_answers);
}

ordered_json request_json(const CaptureOptions& options) {
  ordered_json methods = ordered_json::array(), spans = ordered_json::array();
  for (const selection::MethodSpec& spec : options.methods)
    methods.push_back(replay::short_name(spec));
  for (const capture::NamedText& span : options.spans)
    spans.push_back({{"name", span.name}, {"text", span.text}});
  return {
      {"model", options.model},
      {"prompt", or_null(options.prompt_text)},
      {"prompt_file", path_json(options.prompt_file)},
      {"messages", path_json(options.messages_file)},
      {"task", or_null(options.task)},
      {"raw", options.raw},
      {"special", options.special},
      {"decode_from",
       options.decode_from.empty() ? ordered_json(nullptr) : ordered_json(options.decode_from)},
      {"spans", spans},
      {"chunk_size", options.chunk_size},
      {"layers", options.layers.empty() ? ordered_json(nullptr) : ordered_json(options.layers)},
      {"methods", methods},
      {"closed_loop", options.closed_loop ? ordered_json(replay::short_name(*options.closed_loop))
                                          : ordered_json(nullptr)},
      {"drift", options.store.has(trace::Part::Drift)},
      {"max_new_tokens", options.max_new_tokens},
      {"device", options.device},
      {"force", options.force},
      {"output", options.output.string()}};
}

ordered_json estimate_json(const CaptureEstimate& estimate, const CaptureOptions& options) {
  ordered_json spans = ordered_json::array();
  for (const trace::TokenSpan& span : estimate.spans)
    spans.push_back({{"name", span.name}, {"begin", span.begin}, {"end", span.end}});
  const capture::MemoryPlan& memory = estimate.memory;
  return {{"tokens", estimate.tokens},
          {"prompt_tokens", estimate.prompt_tokens},
          {"prefill_tokens", estimate.prefill_tokens},
          {"chunks", estimate.chunks},
          {"layers", estimate.layers},
          {"model_layers", estimate.num_layers},
          {"bytes", estimate.bytes},
          {"seconds", estimate.seconds},
          {"memory",
           {{"device", options.device},
            {"weights", memory.weights},
            {"kv_cache", memory.caches},
            {"working_set", memory.working},
            {"total", memory.total()}}},
          {"spans", spans},
          {"request", request_json(options)}};
}

ordered_json report_json(const CaptureReport& report, const CaptureOptions& options) {
  const auto perplexity = [](const std::optional<double>& loss) {
    return loss ? ordered_json(std::exp(*loss)) : ordered_json(nullptr);
  };
  return {{"path", options.output.string()},
          {"tokens", report.tokens},
          {"decoded", report.decoded},
          {"chunks", report.chunks},
          {"bytes", report.bytes},
          {"seconds", report.total_seconds},
          {"perplexity", perplexity(report.mean_loss)},
          {"dense_perplexity", perplexity(report.mean_dense_loss)},
          {"speed", speed_json(report.speed)},
          {"answer", answer_json(report, options)}};
}

void print_event(const std::string& name, const ordered_json& json) {
  ordered_json event{{"event", name}};
  event.update(json);
  results::add_data(json_text("kvloupe-capture-event/1", event));
  // Who asked may be gone: the trace is worth finishing all the same.
  try {
    results::deliver();
  } catch (const results::ReaderGone&) {
  } catch (const Error&) {
  }
}

ordered_json progress_json(std::int64_t done, const CaptureEstimate& estimate, int chunk_size,
                           const std::string& pace) {
  const std::int64_t prefilled = std::min(done, estimate.prefill_tokens);
  return {{"tokens", done},
          {"of_tokens", estimate.tokens},
          {"chunks", (prefilled + chunk_size - 1) / chunk_size + done - prefilled},
          {"of_chunks", estimate.chunks},
          {"phase", done <= estimate.prefill_tokens ? "prefill" : "decode"},
          {"pace", pace}};
}

}  // namespace kvloupe::cli
