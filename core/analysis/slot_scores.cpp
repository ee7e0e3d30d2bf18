#include "core/analysis/slot_scores.h"

#include "core/analysis/cell_of_head.h"
#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::analysis {
namespace {

using selection::Cell;
using selection::SlotScoring;

constexpr std::int64_t kMostScores = std::int64_t{1} << 26;

// The query heads that a slot joins, with the keys of their KV head.
struct Group {
  at::Tensor q, k, rows;

  std::vector<float> score(const at::Tensor& of_rows, std::int64_t num_keys,
                           const selection::CosineScoring& form) const {
    return selection::on_host<float>(selection::score_keys(q, k, of_rows, num_keys, form));
  }
};

Group group_of(const Cell& cell, const SlotScoring& slots, std::int64_t kv_head,
               std::int64_t first_head, std::int64_t num_heads) {
  return {cell.q.narrow(0, first_head, num_heads), cell.k.narrow(0, kv_head, 1),
          slots.rows.narrow(0, first_head, num_heads)};
}

void score_slots(const Group& group, const SlotScoring& slots, const WorkContext& context,
                 SlotScores& result) {
  result.scores.rows = group.rows.size(1);
  result.scores.cols = result.num_keys();
  for (std::int64_t slot = 0; slot < result.scores.rows; ++slot) {
    context.cancel.throw_if_cancelled();
    const auto values =
        group.score(group.rows.narrow(1, slot, 1).contiguous(), result.num_keys(), slots.form);
    result.scores.values.insert(result.scores.values.end(), values.begin(), values.end());
  }
  for (std::int64_t key = 0; key < result.num_keys(); ++key) {
    std::int32_t best = 0;
    for (std::int32_t slot = 1; slot < result.scores.rows; ++slot)
      if (result.scores.at(slot, key) > result.scores.at(best, key)) best = slot;
    result.winner.push_back(best);
  }
}

void name_queries(const Group& group, std::int32_t begin, SlotScores& result) {
  const auto heads = selection::rows_on_host(group.rows);
  result.queries.resize(heads.front().size());
  for (const std::vector<std::int32_t>& head : heads)
    for (std::size_t slot = 0; slot < head.size(); ++slot)
      result.queries[slot].push_back(begin + head[slot]);
}

void mark_kept(const trace::SelectedRow& row, SlotScores& result) {
  result.kept.assign(result.score.size(), 0);
  for (const std::int32_t position : row.positions)
    if (const std::int64_t key = position - result.first_key; key >= 0 && key < result.num_keys())
      result.kept[static_cast<std::size_t>(key)] = 1;
  if (std::find(result.kept.begin(), result.kept.end(), 0) == result.kept.end()) return;
  for (std::size_t key = 0; key < result.kept.size(); ++key)
    if (result.kept[key] != 0 && (!result.cut || result.score[key] < *result.cut))
      result.cut = result.score[key];
}

[[noreturn]] void refuse(const std::string& method) {
  throw input_error(fmt::format("slots of {} cannot be shown", method),
                    "it does not score keys against a few queries",
                    "choose quoka or uniform_queries");
}

void check_size(std::int64_t slots, std::int64_t keys) {
  if (slots * keys <= kMostScores) return;
  throw input_error(fmt::format("{} slots of {} keys cannot be shown", slots, keys),
                    fmt::format("more than {} scores have no room", kMostScores),
                    "set num_queries lower");
}

}  // namespace

SlotScores slot_scores(const session::TraceSession& session, const selection::MethodSpec& spec,
                       const replay::ReplayResult& replay, int layer, int chunk, int q_head,
                       const WorkContext& context) {
  const replay::ReplayCell& at = cell_of_head(replay, session.info(), layer, chunk, q_head);
  const Cell cell = selection::visible_part(session::load_cell(session, layer, chunk, at.span));
  // No method with slots needs a basis.
  const auto slots = selection::make_selector(spec, session.shape())->slots(cell);
  if (!slots) refuse(spec.canonical());

  SlotScores result;
  result.layer = layer;
  result.chunk = chunk;
  result.q_head = q_head;
  result.kv_head = static_cast<int>(q_head / cell.gqa_group_size());
  result.span = at.span;
  result.dense_reason = at.dense_reason;
  result.first_key = static_cast<std::int32_t>(cell.first_key);
  result.is_one_head = slots->form.group_reduce == selection::GroupReduce::ScoresFirst;
  result.takes_mean = slots->form.query_reduce == selection::QueryReduce::Mean;
  const std::int64_t num_keys =
      spec.scope() == selection::BudgetScope::All ? cell.kv_len() : cell.past_len;
  check_size(slots->rows.size(1), num_keys);
  const std::int64_t group = cell.gqa_group_size();
  const Group all = group_of(cell, *slots, result.kv_head, result.kv_head * group, group);
  const Group shown = result.is_one_head ? group_of(cell, *slots, result.kv_head, q_head, 1) : all;
  name_queries(shown, at.span.begin, result);
  if (num_keys == 0) return result;
  result.score = all.score(all.rows, num_keys, slots->form);
  score_slots(shown, *slots, context, result);
  mark_kept(at.rows.at(static_cast<std::size_t>(q_head / replay.q_heads_per_row)), result);
  return result;
}

}  // namespace kvloupe::analysis
