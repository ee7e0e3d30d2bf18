#include "app/state/questions/why_lost/head_merge.h"

#include "app/state/kept_of_span.h"
#include "app/state/questions/why_lost/explain.h"
#include "app/state/questions/why_lost/worst_misses.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

using Answer = HeadMergeQuestion::Answer;
using Head = replay::HeadChoices::Head;
using replay::Stage;

bool merges_in(const MethodChoice& method, const OpenTrace& trace, int layer) {
  const auto stages = replay::stages_of(*method.spec, trace.shape(), layer);
  return std::find(stages.begin(), stages.end(), Stage::HeadMerge) != stages.end();
}

std::string problem(Workspace& workspace) {
  const auto result = workspace.ask(head_merge_question(workspace));
  return result && !result->nothing.empty() ? result->nothing : problem_of(result);
}

Table table(Workspace& workspace) {
  Table table{{"method", "layer", "row", "chunk", "q_head", "recall_alone", "recall_merged", "key",
               "token", "mass"},
              {}};
  const auto result = workspace.ask(head_merge_question(workspace));
  if (!result) return table;
  const Place& place = result.question.place;
  for (const Head& head : result->choices.heads) {
    const auto add = [&](const Cell& key, const Cell& token, const Cell& mass) {
      table.rows.push_back({MethodText{result.question.method.text}, place.layer,
                            table::HeadRow{result->layout, result->row}, place.chunk, head.q_head,
                            head.recall_alone, head.recall_merged, key, token, mass});
    };
    if (head.lost.empty()) add({}, {}, {});
    for (const Head::Key& key : head.lost)
      add(key.key, Token{place.trace->token_label.at(static_cast<std::size_t>(key.key))}, key.mass);
  }
  return table;
}

// "Of needle's 22 keys the shared set keeps 19, head 4 alone 21.": the head that would keep most. Empty where
// none is watched before the chunk.
std::string span_words(const Place& place, const replay::HeadChoices& choices) {
  const auto span = watched_keys(place);
  const std::int32_t past = place.chunk_info().begin;
  const auto first =
      static_cast<std::int32_t>(place.info().model.softmax_of(place.layer).first_visible(past));
  const auto total = span ? static_cast<std::int32_t>(span->keys.count_in(first, past)) : 0;
  if (total == 0) return "";
  const auto of = [&](const std::vector<std::int32_t>& kept) {
    const auto count = std::ranges::count_if(
        kept, [&](std::int32_t key) { return key < past && span->keys.contains(key); });
    return KeptOfSpan{readable_name(span->name), static_cast<std::int32_t>(count), total};
  };
  KeptBy best{"", {}};
  for (const Head& head : choices.heads)
    if (const KeptOfSpan own = of(head.own); best.who.empty() || own.kept > best.kept.kept)
      best = {fmt::format("head {} alone", head.q_head), own};
  const KeptBy shared{"the shared set", of(choices.merged)};
  return " " + words_of(std::vector{shared, best}) + ".";
}

}  // namespace

std::string why_no_merge(const MethodChoice& method, const OpenTrace& trace) {
  const selection::MethodSpec& spec = *method.spec;
  for (const int layer : trace.info().layers)
    if (merges_in(method, trace, layer)) return {};
  if (spec.traits().evicts())
    return fmt::format(
        "{} evicts keys for good: what a head would have kept alone depends on all chunks before, "
        "and is not asked.",
        method.id());
  if (trace.info().model.gqa_group_size() == 1)
    return "Each query head of this model has a KV head of its own: there is nothing to merge.";
  if (selection::row_layout(spec, trace.shape()).q_heads_per_row == 1)
    return fmt::format("{} chooses for each query head alone: it merges none.", method.id());
  return fmt::format("{} brings no query heads to one score: it merges none.", method.id());
}

int HeadMergeQuestion::row() const { return row_of_method(place, method); }

std::string HeadMergeQuestion::title() const {
  return fmt::format("Asking the heads of layer {} one by one", place.layer);
}

std::string HeadMergeQuestion::obstacle() const {
  const std::string obstacle = OfMethodAnew::obstacle();
  if (!obstacle.empty()) return obstacle;
  if (!method.known()) return unknown_method(method, "its heads cannot be asked one by one.");
  return why_no_merge(method, *place.trace);
}

Answer HeadMergeQuestion::work(Steps& steps) const {
  const replay::ExplainRequest request = request_of(place, method, -1);
  Answer answer;
  answer.row = request.row;
  answer.layout = selection::row_layout(*method.spec, place.trace->shape());
  answer.choices = engine().head_choices(*place.trace->session, request, steps.context);
  if (answer.choices.heads.empty())
    answer.nothing = fmt::format("Layer {} keeps everything in {}: nothing is merged.", place.layer,
                                 chunk_name(place.info(), place.chunk));
  for (const Head& head : answer.choices.heads)
    for (const auto* keys : {&head.lost, &head.gained})
      if (!keys->empty() && head.whole > 0)
        answer.most_share = std::max(answer.most_share, keys->front().mass / head.whole);
  return answer;
}

std::uint64_t HeadMergeQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.choices.merged.size() * sizeof(std::int32_t);
  for (const Head& head : answer.choices.heads)
    sum += sizeof(head) + head.own.size() * sizeof(head.own[0]) +
           (head.lost.size() + head.gained.size()) * sizeof(head.lost[0]);
  return sum;
}

HeadMergeQuestion head_merge_question(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

std::string sentence_of(const HeadMergeQuestion& question, const Answer& answer) {
  const auto& heads = answer.choices.heads;
  double alone = 0, merged = 0;
  const Head* worst = &heads.front();
  for (const Head& head : heads) {
    alone += head.recall_alone / static_cast<double>(heads.size());
    merged += head.recall_merged / static_cast<double>(heads.size());
    if (head.recall_alone - head.recall_merged > worst->recall_alone - worst->recall_merged)
      worst = &head;
  }
  const double loss = answer.choices.merge_loss();
  if (std::abs(loss) < 0.0005)
    return fmt::format(
               "One set for {} costs its heads nothing here: on average a head keeps {:.1f} % of "
               "its "
               "attention alone, {:.1f} % merged.",
               replay::row_words(answer.layout, answer.row), 100 * alone, 100 * merged) +
           span_words(question.place, answer.choices);
  std::string text = fmt::format(
      "With one set for {} {} keeps {:.1f} % of a head's attention on average, with a set for each "
      "head {:.1f} %.",
      replay::row_words(answer.layout, answer.row), question.method.id(), 100 * merged,
      100 * alone);
  if (worst->recall_alone > worst->recall_merged)
    text += fmt::format(" Query head {} loses most: {:.1f} % in place of {:.1f} %.", worst->q_head,
                        100 * worst->recall_merged, 100 * worst->recall_alone);
  return text + span_words(question.place, answer.choices);
}

ViewInfo head_merge_view() {
  return ViewInfo{"head_merge", "Head merge",
                  "what each query head would keep alone, and what one set for all of them loses",
                  "Lost keys"}
      .follow(At::Cell | At::Keys)
      .on_paper(0.9F)
      .draw(problem, table);
}

}  // namespace kvloupe::state
