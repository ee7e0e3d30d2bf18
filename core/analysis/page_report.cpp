#include "core/analysis/page_report.h"

#include "core/analysis/cell_of_head.h"
#include "core/base/error.h"
#include "core/selection/blocks/pages.h"
#include "core/selection/cell_rows.h"
#include "core/selection/ranking.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::analysis {
namespace {

using selection::PageGrid;

// Pages that hold past keys, as the chunk's rows see them: in decode the new token is in its page.
std::vector<PageScore> score_pages(const selection::Cell& cell, int q_head, int page_size) {
  const std::int64_t seen = cell.phase == trace::Phase::Decode ? cell.kv_len() : cell.past_len;
  const PageGrid past{page_size, cell.past_len};
  const at::Tensor keys = cell.k.narrow(0, q_head / cell.gqa_group_size(), 1).narrow(1, 0, seen);
  const at::Tensor rows = cell.q.narrow(0, q_head, 1);
  selection::PageBounds bounds(page_size);
  bounds.extend(keys, seen);
  const auto scores = selection::on_host<float>(selection::page_scores(rows, bounds.values()));
  // Largest product of each key over the rows.
  const auto logits =
      selection::on_host<float>(selection::key_products(rows.squeeze(0), keys).amax(0));
  std::vector<PageScore> pages;
  for (std::int64_t page = 0; page < past.num_pages(); ++page) {
    PageScore score;
    score.begin = static_cast<std::int32_t>(bounds.grid().begin(page));
    score.end = static_cast<std::int32_t>(bounds.grid().end(page));
    const float best = *std::max_element(logits.begin() + score.begin, logits.begin() + score.end);
    score.bound = static_cast<float>(cell.softmax.logit(static_cast<double>(scores[page])));
    score.best = static_cast<float>(cell.softmax.logit(static_cast<double>(best)));
    pages.push_back(score);
  }
  return pages;
}

// 1 for the pages of which a row selected tokens.
std::vector<std::uint8_t> pages_taken(const trace::SelectedRow& row, std::int32_t past_len,
                                      int page_size) {
  std::vector<std::uint8_t> taken(
      static_cast<std::size_t>(PageGrid{page_size, past_len}.num_pages()), 0);
  for (const std::int32_t position : row.positions)
    taken[static_cast<std::size_t>(position / page_size)] = 1;
  return taken;
}

void judge(PageReport& report, const trace::SelectedRow& row,
           std::optional<std::int64_t> kept_by_rule) {
  const auto taken = pages_taken(row, report.span.begin, report.page_size);
  std::vector<float> best;
  for (const PageScore& page : report.pages) best.push_back(page.best);
  std::vector<std::uint8_t> forced(taken.size(), 0);
  if (kept_by_rule) forced[static_cast<std::size_t>(*kept_by_rule)] = 1;
  const auto count = std::count(taken.begin(), taken.end(), 1);
  std::vector<std::uint8_t> wanted(taken.size(), 0);
  for (const std::int32_t page : selection::keep_best(best, count, forced).indices)
    wanted[static_cast<std::size_t>(page)] = 1;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    PageVerdict& verdict = report.pages[i].verdict;
    if (forced[i] != 0)
      verdict = PageVerdict::Forced, ++report.forced;
    else if (taken[i] != 0 && wanted[i] != 0)
      verdict = PageVerdict::Hit, ++report.hits;
    else if (taken[i] != 0)
      verdict = PageVerdict::Waste, ++report.wastes;
    else if (wanted[i] != 0)
      verdict = PageVerdict::Miss, ++report.misses;
  }
}

// A step from the pages taken now, at the step before, and ever before.
PageStep make_step(const replay::ReplayCell& cell, const std::vector<std::uint8_t>& now,
                   const std::vector<std::uint8_t>& before, std::vector<std::uint8_t>& ever,
                   bool is_first) {
  PageStep step;
  step.chunk = cell.chunk;
  step.span = cell.span;
  ever.resize(now.size(), 0);
  int both = 0, either = 0;
  for (std::size_t page = 0; page < now.size(); ++page) {
    const bool was = page < before.size() && before[page] != 0;
    const bool is = now[page] != 0;
    PageMove move = ever[page] != 0 ? PageMove::Dropped : PageMove::Out;
    if (is) move = was ? PageMove::Kept : ever[page] != 0 ? PageMove::Reselected : PageMove::New;
    step.moves.push_back(move);
    step.taken += is;
    step.fresh += move == PageMove::New;
    step.reselected += move == PageMove::Reselected;
    both += is && was;
    either += is || was;
    ever[page] |= now[page];
  }
  if (!is_first) step.jaccard = either > 0 ? static_cast<double>(both) / either : 1.0;
  return step;
}

// Up to the first chunk that is missing: what was taken there, and what comes back after it, is not known.
std::vector<PageStep> steps_of(const PageReport& report, const replay::ReplayResult& replay,
                               const std::vector<trace::ChunkInfo>& chunks) {
  std::vector<PageStep> steps;
  std::vector<std::uint8_t> before, ever;
  const auto of_phase = [&](const trace::ChunkInfo& chunk) {
    return chunk.phase == report.span.phase;
  };
  auto next = std::find_if(chunks.begin(), chunks.end(), of_phase);
  for (const replay::ReplayCell& cell : replay.cells) {
    if (cell.layer != report.layer || cell.span.phase != report.span.phase) continue;
    if (next - chunks.begin() != cell.chunk) break;
    next = std::find_if(next + 1, chunks.end(), of_phase);
    if (cell.dense_reason) continue;
    const auto now = pages_taken(cell.rows.at(static_cast<std::size_t>(report.row)),
                                 cell.span.begin, report.page_size);
    steps.push_back(make_step(cell, now, before, ever, steps.empty()));
    before = now;
  }
  return steps;
}

}  // namespace

PageReport page_report(const session::TraceSession& session, const selection::MethodSpec& spec,
                       const replay::ReplayResult& replay, int layer, int chunk, int q_head,
                       const WorkContext& context) {
  const replay::ReplayCell& at = cell_of_head(replay, session.info(), layer, chunk, q_head);
  if (at.first_candidate > 0)
    throw input_error(
        fmt::format("the pages of layer {}, chunk {} cannot be shown", layer, chunk),
        fmt::format("the layer's window hides the keys before position {}, and pages with them",
                    at.first_candidate),
        "choose a layer without a window, or an earlier chunk");
  PageReport report;
  report.method = replay.method;
  report.layer = layer;
  report.chunk = chunk;
  report.q_head = q_head;
  report.row = q_head / replay.q_heads_per_row;
  report.span = at.span;
  report.page_size = static_cast<int>(spec.traits().page_size);
  report.dense_reason = at.dense_reason;
  if (at.span.begin > 0)
    report.pages =
        score_pages(session::load_cell(session, layer, chunk, at.span), q_head, report.page_size);
  context.cancel.throw_if_cancelled();
  // What was forced follows from the SPEC: a recorded run does not say it.
  if (!at.dense_reason)
    judge(report, at.rows.at(static_cast<std::size_t>(report.row)),
          spec.traits().forced_page(report.span.begin, report.span.phase));
  report.steps = steps_of(report, replay, session.info().chunks);
  for (const PageStep& step : report.steps)
    if (step.chunk == chunk)
      for (std::size_t page = 0; page < report.pages.size(); ++page)
        report.pages[page].move = step.moves[page];
  return report;
}

}  // namespace kvloupe::analysis
