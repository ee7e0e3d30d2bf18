// A less B, by layer and head (layer_head_overview.h).
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace kvloupe::state {

OverviewDifferenceQuestion overview_difference_question(const Workspace& workspace) {
  return {overview_question(workspace, workspace.method(Slot::A)),
          overview_question(workspace, workspace.method(Slot::B))};
}

std::string overview_finding(const OverviewDifferenceQuestion& question,
                             const OverviewDifferenceQuestion::Answer& answer) {
  const std::vector<std::int32_t>& heads = answer.less.by_worth;
  if (heads.empty()) return "";
  double of_a = 0, of_b = 0;
  for (const std::int32_t i : heads) {
    of_a += answer.of_a[static_cast<std::size_t>(i)];
    of_b += answer.of_b[static_cast<std::size_t>(i)];
  }
  const auto count = static_cast<double>(heads.size());
  const replay::NumberInfo& info = replay::info_of(question.a.number());
  return fmt::format(
      "{} is {:.3f} for A and {:.3f} for B, averaged over {} heads. A is {} in {}, B in {}.",
      replay::headline_of(info.number), of_a / count, of_b / count, heads.size(),
      info.better == replay::Better::Neither ? "higher" : "better", answer.a_better,
      answer.b_better);
}

std::string OverviewDifferenceQuestion::obstacle() const {
  for (const OverviewQuestion* question : {&a, &b})
    if (const std::string obstacle = question->obstacle(); !obstacle.empty()) return obstacle;
  if (a.number() == b.number()) return "";
  return fmt::format(
      "One of A and B cuts lanes and keeps every key: it has no {}. Choose the output error, or "
      "another method.",
      replay::info_of(a.asked).title);
}

namespace {

using Cells = std::vector<std::pair<int, int>>;

// The question asked of these cells alone; `whole` is its answer.
OverviewQuestion::Answer over(const Cells& cells, const OverviewQuestion& question,
                              const OverviewQuestion::Answer& whole, const WorkContext& context) {
  replay::ReplayResult run = question.replayed(context);
  std::erase_if(run.cells, [&](const replay::ReplayCell& cell) {
    return !std::ranges::binary_search(cells, std::pair(cell.layer, cell.chunk));
  });
  std::optional<trace::KeySet> span;
  if (const auto keys = question.watched()) span = keys->keys;
  OverviewQuestion::Answer answer;
  answer.q_heads_per_column = whole.q_heads_per_column;
  answer.overview = engine().overview_of_replay(run, question.number(), {}, span);
  return answer;
}

// A value for every head of a finer layout.
std::vector<float> spread(const analysis::Matrix& values, std::int64_t cols) {
  std::vector<float> spread;
  for (std::int64_t r = 0; r < values.rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) spread.push_back(values.at(r, c * values.cols / cols));
  return spread;
}

}  // namespace

OverviewDifferenceQuestion::Answer difference_of(const OverviewQuestion::Answer& a,
                                                 const OverviewQuestion::Answer& b) {
  const bool a_is_finer = a.overview.values.cols >= b.overview.values.cols;
  const OverviewQuestion::Answer& finer = a_is_finer ? a : b;
  const std::int64_t cols = finer.overview.values.cols;
  const std::int64_t coarse = a_is_finer ? b.overview.values.cols : a.overview.values.cols;
  if (a.overview.layers != b.overview.layers || coarse < 1 || cols % coarse != 0)
    throw input_error("A and B cannot be compared head by head",
                      "they have other layers, or rows of other heads", "choose another method");
  OverviewDifferenceQuestion::Answer answer;
  answer.of_a = spread(a.overview.values, cols);
  answer.of_b = spread(b.overview.values, cols);
  OverviewQuestion::Answer& less = answer.less;
  less.overview = {finer.overview.number,
                   a.overview.phase,
                   finer.overview.layers,
                   finer.overview.per_kv_head,
                   {finer.overview.values.rows, cols, {}}};
  less.q_heads_per_column = finer.q_heads_per_column;
  const bool lower_is_better =
      replay::info_of(less.overview.number).better == replay::Better::Lower;
  std::vector<float>& values = less.overview.values.values;
  for (std::size_t i = 0; i < answer.of_a.size(); ++i) {
    const float value = answer.of_a[i] - answer.of_b[i];
    values.push_back(value);
    if (std::isnan(value)) {
      ++less.num_dense;
      continue;
    }
    ++less.num_known;
    less.highest = std::max(less.highest, std::abs(value));
    less.by_worth.push_back(static_cast<std::int32_t>(i));
    answer.a_better += lower_is_better ? value < 0 : value > 0;
    answer.b_better += lower_is_better ? value > 0 : value < 0;
  }
  std::stable_sort(less.by_worth.begin(), less.by_worth.end(), [&](std::int32_t x, std::int32_t y) {
    const float of_x = values[static_cast<std::size_t>(x)];
    const float of_y = values[static_cast<std::size_t>(y)];
    return lower_is_better ? of_x > of_y : of_x < of_y;
  });
  return answer;
}

OverviewDifferenceQuestion::Answer OverviewDifferenceQuestion::work(Steps& steps) const {
  const auto of_a = steps.need(a);
  const auto of_b = steps.need(b);
  const Cells &in_a = of_a->overview.cells, &in_b = of_b->overview.cells;
  if (in_a == in_b) return difference_of(*of_a, *of_b);
  // Means over different cells cannot be compared.
  Cells common;
  std::ranges::set_intersection(in_a, in_b, std::back_inserter(common));
  if (common.empty())
    throw input_error("A and B cannot be compared head by head",
                      "in no layer and chunk do both choose among the keys",
                      "choose other chunks, or another method");
  return difference_of(over(common, a, *of_a, steps.context),
                       over(common, b, *of_b, steps.context));
}

std::uint64_t OverviewDifferenceQuestion::bytes(const Answer& answer) {
  return OverviewQuestion::bytes(answer.less) +
         (answer.of_a.size() + answer.of_b.size()) * sizeof(float);
}

}  // namespace kvloupe::state
