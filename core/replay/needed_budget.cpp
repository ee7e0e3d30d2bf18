#include "core/replay/needed_budget.h"

#include "core/base/error.h"
#include "core/device/torch_device.h"
#include "core/replay/cells_of_heads.h"
#include "core/replay/prepared_method.h"
#include "core/replay/span_kept.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/score_memo.h"
#include "core/selection/selector.h"
#include "core/session/session_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace kvloupe::replay {
namespace {

bool holds(const std::vector<std::int32_t>& positions, std::int64_t key) {
  return std::binary_search(positions.begin(), positions.end(), key);
}

// The cell, and those that its set depends on, for any number of runs.
selection::Cell load_for_trials(const session::TraceSession& session, const PreparedMethod& method,
                                int layer, int chunk) {
  session::CellLoader loader(session, device::torch_device(method.device));
  selection::Cell cell =
      loader.load(layer, chunk, session.info().chunks[static_cast<std::size_t>(chunk)]);
  if (method.traits().needs_probe) session::add_probe(session, cell);
  return cell;
}

// What runs of many budgets have in common.
void share_scores(selection::Cell& cell) {
  cell.copies = std::make_shared<selection::KeyCopies>();
  cell.memo = std::make_shared<selection::ScoreMemo>();
}

PreparedMethod with_budget(const PreparedMethod& method, std::int64_t budget) {
  PreparedMethod tried = method;
  tried.spec = method.spec.with({{"budget_tokens", fmt::format("{}", budget)}});
  return tried;
}

class BudgetTrials {
 public:
  BudgetTrials(const session::TraceSession& session, const ExplainRequest& request,
               const std::vector<std::int64_t>& keys, const WorkContext& context)
      : keys_(keys),
        method_(prepare(session, request.spec, {request.layer}, request.device, context)),
        context_(context),
        row_(static_cast<std::size_t>(request.row)) {
    const selection::MethodSpec& spec = method_.spec;
    // Methods that evict are run from the first chunk on, budget by budget: the row's heads alone.
    if (spec.traits().evicts() && !spec.traits().decides_by_layer && !method_.basis) {
      kv_head_ = request.row;
      row_ = 0;
      method_.shape.num_q_heads /= method_.shape.num_kv_heads;
      method_.shape.num_kv_heads = 1;
    }
    const auto source = selection::source_layer(spec, method_.shape, request.layer);
    if (source) add(session, *source, request.chunk);
    // The chunks before decide what was evicted.
    for (int chunk = spec.traits().evicts() ? 0 : request.chunk; chunk <= request.chunk; ++chunk)
      add(session, request.layer, chunk);
  }

  bool keeps(std::int64_t budget) const {
    context_.cancel.throw_if_cancelled();
    const PreparedMethod tried = with_budget(method_, budget);
    const auto selector = tried.selector();
    for (const selection::Cell& cell : cells_) {
      const selection::CellSelection selection = selector->select(cell);
      if (&cell == &cells_.back())
        return std::all_of(keys_.begin(), keys_.end(), [&](std::int64_t key) {
          return holds(selection.rows[row_].positions, key);
        });
      if (!method_.traits().evicts()) continue;
      const auto evicted = selector->evict(cell);
      // An evicted key never returns.
      if (std::any_of(keys_.begin(), keys_.end(),
                      [&](std::int64_t key) { return holds(evicted[row_], key); }))
        return false;
    }
    return false;
  }

 private:
  void add(const session::TraceSession& session, int layer, int chunk) {
    selection::Cell cell = load_for_trials(session, method_, layer, chunk);
    if (kv_head_) cell = single_group(cell, *kv_head_);
    share_scores(cell);
    cells_.push_back(std::move(cell));
  }

  const std::vector<std::int64_t>& keys_;
  PreparedMethod method_;  // of one KV head alone where the cells are
  const WorkContext& context_;
  std::size_t row_;             // of the cells that are run
  std::optional<int> kv_head_;  // of which they are a part
  std::vector<selection::Cell> cells_;
};

// All rows of a layer, and the cells that their sets depend on.
class SpanTrials {
 public:
  SpanTrials(const session::TraceSession& session, const selection::MethodSpec& spec, int layer,
             const std::vector<int>& chunks, const trace::TokenSpan& span,
             const std::string& device, const WorkContext& context)
      : method_(prepare(session, spec, {layer}, device, context)), span_(span), context_(context) {
    const auto source = selection::source_layer(spec, method_.shape, layer);
    const auto add = [&](int of_layer, int chunk, bool asked) {
      selection::Cell cell = load_for_trials(session, method_, of_layer, chunk);
      share_scores(cell);
      most_ = std::max(most_, cell.kv_len());
      cells_.push_back({std::move(cell), asked});
    };
    // The chunks before decide what was evicted.
    for (int chunk = spec.traits().evicts() ? 0 : chunks.front(); chunk <= chunks.back(); ++chunk) {
      const bool asked = std::binary_search(chunks.begin(), chunks.end(), chunk);
      if (!asked && !spec.traits().evicts()) continue;
      if (source) add(*source, chunk, false);
      add(layer, chunk, asked);
    }
  }

  // A budget that leaves nothing to choose.
  std::int64_t most() const { return most_; }

  // By row, whether it keeps the span in every chunk.
  const std::vector<bool>& keeping(std::int64_t budget) {
    const auto [at, is_new] = tried_.try_emplace(budget);
    if (is_new) at->second = run(budget);
    return at->second;
  }

 private:
  struct Step {
    selection::Cell cell;
    bool asked = false;
  };

  std::vector<bool> run(std::int64_t budget) const {
    context_.cancel.throw_if_cancelled();
    const PreparedMethod tried = with_budget(method_, budget);
    const auto selector = tried.selector();
    std::vector<bool> keeps;
    for (const Step& step : cells_) {
      const selection::CellSelection selection = selector->select(step.cell);
      keeps.resize(selection.rows.size(), true);
      for (std::size_t row = 0; step.asked && row < keeps.size(); ++row) {
        const SpanCount count = count_in_span(selection, row, {span_.begin, span_.end});
        keeps[row] = keeps[row] && count.kept == count.candidates;
      }
      if (method_.traits().evicts()) selector->evict(step.cell);
    }
    return keeps;
  }

  PreparedMethod method_;
  const trace::TokenSpan span_;
  const WorkContext& context_;
  std::int64_t most_ = 1;
  std::vector<Step> cells_;
  std::map<std::int64_t, std::vector<bool>> tried_;
};

// Where a larger budget keeps all that a smaller one does.
std::optional<std::int64_t> bisected(SpanTrials& trials, std::size_t row, std::int64_t unit) {
  if (!trials.keeping(trials.most())[row]) return std::nullopt;
  std::int64_t lost = 0, kept = trials.most();
  while (kept - lost > 1) {
    const std::int64_t middle = lost + (kept - lost) / 2;
    (trials.keeping(middle)[row] ? kept : lost) = middle;
  }
  return kept == 1 ? std::min(unit, trials.most()) : kept;
}

// Two budgets an octave, from the largest down.
std::optional<std::int64_t> tried_downwards(SpanTrials& trials, std::size_t row) {
  std::optional<std::int64_t> enough;
  for (double budget = static_cast<double>(trials.most()); budget >= 1; budget /= std::sqrt(2.0)) {
    const std::int64_t whole = std::llround(budget);
    if (!trials.keeping(whole)[row]) break;
    enough = whole;
  }
  return enough;
}

}  // namespace

RowBudgets span_budgets(const session::TraceSession& session, const selection::MethodSpec& spec,
                        int layer, const std::vector<int>& chunks, const trace::TokenSpan& span,
                        const std::string& device, const WorkContext& context) {
  SpanTrials trials(session, spec, layer, chunks, span, device, context);
  const std::int64_t unit = std::max<std::int64_t>(1, spec.traits().page_size);
  RowBudgets budgets;
  budgets.exact = spec.traits().grows_with_budget;
  for (std::size_t row = 0; row < trials.keeping(trials.most()).size(); ++row)
    budgets.rows.push_back(budgets.exact ? bisected(trials, row, unit)
                                         : tried_downwards(trials, row));
  return budgets;
}

std::optional<std::int64_t> needed_budget(const session::TraceSession& session,
                                          const ExplainRequest& request,
                                          const std::vector<std::int64_t>& keys,
                                          std::int64_t candidates,
                                          std::optional<std::int64_t> guess, std::int64_t unit,
                                          const WorkContext& context) {
  const BudgetTrials trials(session, request, keys, context);
  if (!request.spec.traits().grows_with_budget) {
    for (std::int64_t budget = 1; budget <= candidates; ++budget) {
      context.report(budget, candidates, "trying budgets");
      if (trials.keeps(budget)) return budget;
    }
    return std::nullopt;
  }
  if (guess && *guess <= candidates && trials.keeps(*guess)) {
    // The least number of whole units may be more than one: then they count all the same.
    const bool least = *guess == 1 || !trials.keeps(*guess - 1) || (unit > 1 && trials.keeps(1));
    if (least) return guess;
  }
  if (!trials.keeps(candidates)) return std::nullopt;
  std::int64_t lost = 0, kept = candidates;
  while (kept - lost > 1) {
    const std::int64_t middle = lost + (kept - lost) / 2;
    (trials.keeps(middle) ? kept : lost) = middle;
  }
  return kept == 1 ? std::min(unit, candidates) : kept;
}

SpanBudget budget_of_span(const session::TraceSession& session, const ExplainRequest& request,
                          std::int64_t begin, std::int64_t end, const WorkContext& context) {
  const selection::MethodSpec& spec = request.spec;
  KVLOUPE_CHECK(spec.has_budget());
  const trace::ChunkInfo& chunk = session.info().chunks[static_cast<std::size_t>(request.chunk)];
  const std::int64_t first =
      session.info().model.softmax_of(request.layer).first_visible(chunk.begin);
  const std::int64_t last = spec.scope() == selection::BudgetScope::All ? chunk.end() : chunk.begin;
  std::vector<std::int64_t> keys;
  for (std::int64_t key = std::max(begin, first); key < std::min(end, last); ++key)
    keys.push_back(key);
  SpanBudget found{std::ssize(keys), std::nullopt};
  if (keys.empty()) return found;
  const std::int64_t unit = std::max<std::int64_t>(1, spec.traits().page_size);
  found.budget = needed_budget(session, request, keys, last - first, std::nullopt, unit, context);
  return found;
}

}  // namespace kvloupe::replay
