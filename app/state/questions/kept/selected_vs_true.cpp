#include "app/state/questions/kept/selected_vs_true.h"

#include "app/state/labels.h"
#include "app/state/shown_methods.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::state {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;

constexpr const char* kViewId = "selected_vs_true";

SelectedVsTrueQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

template <typename Row>
void each_listed(Workspace& workspace, const ListedKeys& listed, const std::vector<KeyRank>& keys,
                 const Row& row) {
  const std::vector<std::int32_t>* only = listed.by(workspace.option(kViewId, "filter"));
  const std::size_t count = only != nullptr ? only->size() : keys.size();
  for (std::size_t i = 0; i < count; ++i)
    row(keys[only != nullptr ? static_cast<std::size_t>((*only)[i]) : i]);
}

std::optional<double> recall_without_sink(const analysis::SelectedVsTrue& cell) {
  if (cell.first_candidate > 0) return std::nullopt;
  double kept = 0, all = 0;
  for (const KeyRank& key : cell.by_true_rank) {
    if (key.position == 0) continue;
    all += key.mass;
    if (is_kept(key.verdict)) kept += key.mass;
  }
  return all > 0 ? std::optional(kept / all) : std::nullopt;
}

std::string problem(Workspace& workspace) {
  if (show_of(workspace, kViewId) == Show::Both)
    return problem_of(workspace.ask(selected_by_both_question(workspace)));
  return problem_of(workspace.ask(question_of(workspace)));
}

Table table_of_both(Workspace& workspace) {
  Table table{{"true_rank", "position", "token", "mass", "mass_share", "selected_a", "verdict_a",
               "selected_b", "verdict_b"},
              {}};
  const auto result = workspace.ask(selected_by_both_question(workspace));
  if (!result) return table;
  each_listed(workspace, result->listed, result->of_a->cell.by_true_rank, [&](const KeyRank& key) {
    const KeyVerdict in_b = result->in_b(key.position);
    table.rows.push_back(
        {key.true_rank + 1, key.position,
         Token{result.question.place.trace->token_label[static_cast<std::size_t>(key.position)]},
         key.mass, result->of_a->share_of(key), is_kept(key.verdict), label_of(key.verdict),
         is_kept(in_b), label_of(in_b)});
  });
  return table;
}

Table table(Workspace& workspace) {
  if (show_of(workspace, kViewId) == Show::Both) return table_of_both(workspace);
  Table table{{"true_rank", "position", "token", "mass", "mass_share", "selected", "verdict"}, {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  each_listed(workspace, result->listed, result->cell.by_true_rank, [&](const KeyRank& key) {
    table.rows.push_back(
        {key.true_rank + 1, key.position,
         Token{result.question.place.trace->token_label[static_cast<std::size_t>(key.position)]},
         key.mass, result->share_of(key), is_kept(key.verdict), label_of(key.verdict)});
  });
  return table;
}

}  // namespace

void ListedKeys::add(std::int32_t index, KeyVerdict verdict) {
  if (verdict == KeyVerdict::Miss) misses_.push_back(index);
  if (verdict == KeyVerdict::Waste) wastes_.push_back(index);
}

void ListedKeys::add(std::int32_t index, KeyVerdict in_a, KeyVerdict in_b) {
  of_two_ = true;
  if (in_a == KeyVerdict::Miss || in_b == KeyVerdict::Miss) misses_.push_back(index);
  if (in_a == KeyVerdict::Waste || in_b == KeyVerdict::Waste) wastes_.push_back(index);
  if (is_kept(in_a) != is_kept(in_b)) kept_by_one_.push_back(index);
}

const std::vector<std::int32_t>* ListedKeys::by(const std::string& filter) const {
  if (filter == "misses") return &misses_;
  if (filter == "wastes") return &wastes_;
  return filter == "kept_by_one" && of_two_ ? &kept_by_one_ : nullptr;
}

Lane SelectedVsTrueQuestion::lane() const {
  constexpr std::int64_t kManyLogits = std::int64_t{1} << 27;
  if (place.empty()) return Lane::Compute;
  const trace::ModelInfo& model = place.info().model;
  const std::int64_t logits =
      std::int64_t{place.chunk_info().length} * place.chunk_info().end() * model.gqa_group_size();
  return selects() || logits > kManyLogits ? Lane::Whole : Lane::Compute;
}

SelectedVsTrueQuestion::Answer SelectedVsTrueQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  if (!place.info().has_queries(place.chunk)) throw trace::lacks_queries(place.info(), place.chunk);
  const replay::ReplayCell* selected = run->find(place.layer, place.chunk);
  if (selected == nullptr)
    throw input_error("the keys cannot be ranked",
                      fmt::format("the run has nothing for chunk {}", place.chunk),
                      "choose another chunk or method");
  Answer answer;
  answer.cell = engine().selected_vs_true(*place.trace->session, *selected, row_of(place, *run),
                                          run->q_heads_per_row);
  const std::vector<KeyRank>& keys = answer.cell.by_true_rank;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    answer.total_mass += keys[i].mass;
    answer.listed.add(static_cast<std::int32_t>(i), keys[i].verdict);
  }
  for (const KeyRank& key : keys)
    if (key.mass > 0) answer.least_share = answer.share_of(key);  // keys come by falling mass
  if (!selected->reads_masks) answer.recall_without_sink = recall_without_sink(answer.cell);
  answer.facts = facts_of(place, method, *run);
  return answer;
}

SelectedByBothQuestion selected_by_both_question(const Workspace& workspace) {
  return {workspace.place(), workspace.method(Slot::A), workspace.method(Slot::B)};
}

std::optional<KeptOfSpan> kept_of_span(const SelectedVsTrueQuestion::Answer& answer,
                                       const Place& place) {
  const analysis::SelectedVsTrue& cell = answer.cell;
  const auto span = watched_keys(place);
  if (!span) return std::nullopt;
  const auto keys = span->keys.positions_in(cell.first_candidate, std::ssize(cell.verdict));
  if (keys.empty()) return std::nullopt;
  KeptOfSpan kept{readable_name(span->name), 0, static_cast<std::int32_t>(keys.size())};
  for (const std::int32_t key : keys)
    kept.kept += analysis::is_kept(cell.verdict[static_cast<std::size_t>(key)]) ? 1 : 0;
  return kept;
}

std::string verdict_of(const SelectedVsTrueQuestion::Answer& answer, const Place& place) {
  const auto kept = kept_of_span(answer, place);
  if (!kept) return "";
  return fmt::format("{}, at a recall of {:.3f}.", words_of(*kept), answer.cell.mass_recall);
}

namespace {

std::int64_t kept_by_both(const SelectedByBothQuestion::Answer& answer) {
  const std::vector<KeyVerdict>& of_a = answer.of_a->cell.verdict;
  std::int64_t both = 0;
  for (std::size_t key = 0; key < of_a.size(); ++key)
    both += analysis::is_kept(of_a[key]) &&
                    analysis::is_kept(answer.in_b(static_cast<std::int32_t>(key)))
                ? 1
                : 0;
  return both;
}

}  // namespace

std::string verdict_of_both(const SelectedByBothQuestion::Answer& answer, const Place& place) {
  constexpr double kNearly = 0.02;
  const double a = answer.of_a->cell.mass_recall, b = answer.of_b->cell.mass_recall;
  const auto kept_a = kept_of_span(*answer.of_a, place), kept_b = kept_of_span(*answer.of_b, place);
  const std::string shared =
      kept_by_both(answer) == 1
          ? std::string(" In common: 1 key.")
          : fmt::format(" In common: {} keys.", format_count(kept_by_both(answer)));
  if (!kept_a || !kept_b)
    return fmt::format("A keeps {} of the attention mass, B {}.{}", share_text(a), share_text(b),
                       shared);
  const std::string recalls =
      std::abs(a - b) < kNearly ? fmt::format("at nearly the same recall ({:.3f} and {:.3f})", a, b)
                                : fmt::format("at recalls of {:.3f} and {:.3f}", a, b);
  return fmt::format("{}, {}.{}", words_of({{"A", *kept_a}, {"B", *kept_b}}), recalls, shared);
}

KeyVerdict SelectedByBothQuestion::Answer::in_b(std::int32_t position) const {
  const auto index = static_cast<std::size_t>(position);
  const std::vector<KeyVerdict>& verdicts = of_b->cell.verdict;
  return index < verdicts.size() ? verdicts[index] : KeyVerdict::Neither;
}

SelectedByBothQuestion::Answer SelectedByBothQuestion::work(Steps& steps) const {
  Answer answer;
  answer.of_a = steps.need(SelectedVsTrueQuestion{place, a});
  answer.of_b = steps.need(SelectedVsTrueQuestion{place, b});
  answer.same_order = steps.need(RunQuestion{place, a})->q_heads_per_row ==
                      steps.need(RunQuestion{place, b})->q_heads_per_row;
  const std::vector<KeyRank>& keys = answer.of_a->cell.by_true_rank;
  for (std::size_t i = 0; i < keys.size(); ++i)
    answer.listed.add(static_cast<std::int32_t>(i), keys[i].verdict, answer.in_b(keys[i].position));
  return answer;
}

std::uint64_t SelectedByBothQuestion::bytes(const Answer& answer) {
  return SelectedVsTrueQuestion::bytes(*answer.of_a) + SelectedVsTrueQuestion::bytes(*answer.of_b) +
         answer.listed.bytes();
}

ViewInfo selected_vs_true_view() {
  return ViewInfo{kViewId, "Selected vs true",
                  "the keys that attention weighs, and whether they were kept",
                  "What is kept of attention"}
      .follow(At::Cell | At::Keys)
      .take(2)
      .with({show_option({Show::One, Show::Both}),
             {"filter",
              {"all", "misses", "wastes", "kept_by_one"},
              "which keys the table lists: all, those missed, those kept in vain, of A and B those "
              "of either; kept_by_one: those that A or B alone kept"}})
      .on_paper(1.15F)
      .draw(problem, table);
}

}  // namespace kvloupe::state
