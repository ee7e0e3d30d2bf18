#include "app/state/questions/kept/selected_vs_true.h"

#include "app/state/labels.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

using analysis::KeyRank;
using analysis::KeyVerdict;

SelectedVsTrueQuestion question_of(const Workspace& workspace) {
  return {workspace.place(), workspace.method()};
}

Table table(Workspace& workspace) {
  Table table{{"true_rank", "position", "token", "mass", "mass_share", "selected", "verdict"}, {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  const std::string& filter = workspace.option("selected_vs_true", "filter");
  for (const KeyRank& key : result->cell.by_true_rank) {
    if ((filter == "misses" && key.verdict != KeyVerdict::Miss) ||
        (filter == "wastes" && key.verdict != KeyVerdict::Waste))
      continue;
    const bool selected = key.verdict == KeyVerdict::Hit || key.verdict == KeyVerdict::Waste;
    table.rows.push_back(
        {key.true_rank + 1, key.position,
         Token{result.question.place.trace->token_label[static_cast<std::size_t>(key.position)]},
         key.mass, result->share_of(key), selected, label_of(key.verdict)});
  }
  return table;
}

}  // namespace

SelectedVsTrueQuestion::Answer SelectedVsTrueQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
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
    if (keys[i].verdict == KeyVerdict::Miss) answer.misses.push_back(static_cast<std::int32_t>(i));
    if (keys[i].verdict == KeyVerdict::Waste) answer.wastes.push_back(static_cast<std::int32_t>(i));
  }
  for (const KeyRank& key : keys)
    if (key.mass > 0) answer.least_share = answer.share_of(key);  // keys come by falling mass
  answer.facts = facts_of(place, method, *run);
  return answer;
}

ViewInfo selected_vs_true_view() {
  return ViewInfo{"selected_vs_true", "Selected vs true",
                  "the keys that attention weighs, and whether they were kept",
                  "What is kept of attention"}
      .follow(At::Cell | At::Keys)
      .with({{"filter",
              {"all", "misses", "wastes"},
              "which keys the table lists: all, those missed, those kept in vain"}})
      .draw(problem_with<question_of>, table);
}

}  // namespace kvloupe::state
