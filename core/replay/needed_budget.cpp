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
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace kvloupe::replay {
namespace {

bool holds(const std::vector<std::int32_t>& positions, std::int64_t key) {
  return std::binary_search(positions.begin(), positions.end(), key);
}

// Cells for any number of runs. On a device those of a layer are views of one copy of it.
class TrialCells {
 public:
  TrialCells(const session::TraceSession& session, const PreparedMethod& method)
      : session_(session), method_(method) {}

  selection::Cell load(int layer, int chunk) {
    const auto [loader, is_new] =
        loaders_.try_emplace(layer, session_, device::torch_device(method_.device));
    selection::Cell cell =
        loader->second.load(layer, chunk, session_.info().chunks[static_cast<std::size_t>(chunk)]);
    if (method_.traits().needs_probe) session::add_probe(session_, cell);
    return cell;
  }

 private:
  const session::TraceSession& session_;
  const PreparedMethod& method_;
  std::map<int, session::CellLoader> loaders_;  // by layer
};

// The keys that are up for choice in a cell.
struct Candidates {
  std::int64_t first = 0, end = 0;
  std::int64_t count() const { return end - first; }
};
Candidates candidates_of(const session::TraceSession& session, const selection::MethodSpec& spec,
                         int layer, int chunk) {
  const trace::ChunkInfo& info = session.info().chunks[static_cast<std::size_t>(chunk)];
  return {session.info().model.softmax_of(layer).first_visible(info.begin),
          spec.scope() == selection::BudgetScope::All ? info.end() : info.begin};
}

// A budget that leaves nothing to choose, neither in the layer nor in the one that it takes keys from.
std::int64_t most_budget(const session::TraceSession& session, const PreparedMethod& method,
                         int layer, int chunk) {
  const std::int64_t here = candidates_of(session, method.spec, layer, chunk).count();
  const auto source = selection::source_layer(method.spec, method.shape, layer);
  return source ? std::max(here, candidates_of(session, method.spec, *source, chunk).count())
                : here;
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
               std::vector<std::int64_t> keys, const WorkContext& context)
      : keys_(std::move(keys)),
        method_(prepare(session, request.spec, {request.layer}, request.device, context)),
        context_(context),
        row_(static_cast<std::size_t>(request.row)) {
    const selection::MethodSpec& spec = method_.spec;
    most_ = most_budget(session, method_, request.layer, request.chunk);
    // Methods that evict are run from the first chunk on, budget by budget: the row's heads alone.
    if (spec.traits().evicts() && !spec.traits().decides_by_layer && !method_.basis) {
      kv_head_ = request.row;
      row_ = 0;
      method_.shape.num_q_heads /= method_.shape.num_kv_heads;
      method_.shape.num_kv_heads = 1;
    }
    const auto source = selection::source_layer(spec, method_.shape, request.layer);
    TrialCells cells(session, method_);
    if (source) add(cells.load(*source, request.chunk));
    // The chunks before decide what was evicted.
    for (int chunk = spec.traits().evicts() ? 0 : request.chunk; chunk <= request.chunk; ++chunk)
      add(cells.load(request.layer, chunk));
  }

  std::int64_t most() const { return most_; }

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
  void add(selection::Cell cell) {
    if (kv_head_) cell = single_group(cell, *kv_head_);
    share_scores(cell);
    cells_.push_back(std::move(cell));
  }

  const std::vector<std::int64_t> keys_;
  PreparedMethod method_;  // of one KV head alone where the cells are
  const WorkContext& context_;
  std::int64_t most_ = 1;
  std::size_t row_;             // of the cells that are run
  std::optional<int> kv_head_;  // of which they are a part
  std::vector<selection::Cell> cells_;
};

// All rows of a layer, and the cells that their sets depend on.
class SpanTrials {
 public:
  SpanTrials(const session::TraceSession& session, const selection::MethodSpec& spec, int layer,
             const std::vector<int>& chunks, const trace::KeySet& keys, const std::string& device,
             const WorkContext& context)
      : method_(prepare(session, spec, {layer}, device, context)), keys_(keys), context_(context) {
    const auto source = selection::source_layer(spec, method_.shape, layer);
    TrialCells loaded(session, method_);
    const auto add = [&](int of_layer, int chunk, bool asked) {
      selection::Cell cell = loaded.load(of_layer, chunk);
      share_scores(cell);
      cells_.push_back({std::move(cell), asked});
    };
    // The chunks before decide what was evicted.
    for (int chunk = spec.traits().evicts() ? 0 : chunks.front(); chunk <= chunks.back(); ++chunk) {
      const bool asked = std::binary_search(chunks.begin(), chunks.end(), chunk);
      if (!asked && !spec.traits().evicts()) continue;
      if (asked) most_ = std::max(most_, most_budget(session, method_, layer, chunk));
      if (source) add(*source, chunk, false);
      add(layer, chunk, asked);
    }
  }

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
        const SpanCount count = count_in_span(selection, row, keys_);
        keeps[row] = keeps[row] && count.kept == count.candidates;
      }
      if (method_.traits().evicts()) selector->evict(step.cell);
    }
    return keeps;
  }

  PreparedMethod method_;
  const trace::KeySet keys_;
  const WorkContext& context_;
  std::int64_t most_ = 1;
  std::vector<Step> cells_;
  std::map<std::int64_t, std::vector<bool>> tried_;
};

using Keeps = std::function<bool(std::int64_t budget)>;

// A budget that keeps where one less does not, between two of which that is known.
std::int64_t bisected(const Keeps& keeps, std::int64_t lost, std::int64_t kept) {
  while (kept - lost > 1) {
    const std::int64_t middle = lost + (kept - lost) / 2;
    (keeps(middle) ? kept : lost) = middle;
  }
  return kept;
}

// From the largest down, two an octave, until one does not keep.
struct Bracket {
  std::int64_t lost = 0, kept = 0;
};
Bracket tried_downwards(const Keeps& keeps, std::int64_t most) {
  Bracket bracket{0, most};
  for (double next = static_cast<double>(most); bracket.kept > 1;) {
    next /= std::sqrt(2.0);
    const std::int64_t budget = std::max<std::int64_t>(1, std::llround(next));
    if (budget == bracket.kept) continue;
    if (!keeps(budget)) {
      bracket.lost = budget;
      break;
    }
    bracket.kept = budget;
  }
  return bracket;
}

// The one rule by which the budget that is enough for several keys is found.
std::optional<std::int64_t> enough_budget(const Keeps& keeps, std::int64_t most,
                                          const selection::Traits& traits) {
  if (!keeps(most)) return std::nullopt;
  const Bracket bracket =
      traits.grows_with_budget ? Bracket{0, most} : tried_downwards(keeps, most);
  const std::int64_t enough = bisected(keeps, bracket.lost, bracket.kept);
  return enough == 1 ? std::min(std::max<std::int64_t>(1, traits.page_size), most) : enough;
}

}  // namespace

RowBudgets span_budgets(const session::TraceSession& session, const selection::MethodSpec& spec,
                        int layer, const std::vector<int>& chunks, const trace::KeySet& keys,
                        const std::string& device, const WorkContext& context) {
  SpanTrials trials(session, spec, layer, chunks, keys, device, context);
  const selection::Traits& traits = spec.traits();
  RowBudgets budgets;
  budgets.exact = traits.grows_with_budget;
  const std::size_t rows = trials.keeping(trials.most()).size();
  for (std::size_t row = 0; row < rows; ++row)
    budgets.rows.push_back(enough_budget(
        [&](std::int64_t budget) { return trials.keeping(budget)[row]; }, trials.most(), traits));
  return budgets;
}

std::optional<std::int64_t> needed_budget(const session::TraceSession& session,
                                          const ExplainRequest& request, std::int64_t candidates,
                                          std::optional<std::int64_t> guess,
                                          const WorkContext& context) {
  const BudgetTrials trials(session, request, {request.key}, context);
  const selection::Traits traits = request.spec.traits();
  if (!traits.grows_with_budget) {
    for (std::int64_t budget = 1; budget <= candidates; ++budget) {
      context.report(budget, candidates, "trying budgets");
      if (trials.keeps(budget)) return budget;
    }
    return std::nullopt;
  }
  if (guess && *guess <= candidates && trials.keeps(*guess)) {
    // The least number of whole units may be more than one: then they count all the same.
    const bool least =
        *guess == 1 || !trials.keeps(*guess - 1) || (traits.page_size > 1 && trials.keeps(1));
    if (least) return guess;
  }
  return enough_budget([&](std::int64_t budget) { return trials.keeps(budget); }, candidates,
                       traits);
}

SpanBudget budget_of_span(const session::TraceSession& session, const ExplainRequest& request,
                          const trace::KeySet& watched, const WorkContext& context) {
  const selection::MethodSpec& spec = request.spec;
  KVLOUPE_CHECK(spec.has_budget());
  const Candidates up = candidates_of(session, spec, request.layer, request.chunk);
  const std::vector<std::int32_t> inside = watched.positions_in(up.first, up.end);
  std::vector<std::int64_t> keys(inside.begin(), inside.end());
  SpanBudget found{std::ssize(keys), std::nullopt};
  if (keys.empty()) return found;
  const BudgetTrials trials(session, request, std::move(keys), context);
  found.budget = enough_budget([&](std::int64_t budget) { return trials.keeps(budget); },
                               trials.most(), spec.traits());
  return found;
}

}  // namespace kvloupe::replay
