#include "app/state/questions/how_it_ran/trace_info.h"

#include "app/state/method_choice.h"
#include "app/state/method_draft.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::state {
namespace {

TraceInfoQuestion question_of(const Workspace& workspace) { return {workspace.place()}; }

Table table(Workspace& workspace) {
  Table table{{"name", "value"}, {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  for (const TraceInfoQuestion::Fact& fact : result->facts)
    table.rows.push_back({fact.name, fact.value});
  return table;
}

std::string line_of(const std::string& method, const trace::RunInfo& run, const OpenTrace& trace) {
  const bool known = choice_of_run(run, trace).known();
  return fmt::format(
      "{}  ({}{}{})", method, run.mode == trace::LoopMode::OpenLoop ? "open loop" : "closed loop",
      run.from_sidecar ? ", sidecar" : "",
      known                                    ? ""
      : choice_of_run(run, trace).brought_in() ? ", brought in"
                                               : ", a method that this version does not know");
}

// Without what is as by default.
std::string short_line_of(const trace::RunInfo& run, const OpenTrace& trace) {
  const MethodChoice choice = choice_of_run(run, trace);
  if (!choice.known()) return line_of(run.method, run, trace);
  return line_of(MethodDraft(choice.spec->canonical(), trace.shape()).short_spec(), run, trace);
}

// The begin of what a span says, on one line; empty where the trace has no text.
std::string quote_of(const trace::TokenSpan& span, const OpenTrace& trace) {
  constexpr std::int32_t kMostTokens = 60;
  std::string text;
  const auto end =
      std::min({span.end, span.begin + kMostTokens, static_cast<std::int32_t>(trace.text.size())});
  for (std::int32_t token = std::max(0, span.begin); token < end; ++token)
    text += trace.text[static_cast<std::size_t>(token)];
  if (text.empty()) return text;
  return fmt::format("\u201C{}{}\u201D", printable(text), end < span.end ? "\u2026" : "");
}

// "0.29 s for chunk 0, 0.52 s for the slowest (chunk 15)", of prefill; empty where no time is known.
std::string text_of_times(const std::vector<float>& seconds, const trace::TraceInfo& info) {
  std::optional<std::size_t> first, slowest;
  for (std::size_t c = 0; c < seconds.size(); ++c) {
    if (info.chunks[c].phase != trace::Phase::Prefill || !(seconds[c] > 0) ||
        !std::isfinite(seconds[c]))
      continue;
    if (!first) first = c;
    if (!slowest || seconds[c] > seconds[*slowest]) slowest = c;
  }
  if (!slowest) return "";
  return fmt::format("{:.3g} s for chunk {}, {:.3g} s for the slowest (chunk {})", seconds[*first],
                     *first, seconds[*slowest], *slowest);
}

// " (579 a second in chunk 0, 309 in chunk 15)"; empty where two chunks of prefill have no times.
std::string rates_of(const trace::TraceInfo& info, const std::vector<float>& seconds) {
  std::optional<std::size_t> first, last;
  for (std::size_t c = 0; c < std::min(seconds.size(), info.chunks.size()); ++c) {
    if (info.chunks[c].phase != trace::Phase::Prefill || !(seconds[c] > 0) ||
        !std::isfinite(seconds[c]))
      continue;
    if (!first) first = c;
    last = c;
  }
  if (first == last) return "";
  const auto rate = [&](std::size_t c) {
    const double value = info.chunks[c].length / double{seconds[c]};
    return value < 10 ? fmt::format("{:.2g}", value) : format_count(std::llround(value));
  };
  return fmt::format(" ({} a second in chunk {}, {} in chunk {})", rate(*first), *first,
                     rate(*last), *last);
}

}  // namespace

TraceInfoQuestion::Answer TraceInfoQuestion::work(Steps& /*steps*/) const {
  const trace::TraceInfo& info = place.info();
  const trace::ModelInfo& m = info.model;
  const bool open_loop = info.mode == trace::LoopMode::OpenLoop;
  std::vector<float> seconds =
      place.trace->session->reader().read<float>(trace::Field::ChunkSeconds);
  std::vector<Fact> facts{
      {"model", fmt::format("{} ({})", m.name, m.architecture)},
      {"heads", fmt::format("{} query, {} KV, {} per group, dimension {}", m.num_q_heads,
                            m.num_kv_heads, m.gqa_group_size(), m.head_dim)},
      {"layers", fmt::format("{} of {} captured", info.layers.size(), m.num_layers)},
      {.name = "tokens",
       .value = fmt::format("{} in {} chunks", format_count(info.num_tokens), info.chunks.size()),
       .said = true},
      {.name = "stored as",
       .value = info.dtype == trace::DType::F16 ? "f16" : "fp32",
       .said = true},
      {.name = "the model ran",
       .value = open_loop ? "densely" : "in closed loop: it attended only to what was selected",
       .said = open_loop},
      {.name = "complete",
       .value = info.complete ? "yes" : "no: the capture ended early",
       .said = info.complete},
      {"file", fmt::format("{}, schema {}, written by {} at {}", format_bytes(info.bytes),
                           info.schema_version, info.producer, info.created)}};
  if (!m.kv_heads.empty())
    facts.push_back({"recorded heads", fmt::format("KV {} of the model", m.kv_heads)});
  if (m.compute) facts.push_back({"computed in", std::string(trace::to_text(*m.compute))});
  if (info.speed) facts.push_back({"speed", text_of(info.speed->model) + ", recording included"});
  if (info.speed && info.speed->dense)
    facts.push_back({"speed, dense", text_of(*info.speed->dense)});
  if (const std::string times = text_of_times(seconds, info); !times.empty())
    facts.push_back(
        {.name = "time by chunk", .value = times, .said = !rates_of(info, seconds).empty()});
  std::vector<trace::TokenSpan> spans = info.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  for (const trace::TokenSpan& span : spans) {
    const std::string range =
        fmt::format("tokens {} to {}", format_count(span.begin), format_count(span.end - 1));
    const std::string quote = quote_of(span, *place.trace);
    facts.push_back({"span " + span.name, range, span, std::nullopt,
                     quote.empty() ? range : range + ":  " + quote, quote});
  }
  for (const trace::RunInfo& run : info.runs)
    facts.push_back({fmt::format("run {}", run.id), line_of(run.method, run, *place.trace),
                     std::nullopt, run.id, short_line_of(run, *place.trace)});
  for (const std::string& warning : info.warnings) facts.push_back({"warning", warning});
  return {std::move(facts), std::move(seconds)};
}

std::uint64_t TraceInfoQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.chunk_seconds.size() * sizeof(float);
  for (const Fact& fact : answer.facts)
    sum +=
        sizeof(fact) + fact.name.size() + fact.value.size() + fact.words.size() + fact.quote.size();
  return sum;
}

ViewInfo trace_info_view() {
  return ViewInfo{"trace_info", "Trace", "what the open trace holds"}.take(0).draw(
      problem_with<question_of>, table);
}

std::string trace_finding(const trace::TraceInfo& info, const std::vector<float>& seconds) {
  const auto steps = std::ranges::count_if(
      info.chunks, [](const trace::ChunkInfo& c) { return c.phase == trace::Phase::Decode; });
  const auto chunks = static_cast<std::ptrdiff_t>(info.chunks.size()) - steps;
  std::string text =
      fmt::format("{} read {} tokens in {} chunk{}", readable_name(info.model.name),
                  format_count(info.num_tokens - steps), chunks, chunks == 1 ? "" : "s");
  text += rates_of(info, seconds);
  if (steps > 0) text += fmt::format(" and decoded {}", steps);
  if (info.runs.empty()) return text + ". No run was recorded.";
  return text +
         fmt::format(". {} of methods {} recorded.",
                     info.runs.size() == 1 ? "1 run" : fmt::format("{} runs", info.runs.size()),
                     info.runs.size() == 1 ? "is" : "are");
}

}  // namespace kvloupe::state
