#include "app/state/questions/where/layer_head_overview.h"

#include "app/state/labels.h"
#include "app/state/questions/why_lost/head_merge.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/replay/request_checks.h"
#include "core/trace/queries_note.h"

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

std::string problem_of_one(Workspace& workspace, const Drawn& one) {
  const OverviewQuestion question = overview_question(workspace, one);
  const std::string problem = problem_of(workspace.ask(question));
  if (!problem.empty() || !question.of_method()) return problem;
  return problem_of(workspace.ask(FactsQuestion{question.place, question.method}));
}

std::string problem(Workspace& workspace) {
  if (overview_show(workspace) == Show::Difference)
    return problem_of(workspace.ask(overview_difference_question(workspace)));
  const AllDrawn drawn = overview_drawn(workspace);
  return first_problem(drawn, [&](const Drawn& one) { return problem_of_one(workspace, one); });
}

const char* head_column(const OverviewQuestion::Answer& answer) {
  if (answer.overview.per_kv_head) return "kv_head";
  return answer.q_heads_per_column == 1 ? "q_head" : "subgroup";
}

Table table_of_one(Workspace& workspace, const Drawn& one) {
  const auto result = workspace.ask(overview_question(workspace, one));
  if (!result) return {};
  const analysis::Overview& overview = result->overview;
  Table table{{"layer", head_column(*result), replay::name_of(overview.number)}, {}};
  for (std::int64_t r = 0; r < overview.values.rows; ++r)
    for (std::int64_t c = 0; c < overview.values.cols; ++c)
      table.rows.push_back(
          {overview.layers[static_cast<std::size_t>(r)], c, overview.values.at(r, c)});
  return table;
}

Table table_of_difference(Workspace& workspace) {
  const auto result = workspace.ask(overview_difference_question(workspace));
  if (!result) return {};
  const analysis::Overview& overview = result->less.overview;
  const std::string number = replay::name_of(overview.number);
  Table table{{"layer", head_column(result->less), number + "_a", number + "_b", "a_less_b"}, {}};
  std::size_t i = 0;
  for (std::int64_t r = 0; r < overview.values.rows; ++r)
    for (std::int64_t c = 0; c < overview.values.cols; ++c, ++i)
      table.rows.push_back({overview.layers[static_cast<std::size_t>(r)], c, result->of_a[i],
                            result->of_b[i], overview.values.values[i]});
  return table;
}

Table table(Workspace& workspace) {
  if (overview_show(workspace) == Show::Difference) return table_of_difference(workspace);
  return table_of(overview_drawn(workspace),
                  [&](const Drawn& one) { return table_of_one(workspace, one); });
}

Array array(Workspace& workspace) {
  const auto of_values = [](const analysis::Matrix& values) {
    return array_of("<f4", {values.rows, values.cols}, values.values);
  };
  if (overview_show(workspace) == Show::Difference) {
    const auto result = workspace.ask(overview_difference_question(workspace));
    return result ? of_values(result->less.overview.values) : Array{};
  }
  return array_of(overview_drawn(workspace), [&](const Drawn& one) {
    const auto result = workspace.ask(overview_question(workspace, one));
    return result ? of_values(result->overview.values) : Array{};
  });
}

std::vector<MethodChoice> more_methods(const Workspace& workspace) {
  return methods_beside(workspace, kViewId);
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
  const auto gap = [&](std::int32_t i) {
    const float more = by_gap ? answer.gap.values[static_cast<std::size_t>(i)] : 0;
    return std::isnan(more) ? 0 : more;  // of a cell whose attention is not known
  };
  const bool higher_is_better = replay::info_of(answer.overview.number).higher_is_better();
  std::ranges::stable_sort(answer.by_worth, [&](std::int32_t a, std::int32_t b) {
    if (gap(a) != gap(b)) return gap(a) > gap(b);
    const float x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return higher_is_better ? x < y : x > y;
  });
}

// What the oracle keeps of the span beyond the sets, as the overview's values: a head that does not read the span
// loses nothing with it. Empty where the attention of a cell that counts is not known.
analysis::Matrix span_gap(const Place& place, replay::ReplayResult run, const trace::KeySet& span,
                          const std::vector<int>& chunks, trace::Phase phase,
                          const WorkContext& context) {
  std::erase_if(run.cells, [&](const replay::ReplayCell& cell) {
    const bool is_asked = chunks.empty() || std::ranges::binary_search(chunks, cell.chunk);
    return !is_asked || cell.dense_reason || cell.span.phase != phase ||
           !span.meets(cell.first_candidate, cell.end_of_candidates());
  });
  if (!std::ranges::all_of(run.cells, [&](const replay::ReplayCell& cell) {
        return place.info().has_queries(cell.chunk);
      }))
    return {};
  try {
    engine().add_metrics(*place.trace->session, run, {false, false, span}, context, place.device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    return {};  // the attention is not known, as where a key is not finite; what is kept is
  }
  analysis::Matrix gap = engine().span_gap_of_replay(run, chunks, span);
  for (float& value : gap.values) value = std::max(value, 0.0F);
  return gap;
}

// "layer 24, KV head 0"
std::string where_in(const OverviewQuestion::Answer& answer, std::int32_t index) {
  const auto cols = static_cast<std::int32_t>(answer.overview.values.cols);
  return fmt::format("layer {}, {} {}",
                     answer.overview.layers[static_cast<std::size_t>(index / cols)],
                     head_word(answer), index % cols);
}

}  // namespace

const char* head_word(const OverviewQuestion::Answer& answer) {
  if (answer.overview.per_kv_head) return "KV head";
  return answer.q_heads_per_column == 1 ? "query head" : "sub-group";
}

std::optional<std::int32_t> framed_cell(const OverviewQuestion& question,
                                        const OverviewQuestion::Answer& answer) {
  if (answer.by_worth.empty()) return std::nullopt;
  const std::int32_t first = answer.by_worth.front();
  const bool loses =
      !answer.gap.values.empty() && answer.gap.values[static_cast<std::size_t>(first)] > 0;
  if (question.watched() && !loses) return std::nullopt;
  return first;
}

std::string overview_finding(const OverviewQuestion& question,
                             const OverviewQuestion::Answer& answer) {
  if (answer.by_worth.empty()) return "";
  const std::vector<float>& values = answer.overview.values.values;
  const std::int32_t first = answer.by_worth.front(), last = answer.by_worth.back();
  const auto value = [&](std::int32_t i) { return values[static_cast<std::size_t>(i)]; };
  const std::string at_first = where_in(answer, first);
  const std::string title = replay::headline_of(answer.overview.number);
  if (const auto watched = question.watched()) {
    const auto count = [&](float share) {
      return std::ranges::count_if(answer.by_worth,
                                   [&](std::int32_t i) { return value(i) == share; });
    };
    double sum = 0;
    for (const std::int32_t i : answer.by_worth) sum += value(i);
    std::string text =
        fmt::format("{} of {} is kept over the {} heads: all of it in {}, nothing in {}.",
                    share_text(sum / answer.num_known), readable_name(watched->name),
                    answer.num_known, count(1), count(0));
    if (framed_cell(question, answer)) {
      const float gap = answer.gap.values[static_cast<std::size_t>(first)];
      text += fmt::format(" Worst is {} (framed): {}, where the oracle keeps {}.", at_first,
                          share_text(value(first)), share_text(value(first) + gap));
    }
    return text;
  }
  if (!answer.gap.values.empty()) {
    const float gap = answer.gap.values[static_cast<std::size_t>(first)];
    return fmt::format(
        "{} is furthest below the oracle's in {} (framed): {:.2f}, where the oracle has {:.2f}.",
        title, at_first, value(first), value(first) + gap);
  }
  const bool directed = replay::info_of(answer.overview.number).better != replay::Better::Neither;
  return fmt::format("{} is {} in {} (framed, {:.3f}), {} in {} ({:.3f}).", title,
                     directed ? "worst" : "highest", at_first, value(first),
                     directed ? "best" : "lowest", where_in(answer, last), value(last));
}

OverviewQuestion overview_question(const Workspace& workspace) {
  return overview_question(workspace, workspace.method());
}

OverviewQuestion overview_question(const Workspace& workspace, const MethodChoice& method) {
  return overview_question(workspace,
                           Drawn{workspace.place(), method, workspace.selection().numbers});
}

OverviewQuestion overview_question(const Workspace& workspace, const Drawn& one) {
  const auto own = workspace.option(kViewId, "chunks") == "all" ? NumberScope::Kind::All
                                                                : NumberScope::Kind::Chunk;
  OverviewQuestion question{one.place, one.method,
                            number_named(workspace.option(kViewId, "metric")),
                            number_chunks(one.numbers, one.place, own)};
  // What heads would keep alone was not recorded: all of it is selected anew, and says so.
  if (question.asked == Number::MergeLoss && question.method.known())
    question.method = choice_anew(*question.method.spec);
  return question;
}

Show overview_show(const Workspace& workspace) {
  const Number asked = number_named(workspace.option(kViewId, "metric"));
  const Show show = show_of(workspace, kViewId);
  return analysis::needs_method(asked) || show == Show::Traces ? show : Show::One;
}

AllDrawn overview_drawn(Workspace& workspace) {
  AllDrawn drawn = all_drawn(workspace, kViewId, Alike::Nothing);
  // Of a number of attention alone the method is any.
  if (overview_show(workspace) == Show::One) drawn.pictures.resize(1);
  return drawn;
}

Number OverviewQuestion::number() const {
  if (place.empty() || method.empty()) return asked;
  if (!analysis::needs_method(asked) || asked == Number::OutputError || asked == Number::MergeLoss)
    return asked;
  return facts_of(place, method).keeps_every_key() ? Number::OutputError : asked;
}

std::optional<trace::NamedKeys> OverviewQuestion::watched() const {
  return number() == Number::SpanKept ? watched_keys(place) : std::nullopt;
}

// Of a span the chunks that count depend on whether they were chosen.
std::string OverviewQuestion::counted_key() const {
  if (!watched()) return chunks.key();
  const std::vector<int> counted = counted_chunks();
  return counted.empty() ? "all" : trace::text_of_chunks(counted);
}

std::string OverviewQuestion::key() const {
  return of_method() ? OfMethod::key(number(), counted_key(), watched())
                     : key_of_members(place.key(At::Chunk), number());
}

std::string OverviewQuestion::title() const {
  return fmt::format("Measuring {} in all layers", replay::name_of(number()));
}

std::string OverviewQuestion::obstacle() const {
  const std::string obstacle =
      analysis::needs_method(asked) ? missing(place, method) : missing(place);
  if (!obstacle.empty()) return obstacle;
  if (asked == Number::MergeLoss) {
    return HeadMergeQuestion{place, method}.obstacle();
  }
  const bool unwatched = number() == Number::SpanKept && !watched();
  return unwatched ? "Choose keys to watch: the trace names no needle" : "";
}

std::vector<int> OverviewQuestion::counted_chunks() const {
  std::vector<int> counted = chunks.list();
  const auto keys = watched();
  if (!keys || chunks.chosen || !mean_of_chunks()) return counted;
  const std::int64_t from = replay::watched_from_question(keys->keys, place.info()).from;
  if (from == 0) return counted;
  if (counted.empty())
    for (std::size_t c = 0; c < place.info().chunks.size(); ++c)
      counted.push_back(static_cast<int>(c));
  std::erase_if(counted, [&](int chunk) {
    return place.info().chunks[static_cast<std::size_t>(chunk)].end() <= from;
  });
  return counted;
}

replay::ReplayResult OverviewQuestion::replayed(const WorkContext& context) const {
  const Number wanted = number();
  const bool error = wanted == Number::OutputError;
  const bool mass = !error && wanted != Number::SpanKept;
  // A run may cover fewer layers than the trace.
  const std::vector<int> layers =
      method.recorded() ? replay::checked_layers_of_run(*place.trace->session, method.run, {})
                        : place.info().layers;
  return run_method(place, method, layers, counted_chunks(), mass, error, context);
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
    const std::vector<int> asked_of = counted_chunks();
    replay::ReplayResult run = replayed(steps.context);
    std::optional<trace::KeySet> span;
    if (const auto keys = watched()) span = keys->keys;
    answer.overview = engine().overview_of_replay(run, wanted, asked_of, span);
    if (wanted == Number::MassRecall)
      answer.gap = engine().overview_of_replay(run, Number::Gap, asked_of, {}).values;
    if (wanted != Number::OutputError) answer.q_heads_per_column = std::max(1, run.q_heads_per_row);
    if (span) {
      // What is kept is there at once; which heads lose by it is known when all are measured.
      Answer so_far = answer;
      count(so_far);
      steps.show(std::move(so_far));
      answer.gap =
          span_gap(place, std::move(run), *span, asked_of, answer.overview.phase, steps.context);
    }
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
  return {0, grown(fmt::format("{}|{}", question.place.trace_key(), info.id), answer.highest)};
}

OverviewScale::Range OverviewScale::of(const OverviewDifferenceQuestion& question,
                                       const OverviewDifferenceQuestion::Answer& answer) {
  const std::string content = fmt::format("{}|{}|difference", question.a.place.trace_key(),
                                          replay::name_of(answer.less.overview.number));
  const double end = grown(content, answer.less.highest);
  return {-end, end};
}

double OverviewScale::grown(const std::string& content, double highest) {
  double& largest = highest_[content];
  largest = std::max(largest, highest);
  return round_up(largest);
}

ViewInfo layer_head_overview_view() {
  std::vector<std::string> numbers;
  for (const Number number : kOverviewNumbers) numbers.emplace_back(replay::name_of(number));
  return ViewInfo{kViewId, "Layer x head",
                  "one number for every layer and head: where to look first",
                  "What is kept of attention"}
      .follow(At::Cell | At::Keys)
      .take(2, more_methods)
      .with({show_option({Show::One, Show::Both, Show::Difference, Show::Traces, Show::Several},
                         "A less B"),
             {"metric", numbers,
              "what is measured in every head; span_kept: of the keys of --goto span=, else of "
              "the needle; merge_loss asks every query head alone, and takes longest"},
             {"chunks",
              {"current", "all"},
              "of a method: the current chunk, or the mean over all chunks of the prompt that "
              "selected, "
              "over the decode steps where none did; --numbers says more, and is followed first"}})
      .count_chunks()
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
