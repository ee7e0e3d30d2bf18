#include "core/replay/key_facts.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::replay {
namespace {

constexpr std::size_t kVoters = 5;

void check_key(const CellRun& run, const Explanation& why) {
  const std::int64_t first = run.selection.first_candidate, end = run.selection.end_of_candidates();
  if (why.key >= first && why.key < end) return;
  throw input_error(
      fmt::format("key {} is no candidate of chunk {}", why.key, why.chunk),
      first == end ? std::string("nothing stands before the chunk, so nothing was decided")
                   : fmt::format("what is decided there are the keys {} to {}", first, end - 1),
      first == end ? "give a later chunk" : "give one of them, or a later chunk");
}

}  // namespace

void describe(const CellRun& run, Explanation& why) {
  check_key(run, why);
  const trace::SelectedRow& kept = run.selection.rows.at(static_cast<std::size_t>(why.row));
  why.kept = run.keeps(why.row, why.key);
  why.forced = std::binary_search(kept.forced.begin(), kept.forced.end(), why.key);
  why.dense_reason = run.selection.dense_reason;
  why.candidates = run.selection.num_candidates;
  why.budget = run.selection.budget_tokens;
  const float* mass = run.mass_of(why.row);
  const float own = mass[why.key];
  why.true_mass = static_cast<double>(own);
  why.true_rank = 1;
  for (std::int64_t key = run.selection.first_candidate; key < run.selection.end_of_candidates();
       ++key) {
    why.whole_mass += static_cast<double>(mass[key]);
    if (mass[key] > own || (mass[key] == own && key < why.key)) ++why.true_rank;
  }
}

void describe_score(const selection::RowEvidence& evidence, const CellRun& run, Explanation& why) {
  constexpr std::size_t kRivals = 5;
  const std::int64_t unit = *evidence.unit_of(why.key);
  const std::vector<std::int32_t> order = evidence.order();
  const std::int64_t end = run.selection.end_of_candidates();
  const auto keys_in = [&](std::int64_t which) {
    const std::int64_t begin = evidence.begin[static_cast<std::size_t>(which)];
    return std::max<std::int64_t>(0, std::min<std::int64_t>(evidence.end_of(which), end) - begin);
  };
  const double own = evidence.scores[static_cast<std::size_t>(unit)];
  if (!std::isnan(own)) why.score = own;
  why.cut = evidence.cut();
  std::int64_t before = 0, rank = 1;
  for (const std::int32_t which : order) {
    if (which == unit) break;
    before += keys_in(which);
    ++rank;
  }
  const std::int64_t begin = evidence.begin[static_cast<std::size_t>(unit)];
  why.rank = before + (why.key - begin) + 1;
  if (!evidence.end.empty())
    why.unit = {begin, std::min<std::int64_t>(evidence.end_of(unit), end), rank,
                evidence.num_units(), evidence.num_kept};
  for (std::int64_t i = std::min(evidence.num_kept, evidence.num_units()) - 1;
       i >= 0 && why.rivals.size() < kRivals; --i) {
    const std::int32_t which = order[static_cast<std::size_t>(i)];
    if (evidence.is_forced(which)) break;
    const std::int32_t key = evidence.begin[static_cast<std::size_t>(which)];
    why.rivals.push_back({key, evidence.scores[static_cast<std::size_t>(which)],
                          static_cast<double>(run.mass_of(why.row)[key])});
  }
}

void add_voters(const CellRun& run, const std::vector<std::vector<std::int32_t>>& sampled,
                Explanation& why) {
  const selection::Cell& cell = run.cell;
  const int per_row = why.layout.q_heads_per_row;
  for (int head = why.row * per_row; head < (why.row + 1) * per_row; ++head) {
    const at::Tensor key = cell.k[head / cell.gqa_group_size()][why.key];
    const std::vector<double> products =
        selection::on_host<double>(at::mv(cell.q[head].to(at::kDouble), key.to(at::kDouble)));
    for (std::int64_t t = 0; t < cell.chunk_len; ++t) {
      const std::int64_t position = cell.past_len + t;
      if (why.key < cell.softmax.first_visible(position)) continue;
      const auto lse =
          static_cast<double>(run.lse[static_cast<std::size_t>(head * cell.chunk_len + t)]);
      Explanation::Voter voter{
          head,
          position,
          std::exp(cell.softmax.logit(products[static_cast<std::size_t>(t)]) - lse),
          {}};
      if (!sampled.empty()) {
        const auto& rows = sampled.at(static_cast<std::size_t>(head));
        voter.sampled = rows.empty() || std::binary_search(rows.begin(), rows.end(), t);
      }
      why.voters.push_back(voter);
    }
  }
  const auto more = [](const auto& a, const auto& b) { return a.attention > b.attention; };
  std::stable_sort(why.voters.begin(), why.voters.end(), more);
  if (why.voters.size() > kVoters) why.voters.resize(kVoters);
}

}  // namespace kvloupe::replay
