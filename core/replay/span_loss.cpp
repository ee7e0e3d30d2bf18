#include "core/replay/span_loss.h"

#include "core/base/error.h"
#include "core/replay/needed_budget.h"
#include "core/replay/recorded_keys.h"
#include "core/replay/request_checks.h"
#include "core/replay/stage_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace kvloupe::replay {
namespace {

constexpr const char* kOneHead = "one of its query heads alone";

// The rows of one layer, chunk after chunk.
class LayerLoss {
 public:
  LayerLoss(const SpanLossRequest& request, int layer, const std::vector<Stage>& stages,
            const selection::RowLayout& layout, int num_rows)
      : request_(request), stages_(stages), layout_(layout) {
    for (int row = 0; row < num_rows; ++row) heads_.push_back({layer, row});
    chose_.assign(heads_.size(), false);
  }

  void add(const CellRun& run) {
    if (!run.selection.chooses_keys()) return;
    const auto first = run.selection.first_candidate, end = run.selection.end_of_candidates();
    for (SpanHead& head : heads_) {
      chose_[static_cast<std::size_t>(head.row)] = true;
      const float* const mass = run.mass_of(head.row);
      for (std::int64_t key = first; key < end; ++key)
        head.whole_mass += static_cast<double>(mass[key]);
      const std::vector<std::int32_t> asked = request_.span.keys.positions_in(first, end);
      for (const std::int32_t key : asked) {
        ++head.keys;
        head.mass += static_cast<double>(mass[key]);
        if (run.keeps(head.row, key)) {
          ++head.kept;
          continue;
        }
        head.lost_mass += static_cast<double>(mass[key]);
        if (!stages_.empty())
          ++head.lost_to[static_cast<std::size_t>(
              run.cause(head.row, key, stages_, layout_.q_heads_per_row))];
      }
      try_changes(run, head.row, asked);
    }
  }

  void finish(const std::optional<RowBudgets>& budgets, SpanLoss& loss) {
    for (SpanHead& head : heads_) {
      const auto row = static_cast<std::size_t>(head.row);
      loss.dense_heads += !chose_[row];
      loss.idle_heads += chose_[row] && head.keys == 0;
      if (head.keys == 0) continue;
      if (budgets) head.enough = budgets->rows.at(row);
      loss.heads.push_back(head);
    }
    for (auto& [name, tried] : changes_) {
      std::erase_if(tried.rows, [&](const auto& row) {
        return heads_[static_cast<std::size_t>(row.first)].keeps_all();
      });
      if (tried.rows.empty()) continue;
      for (const auto& [row, fates] : tried.rows) {
        const auto best = std::max_element(fates.begin(), fates.end(), RowChange::is_worse);
        tried.change.heads += best->second.all;
        tried.change.keys += best->second.keys;
      }
      loss.changes.push_back(std::move(tried.change));
    }
  }

 private:
  // What a change would do for a row, over the chunks so far.
  struct RowChange {
    bool all = true;        // keeps all of the span
    std::int64_t keys = 0;  // lost ones that it keeps

    using ByHead = std::map<std::optional<int>, RowChange>;
    static bool is_worse(const ByHead::value_type& a, const ByHead::value_type& b) {
      return std::pair(a.second.all, a.second.keys) < std::pair(b.second.all, b.second.keys);
    }
  };
  struct Tried {
    SpanChange change;
    // Heads that are merged are tried one by one: the best of them, the same in all chunks, counts.
    std::map<int, RowChange::ByHead> rows;
  };

  // Also where the row loses nothing: there the change may.
  void try_changes(const CellRun& run, int row, const std::vector<std::int32_t>& asked) {
    for (const Alternative& alternative : run.alternatives) {
      if (!alternative.speaks_for(row, layout_.q_heads_per_row)) continue;
      const std::string name = alternative.q_head ? kOneHead : alternative.change;
      Tried& tried =
          changes_.try_emplace(name, Tried{{alternative.stage, name, alternative.spec}, {}})
              .first->second;
      RowChange& fate = tried.rows[row][alternative.q_head];
      for (const std::int32_t key : asked) {
        const bool keeps = alternative.keeps(row, key);
        fate.all &= keeps;
        fate.keys += keeps && !run.keeps(row, key);
      }
    }
  }

  const SpanLossRequest& request_;
  const std::vector<Stage>& stages_;
  const selection::RowLayout layout_;
  std::vector<SpanHead> heads_;
  std::vector<bool> chose_;
  std::map<std::string, Tried> changes_;
};

SpanLoss described(const session::TraceSession& session, const SpanLossRequest& request) {
  SpanLoss loss;
  loss.method = request.method;
  loss.span = request.span;
  loss.layout = layout_of(request.method, session.info());
  loss.chunks = checked_chunks(session.info(), request.chunks, session.info().chunks.size());
  if (request.method.known() && request.method.spec->traits().evicts())
    trace::require_queries(session.info(), loss.chunks.empty() ? 0 : loss.chunks.back() + 1,
                           fmt::format("what {} lost is not known", request.method.spec->id()));
  if (!loss.chunks.empty()) {
    const auto last = static_cast<std::size_t>(loss.chunks.back());
    loss.comes_before = request.span.keys.meets(0, session.info().chunks[last].begin);
  }
  loss.has_causes = true;
  loss.has_budgets =
      request.want_budgets && request.method.known() && request.method.spec->has_budget();
  return loss;
}

// Of a known method, selected anew.
void add_layer(const session::TraceSession& session, const SpanLossRequest& request, int layer,
               const WorkContext& context, SpanLoss& loss) {
  const selection::MethodSpec& spec = *request.method.spec;
  StageRuns runs(session, spec, layer, request.device, context);
  const int rows = session.shape().num_q_heads / loss.layout.q_heads_per_row;
  LayerLoss layer_loss(request, layer, runs.stages(), loss.layout, rows);
  const bool may_lose = !runs.stages().empty();
  // What is evicted is decided by all chunks before.
  for (int chunk = spec.traits().evicts() ? 0 : loss.chunks.front(); chunk <= loss.chunks.back();
       ++chunk) {
    context.cancel.throw_if_cancelled();
    const bool wanted = std::binary_search(loss.chunks.begin(), loss.chunks.end(), chunk);
    if (!wanted && !spec.traits().evicts()) continue;
    const CellRun run =
        runs.step(chunk, {.alternatives = wanted, .evidence = false, .mass = wanted});
    if (wanted && may_lose) layer_loss.add(run);
  }
  std::optional<RowBudgets> budgets;
  if (loss.has_budgets && may_lose)
    budgets =
        span_budgets(session, spec, layer, loss.chunks, request.span.keys, request.device, context);
  if (budgets) loss.exact_budgets &= budgets->exact;
  layer_loss.finish(budgets, loss);
}

// Of a run of a method that this version does not know.
void add_layer_of_run(const session::TraceSession& session, const SpanLossRequest& request,
                      int layer, SpanLoss& loss) {
  RecordedRuns runs(session, request.method.run, layer, request.device);
  const int rows = session.shape().num_q_heads / loss.layout.q_heads_per_row;
  const std::vector<Stage> stages = runs.stages();
  LayerLoss layer_loss(request, layer, stages, loss.layout, rows);
  for (const int chunk : loss.chunks) layer_loss.add(runs.step(chunk));
  layer_loss.finish({}, loss);
}

}  // namespace

SpanLoss span_loss(const session::TraceSession& session, const SpanLossRequest& request,
                   const WorkContext& context) {
  SpanLoss loss = described(session, request);
  const std::vector<int> layers =
      request.method.recorded() ? checked_layers_of_run(session, request.method.run, request.layers)
                                : checked_layers(session.info(), request.layers);
  std::int64_t done = 0;
  for (const int layer : layers) {
    SpanLoss of_layer = described(session, request);
    of_layer.layers = {layer};
    if (request.method.known())
      add_layer(session, request, layer, {context.cancel, {}}, of_layer);
    else
      add_layer_of_run(session, request, layer, of_layer);
    loss.add(of_layer);
    context.report(++done, std::ssize(layers), "asking why");
  }
  return loss;
}

}  // namespace kvloupe::replay
