#include "app/state/questions/layer_head_overview.h"

#include "app/state/questions/head_merge.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::state {
namespace {

using analysis::kOverviewNumbers;
using replay::Number;

constexpr const char* kViewId = "layer_head_overview";

// The default for a name that there is not.
Number number_named(const std::string& name) {
  for (const Number number : kOverviewNumbers)
    if (name == replay::name_of(number)) return number;
  return kOverviewNumbers.front();
}

std::string problem(Workspace& workspace) {
  const OverviewQuestion question = overview_question(workspace);
  const std::string problem = problem_of(workspace.ask(question));
  if (!problem.empty() || !question.of_method()) return problem;
  return problem_of(workspace.ask(FactsQuestion{question.place, question.method}));
}

Table table(Workspace& workspace) {
  const auto result = workspace.ask(overview_question(workspace));
  if (!result) return {};
  const analysis::Overview& overview = result->overview;
  Table table{
      {"layer", overview.per_kv_head ? "kv_head" : "q_head", replay::name_of(overview.number)}, {}};
  for (std::int64_t r = 0; r < overview.values.rows; ++r)
    for (std::int64_t c = 0; c < overview.values.cols; ++c)
      table.rows.push_back(
          {overview.layers[static_cast<std::size_t>(r)], c, overview.values.at(r, c)});
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(overview_question(workspace));
  if (!result) return {};
  const analysis::Matrix& values = result->overview.values;
  return array_of("<f4", {values.rows, values.cols}, values.values);
}

// The next round number, so that a growing scale seldom changes.
double round_up(double value) {
  if (value <= 0) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0})
    if (value <= step * unit) return step * unit;
  return 10 * unit;
}

void count(OverviewQuestion::Answer& answer) {
  const std::vector<float>& values = answer.overview.values.values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ++answer.num_dense;
      continue;
    }
    ++answer.num_known;
    answer.highest = std::max(answer.highest, values[i]);
    answer.above_half += values[i] > 0.5F;
    answer.by_worth.push_back(static_cast<std::int32_t>(i));
  }
  const bool by_gap = !answer.gap.values.empty();
  const std::vector<float>& order = by_gap ? answer.gap.values : values;
  const bool higher_is_better =
      !by_gap && replay::info_of(answer.overview.number).higher_is_better();
  std::stable_sort(answer.by_worth.begin(), answer.by_worth.end(),
                   [&](std::int32_t a, std::int32_t b) {
                     const float x = order[static_cast<std::size_t>(a)];
                     const float y = order[static_cast<std::size_t>(b)];
                     return higher_is_better ? x < y : x > y;
                   });
}

}  // namespace

OverviewQuestion overview_question(const Workspace& workspace) {
  OverviewQuestion question{workspace.place(), workspace.method(),
                            number_named(workspace.option(kViewId, "metric")),
                            number_chunks(workspace, workspace.option(kViewId, "chunks") == "all"
                                                         ? NumberScope::Kind::All
                                                         : NumberScope::Kind::Chunk)};
  // What heads would keep alone was not recorded: all of it is selected anew, and says so.
  if (question.asked == Number::MergeLoss && question.method.known())
    question.method = choice_anew(*question.method.spec);
  return question;
}

Number OverviewQuestion::number() const {
  if (place.empty() || method.empty()) return asked;
  if (!analysis::needs_method(asked) || asked == Number::OutputError || asked == Number::MergeLoss)
    return asked;
  return facts_of(place, method).keeps_every_key() ? Number::OutputError : asked;
}

std::optional<trace::TokenSpan> OverviewQuestion::watched() const {
  return number() == Number::SpanKept ? watched_span(place) : std::nullopt;
}

std::string OverviewQuestion::key() const {
  const std::string chunk = of_method() ? chunks.key() : fmt::format("c{}", place.chunk);
  const auto keys = watched();
  return fmt::format("{}|{}|{}|{}|{}", place.trace_key(), chunk, replay::name_of(number()),
                     of_method() ? method.key() : std::string("any method"),
                     keys ? fmt::format("{}-{}", keys->begin, keys->end) : std::string());
}

std::string OverviewQuestion::title() const {
  return fmt::format("Measuring {} in all layers", replay::name_of(number()));
}

std::string OverviewQuestion::obstacle() const {
  if (place.empty()) return "Open a trace";
  if (analysis::needs_method(asked) && method.empty()) return "Choose a method";
  if (asked == Number::MergeLoss) {
    return HeadMergeQuestion{place, method}.obstacle();
  }
  const bool unwatched = number() == Number::SpanKept && !watched();
  return unwatched ? "Choose keys to watch: the trace names no needle" : "";
}

OverviewQuestion::Answer OverviewQuestion::work(Steps& steps) const {
  const Number wanted = number();
  Answer answer;
  if (wanted == Number::MergeLoss) {
    answer.overview = engine().overview_of_merge(*place.trace->session, *method.spec, chunks.list(),
                                                 place.device, steps.context);
    answer.q_heads_per_column =
        selection::row_layout(*method.spec, place.trace->shape()).q_heads_per_row;
  } else if (of_method()) {
    const bool error = wanted == Number::OutputError;
    const bool mass = !error && wanted != Number::SpanKept;
    const std::vector<int> asked_of = chunks.list();
    const replay::ReplayResult run =
        run_method(place, method, place.info().layers, asked_of, mass, error, steps.context);
    std::optional<replay::KeySpan> span;
    if (const auto keys = watched()) span.emplace(keys->begin, keys->end);
    answer.overview = engine().overview_of_replay(run, wanted, asked_of, span);
    if (wanted == Number::MassRecall)
      answer.gap = engine().overview_of_replay(run, Number::Gap, asked_of, {}).values;
    if (!error) answer.q_heads_per_column = std::max(1, run.q_heads_per_row);
  } else {
    answer.overview =
        engine().overview_of_attention(*place.trace->session, wanted, place.chunk, steps.context);
  }
  count(answer);
  return answer;
}

std::uint64_t OverviewQuestion::bytes(const Answer& answer) {
  return sizeof(answer) +
         (answer.overview.values.values.size() + answer.gap.values.size()) * sizeof(float) +
         answer.by_worth.size() * sizeof(std::int32_t);
}

OverviewScale::Range OverviewScale::of(const OverviewQuestion& question,
                                       const OverviewQuestion::Answer& answer) {
  const replay::NumberInfo& info = replay::info_of(answer.overview.number);
  if (info.unit == replay::Unit::Correlation) return {-1, 1};
  if (info.is_share() && info.higher_is_better()) return {0, 1};
  const std::string content =
      fmt::format("{}|{}|{}", question.place.trace_key(), info.id,
                  question.of_method() ? question.method.key() : std::string());
  if (content != content_) highest_ = 0;
  content_ = content;
  highest_ = std::max(highest_, double{answer.highest});
  return {0, round_up(highest_)};
}

ViewInfo layer_head_overview_view() {
  std::vector<std::string> numbers;
  for (const Number number : kOverviewNumbers) numbers.emplace_back(replay::name_of(number));
  ViewInfo view;
  view.id = kViewId;
  view.title = "Layer x head";
  view.summary = "one number for every layer and head: where to look first";
  view.metrics = "What is kept of attention";
  view.coordinates = {"layer", "q_head", "kv_head", "chunk", "key"};
  view.options = {
      {"metric", numbers,
       "what is measured in every head; span_kept: of the keys of --goto span=, else of "
       "the needle; merge_loss asks every query head alone, and takes longest"},
      {"chunks",
       {"current", "all"},
       "of a method: the current chunk, or the mean over all chunks of the prompt that selected, "
       "over the decode steps where none did; --numbers says more, and is followed first"}};
  view.over_chunks = true;
  view.problem = problem;
  view.table = table;
  view.array = array;
  return view;
}

}  // namespace kvloupe::state
