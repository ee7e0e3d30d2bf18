#include "core/replay/key_life.h"

#include "core/replay/stage_runs.h"
#include "core/selection/ranking.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace kvloupe::replay {
namespace {

// The key's score and the cut of what decided on it.
void add_score(const std::optional<Decision>& decided, const ExplainRequest& request,
               KeyLife::Chunk& chunk) {
  if (!decided) return;
  const auto unit = decided->evidence.unit_of(request.key);
  if (!unit) return;
  const double score = decided->evidence.scores[static_cast<std::size_t>(*unit)];
  if (!std::isnan(score)) chunk.score = score;
  chunk.cut = decided->evidence.cut();
}

constexpr std::size_t kMostLost = 20;

// A cell with what each of its query heads would have kept alone.
class ChoicesOfCell {
 public:
  ChoicesOfCell(const session::TraceSession& session, const ExplainRequest& request,
                const WorkContext& context) {
    StageRuns runs(session, request.spec, request.layer, request.device, context);
    q_heads_per_row_ = runs.layout().q_heads_per_row;
    run_ = runs.step(request.chunk, {.alternatives = true, .evidence = false, .mass = true});
    heads_ = cell_mass_and_lse(run_.cell, {trace::RowAxis::QHead, 1}).mass;
  }

  HeadChoices of_row(int row) const {
    HeadChoices choices;
    choices.merged = run_.selection.rows.at(static_cast<std::size_t>(row)).positions;
    for (const Alternative& alone : run_.alternatives)
      if (alone.stage == Stage::HeadMerge && alone.speaks_for(row, q_heads_per_row_))
        choices.heads.push_back(of_head(
            *alone.q_head, alone.rows[static_cast<std::size_t>(row)].positions, choices.merged));
    return choices;
  }

 private:
  HeadChoices::Head of_head(int q_head, const std::vector<std::int32_t>& own,
                            const std::vector<std::int32_t>& merged) const {
    const auto first = static_cast<std::size_t>(run_.selection.first_candidate),
               end = static_cast<std::size_t>(run_.selection.end_of_candidates());
    // M of the query head.
    const auto mass =
        std::span(heads_).subspan(static_cast<std::size_t>(q_head * run_.cell.kv_len()), end);
    double whole = 0;
    for (std::size_t key = first; key < end; ++key) whole += static_cast<double>(mass[key]);
    const auto share = [&](const std::vector<std::int32_t>& keys) {
      double sum = 0;
      for (const std::int32_t key : keys) sum += static_cast<double>(mass[key]);
      return whole > 0 ? sum / whole : 1;
    };
    // The best that one set has beside the other.
    const auto beyond = [&](const std::vector<std::int32_t>& set,
                            const std::vector<std::int32_t>& other) {
      std::vector<HeadChoices::Head::Key> keys;
      for (const std::int32_t key : set)
        if (!std::binary_search(other.begin(), other.end(), key))
          keys.push_back({key, static_cast<double>(mass[key])});
      std::sort(keys.begin(), keys.end(),
                [](const auto& a, const auto& b) { return a.mass > b.mass; });
      if (keys.size() > kMostLost) keys.resize(kMostLost);
      return keys;
    };
    return {.q_head = q_head,
            .own = own,
            .recall_alone = share(own),
            .recall_merged = share(merged),
            .lost = beyond(own, merged),
            .gained = beyond(merged, own),
            .whole = whole};
  }

  int q_heads_per_row_ = 1;
  CellRun run_;
  std::vector<float> heads_;  // [num_q_heads, kv_len]
};

}  // namespace

KeyLife key_life(const session::TraceSession& session, const ExplainRequest& request,
                 const WorkContext& context) {
  KeyLife life;
  StageRuns runs(session, request.spec, request.layer, request.device, context);
  const auto num_chunks = static_cast<int>(session.info().chunks.size());
  const auto row = static_cast<std::size_t>(request.row);
  // What is evicted is decided by all chunks before.
  if (request.spec.traits().evicts())
    trace::require_queries(session.info(), num_chunks, "the key cannot be followed");
  for (int c = 0; c < num_chunks; ++c) {
    context.cancel.throw_if_cancelled();
    if (!session.info().has_queries(c)) {
      life.chunks.emplace_back().state = KeyLife::State::Unknown;
      continue;
    }
    const CellRun run = runs.step(c, {.alternatives = false, .evidence = true, .mass = true});
    KeyLife::Chunk& chunk = life.chunks.emplace_back();
    chunk.state = state_of_key(run.selection, run.cell.kv_len(), request.row, request.key,
                               life.evicted_after.has_value());
    chunk.dense = run.selection.dense_reason.has_value();
    context.report(c + 1, num_chunks, "following the key");
    if (chunk.state != KeyLife::State::Unborn && chunk.state != KeyLife::State::Own) {
      const float* mass = run.mass_of(request.row);
      double whole = 0;
      for (auto key = run.selection.first_candidate; key < run.selection.end_of_candidates(); ++key)
        whole += static_cast<double>(mass[key]);
      chunk.true_mass = static_cast<double>(mass[request.key]);
      chunk.share = whole > 0 ? chunk.true_mass / whole : 0;
      const auto& forced = run.selection.rows.at(row).forced;
      chunk.forced = std::binary_search(forced.begin(), forced.end(), request.key);
      add_score(run.decided.at(row), request, chunk);
    }
    const auto& evicted = runs.evicted();
    if (row < evicted.size() &&
        std::binary_search(evicted[row].begin(), evicted[row].end(), request.key))
      life.evicted_after = c;
  }
  return life;
}

HeadChoices head_choices(const session::TraceSession& session, const ExplainRequest& request,
                         const WorkContext& context) {
  if (request.spec.traits().evicts()) return {};
  const ChoicesOfCell cell(session, request, context);
  return cell.of_row(request.row);
}

std::vector<HeadChoices> head_choices_of_rows(const session::TraceSession& session,
                                              const ExplainRequest& request,
                                              const WorkContext& context) {
  const int per_row = selection::row_layout(request.spec, session.shape()).q_heads_per_row;
  std::vector<HeadChoices> rows(static_cast<std::size_t>(session.shape().num_q_heads / per_row));
  if (request.spec.traits().evicts()) return rows;
  const ChoicesOfCell cell(session, request, context);
  for (std::size_t row = 0; row < rows.size(); ++row)
    rows[row] = cell.of_row(static_cast<int>(row));
  return rows;
}

}  // namespace kvloupe::replay
