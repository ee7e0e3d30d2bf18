#include "core/replay/explain.h"

#include "core/base/error.h"
#include "core/replay/key_facts.h"
#include "core/replay/needed_budget.h"
#include "core/replay/stage_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::replay {
namespace {

// Puts together what the runs of one cell say of one key.
class Explainer {
 public:
  Explainer(const session::TraceSession& session, const ExplainRequest& request,
            const WorkContext& context)
      : session_(session), request_(request), context_(context) {
    result_.method = request.spec.canonical();
    result_.spec = request.spec;
    result_.layer = request.layer;
    result_.chunk = request.chunk;
    result_.row = request.row;
    result_.layout = selection::row_layout(request.spec, session.shape());
    result_.key = request.key;
  }

  Explanation explain() {
    StageRuns runs(session_, request_.spec, request_.layer, request_.device, context_);
    const bool evicts = request_.spec.traits().evicts();
    CellRun run;
    for (int chunk = evicts ? 0 : request_.chunk; chunk <= request_.chunk; ++chunk) {
      context_.cancel.throw_if_cancelled();
      const bool here = chunk == request_.chunk;
      run = runs.step(chunk, {here, true, here});
      // A cut in which the key took no part, because it was evicted before, explains nothing.
      const auto& decided = run.decided.at(row());
      if (decided && decided->evidence.unit_of(request_.key)) decided_ = decided;
      if (!here) note_eviction(runs, chunk);
    }
    describe(run, result_);
    score(run);
    find_voters(run, runs);
    find_needed_budget();
    find_cause(run, runs.stages());
    return std::move(result_);
  }

 private:
  std::size_t row() const { return static_cast<std::size_t>(request_.row); }

  // Where the key was evicted.
  void note_eviction(const StageRuns& runs, int chunk) {
    const auto& dead = runs.evicted().at(row());
    if (std::binary_search(dead.begin(), dead.end(), request_.key)) evicted_after_ = chunk;
  }

  void score(const CellRun& run) {
    if (decided_)
      score_by(*decided_, run);
    else if (run.selection.blocks && !request_.spec.has_budget())
      score_by_threshold(run);
  }

  void score_by(const Decision& decided, const CellRun& run) {
    const selection::RowEvidence& evidence = decided.evidence;
    const std::int64_t unit = *evidence.unit_of(request_.key);
    describe_score(evidence, run, result_);
    if (request_.spec.traits().evicts() || decided.layer != request_.layer)
      result_.decided_at = {decided.layer, decided.chunk, evidence.num_units()};
    if (result_.score) units_needed_ = evidence.units_needed(unit);
  }

  // Of the masks that could have kept the key's block the one that came nearest, or keeps it by most.
  void score_by_threshold(const CellRun& run) {
    const trace::BlockMasks& masks = *run.selection.blocks;
    const trace::BlockGrid& grid = masks.grid;
    const std::int64_t block = request_.key / grid.block_size;
    result_.unit = {grid.key_begin(block), grid.key_end(block), 0, grid.num_past_blocks(), 0};
    if (block >= grid.num_past_blocks()) return;
    const int per_row = result_.layout.q_heads_per_row;
    const bool all_vote = run.selection.reads_masks;
    for (int head = request_.row * per_row; head < (request_.row + 1) * per_row; ++head)
      for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
        if (!all_vote && !masks.votes(i)) continue;
        const std::optional<double> threshold = threshold_of(run.selection, head, i);
        if (!threshold) continue;
        const auto own = static_cast<double>(run.selection.block_scores.row(head, i)[block]);
        if (result_.score && own - *threshold <= *result_.score - *result_.cut) continue;
        result_.score = own;
        result_.cut = *threshold;
        nearest_ = {head, grid.block_of_query_block(i)};
      }
  }

  // The method's own, or the lowest score that it kept there.
  static std::optional<double> threshold_of(const selection::CellSelection& selection, int head,
                                            std::int64_t query_block) {
    const trace::BlockMasks& masks = *selection.blocks;
    if (!selection.block_thresholds.empty())
      return static_cast<double>(selection.block_thresholds[static_cast<std::size_t>(
          head * masks.grid.num_query_blocks() + query_block)]);
    std::optional<double> lowest;
    for (std::int64_t j = 0; j <= masks.grid.block_of_query_block(query_block); ++j) {
      const std::size_t at = masks.index(head, query_block, j);
      if (masks.kept[at] == 0 || (!masks.forced.empty() && masks.forced[at] != 0)) continue;
      const auto score = static_cast<double>(selection.block_scores.row(head, query_block)[j]);
      lowest = lowest ? std::min(*lowest, score) : score;
    }
    return lowest;
  }

  void find_voters(const CellRun& run, StageRuns& runs) {
    // The chunk's queries decide nothing for a key that was evicted, nor where the method does not select.
    const bool rests =
        run.cell.phase == trace::Phase::Decode && !request_.spec.traits().acts_in_decode;
    const auto sampled = evicted_after_ || rests ? std::vector<std::vector<std::int32_t>>()
                                                 : runs.sampled_rows(run.cell);
    add_voters(run, sampled, result_);
  }

  void find_needed_budget() {
    if (!request_.spec.has_budget() || !request_.want_needed_budget) return;
    const std::int64_t unit = std::max<std::int64_t>(1, request_.spec.traits().page_size);
    std::optional<std::int64_t> guess;
    if (units_needed_) guess = std::min(*units_needed_ * unit, result_.candidates);
    result_.needed_budget = needed_budget(session_, request_, result_.candidates, guess, context_);
  }

  void find_cause(const CellRun& run, const std::vector<Stage>& stages) {
    const int per_row = result_.layout.q_heads_per_row;
    if (!result_.kept) result_.lost_at = run.cause(request_.row, request_.key, stages, per_row);
    for (const Alternative& alternative : run.alternatives)
      if (alternative.speaks_for(request_.row, per_row))
        result_.counterfactuals.push_back(
            {alternative.spec, alternative.change, alternative.keeps(request_.row, request_.key)});
    for (const Stage stage : stages) result_.stages.push_back(outcome(stage, run));
    if (result_.needed_budget)
      result_.counterfactuals.push_back(
          {request_.spec.with({{"budget_tokens", fmt::format("{}", *result_.needed_budget)}}),
           fmt::format("a budget of {} tokens", *result_.needed_budget), true});
  }

  StageOutcome outcome(Stage stage, const CellRun& run) const {
    switch (stage) {
      case Stage::Evicted: return {stage, result_.kept, detail_of_eviction()};
      case Stage::Threshold: return {stage, result_.kept, detail_of_threshold()};
      case Stage::Budget:
        // A budget of all candidates keeps every key.
        return {stage, result_.kept || (request_.want_needed_budget && !result_.needed_budget),
                detail_of_budget()};
      default: break;
    }
    bool keeps = false;
    std::string detail;
    for (const Alternative& alternative : run.alternatives) {
      if (alternative.stage != stage ||
          !alternative.speaks_for(request_.row, result_.layout.q_heads_per_row))
        continue;
      const bool kept = alternative.keeps(request_.row, request_.key);
      keeps |= kept;
      detail += fmt::format("{}{}: {}", detail.empty() ? "" : "; ", alternative.change,
                            kept ? "kept" : "lost");
    }
    if (stage == Stage::Unit)
      detail +=
          fmt::format("{}rank {} by true mass", detail.empty() ? "" : "; ", result_.true_rank);
    return {stage, result_.kept || !keeps, detail};
  }

  std::string detail_of_eviction() const {
    if (!evicted_after_) return "alive";
    std::string text = fmt::format("evicted after chunk {}", *evicted_after_);
    if (result_.score && result_.cut)
      text += fmt::format(": score {:.4g}, rank {} of {} at hand, cut {:.4g}", *result_.score,
                          *result_.rank, result_.decided_at->at_hand, *result_.cut);
    return text;
  }

  std::string detail_of_threshold() const {
    if (!result_.score || !result_.cut) return "no score is compared here";
    return fmt::format("query head {}, query block {}: score {:.4g} against {:.4g}", nearest_.first,
                       nearest_.second, *result_.score, *result_.cut);
  }

  std::string detail_of_budget() const {
    if (!request_.want_needed_budget) return "not looked for";
    return result_.needed_budget ? budget_words(result_) : "no budget keeps it";
  }

  const session::TraceSession& session_;
  const ExplainRequest& request_;
  const WorkContext& context_;
  Explanation result_;
  std::optional<Decision> decided_;
  std::optional<int> evicted_after_;
  std::optional<std::int64_t> units_needed_;
  std::pair<int, std::int64_t> nearest_{0, 0};  // query head, query block
};

}  // namespace

Explanation explain(const session::TraceSession& session, const ExplainRequest& request,
                    const WorkContext& context) {
  return Explainer(session, request, context).explain();
}

}  // namespace kvloupe::replay
