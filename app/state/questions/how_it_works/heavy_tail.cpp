#include "app/state/questions/how_it_works/heavy_tail.h"

#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/engine/engine.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kvloupe::state {
namespace {

constexpr const char* kView = "heavy_tail";
constexpr double kNoShare = std::numeric_limits<double>::quiet_NaN();

// The next rank of a line lies so much farther: less than a pixel apart on a log axis.
constexpr double kRankStep = 1.02;

void draw_heights(const std::vector<double>& heights, HeavyTailQuestion::Curve& curve) {
  curve.tail = analysis::hill_tail(heights);
  const std::size_t num = heights.size();
  for (std::size_t rank = 1; rank <= num;) {
    if (heights[rank - 1] > 0)  // else off a log axis
      curve.line.emplace_back(static_cast<double>(rank), heights[rank - 1]);
    const auto next = static_cast<std::size_t>(static_cast<double>(rank) * kRankStep);
    rank = rank < num ? std::min(std::max(rank + 1, next), num) : num + 1;
  }
}

HeavyTailQuestion::Shares shares_of(const std::vector<double>& masses) {
  HeavyTailQuestion::Shares shares;
  shares.ranking = analysis::rank(masses);
  shares.total = std::accumulate(masses.begin(), masses.end(), 0.0);
  if (!(shares.total > 0)) return shares;
  shares.half = analysis::count_holding_half(shares.ranking.value);
  std::vector<double> heights;
  for (std::size_t r = 0; r < masses.size(); ++r) heights.push_back(shares.height(r));
  draw_heights(heights, shares);
  return shares;
}

// How many of the keys that hold half of the mass are among the first of another ranking; `scores` of all
// past keys, position 0 among them.
std::optional<std::int64_t> found_by(const std::vector<double>& scores,
                                     const HeavyTailQuestion::Shares& keys) {
  if (scores.size() < 2 || keys.half == 0) return std::nullopt;
  const analysis::Ranking by_score = analysis::rank({scores.begin() + 1, scores.end()});
  return std::count_if(
      keys.ranking.item.begin(), keys.ranking.item.begin() + keys.half,
      [&](std::int32_t key) { return by_score.rank[static_cast<std::size_t>(key)] < keys.half; });
}

HeavyTailQuestion question_of(const Workspace& workspace) { return {workspace.place()}; }

// Rows of one kind; mass(rank) is what the item of a rank holds of `total`.
template <typename Mass>
void add_ranking(Table& table, const char* kind, const analysis::Ranking& ranking,
                 std::int64_t first_item, double total, const Mass& mass) {
  double cumulative = 0;
  for (std::size_t r = 0; r < ranking.size(); ++r) {
    const double share = total > 0 ? mass(r) / total : kNoShare;
    cumulative += share;
    table.rows.push_back(
        {kind, r + 1, first_item + ranking.item[r], ranking.value[r], share, cumulative});
  }
}

// The histogram, lowest bin first; value: where the bin begins, as a difference of cosines.
void add_deviations(Table& table, const analysis::ScoreDeviations& deviations) {
  double cumulative = 0;
  for (std::size_t i = 0; i < deviations.bins.size(); ++i) {
    const auto bin = static_cast<double>(deviations.first_bin + static_cast<std::int64_t>(i));
    const double share =
        static_cast<double>(deviations.bins[i]) / static_cast<double>(deviations.count);
    cumulative += share;
    table.rows.push_back({"score_deviation", i + 1, Cell(),
                          bin * analysis::ScoreDeviations::kBinWidth * deviations.sigma, share,
                          cumulative});
  }
}

Table table(Workspace& workspace) {
  Table table{{"kind", "rank", "index", "value", "share", "cumulative"}, {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  const HeavyTailQuestion::Answer& answer = *result;
  const std::int64_t begin = result.question.place.chunk_info().begin;
  add_ranking(table, "s_q", answer.relevance.ranking, begin, answer.queries.total, [&](auto r) {
    return answer.spread.query_mass[static_cast<std::size_t>(answer.relevance.ranking.item[r])];
  });
  add_ranking(table, "query_mass", answer.queries.ranking, begin, answer.queries.total,
              [&](auto r) { return answer.queries.ranking.value[r]; });
  add_ranking(table, "key_mass", answer.keys.ranking, 1, answer.keys.total,
              [&](auto r) { return answer.keys.ranking.value[r]; });
  add_deviations(table, answer.spread.deviations);
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return {};
  const analysis::Matrix& rows = *result->rows;
  const auto* order = row_order(*result, workspace.option(kView, "order"));
  if (order == nullptr) return array_of("<f4", {rows.rows, rows.cols}, rows.values);
  std::vector<float> values;
  values.reserve(rows.values.size());
  for (const std::int32_t row : *order) {
    const auto begin = rows.values.begin() + row * rows.cols;
    values.insert(values.end(), begin, begin + rows.cols);
  }
  return array_of("<f4", {rows.rows, rows.cols}, values);
}

}  // namespace

HeavyTailQuestion::Answer HeavyTailQuestion::work(Steps& steps) const {
  Answer answer;
  answer.rows = steps.need(AttentionRowsQuestion{place});
  answer.map = steps.need(AttentionStripQuestion{place});
  answer.spread = engine().heavy_tail(*place.trace->session, place.layer, place.chunk, place.q_head,
                                      *answer.rows, steps.context);
  const analysis::HeavyTail& spread = answer.spread;

  answer.relevance.ranking = analysis::rank(spread.relevance);
  std::vector<double> distances;  // a query along the mean may round to a little less than 0
  for (const double s_q : answer.relevance.ranking.value)
    distances.push_back(std::max(0.0, 1 + s_q));
  draw_heights(distances, answer.relevance);

  answer.queries = shares_of(spread.query_mass);
  const std::vector<double>& all_keys = spread.key_mass;
  answer.keys = shares_of({all_keys.begin() + (all_keys.empty() ? 0 : 1), all_keys.end()});
  const double sink = all_keys.empty() ? 0 : all_keys.front();
  if (sink > 0) answer.sink_share = sink / (sink + answer.keys.total);

  answer.found_by_largest = found_by(spread.largest_score, answer.keys);
  answer.found_by_mean = found_by(spread.mean_score, answer.keys);

  answer.quarter = (answer.num_queries() + 3) / 4;
  for (std::int64_t r = 0; r < answer.quarter && answer.queries.total > 0; ++r) {
    const std::int32_t row = answer.relevance.ranking.item[static_cast<std::size_t>(r)];
    answer.quarter_share += answer.queries.share(spread.query_mass[static_cast<std::size_t>(row)]);
  }
  return answer;
}

std::uint64_t HeavyTailQuestion::bytes(const Answer& answer) {
  constexpr std::uint64_t kPerItem = 2 * sizeof(double) + 2 * sizeof(std::int32_t);
  const auto items = static_cast<std::uint64_t>(2 * answer.num_queries() + answer.num_keys()) +
                     answer.spread.deviations.bins.size();
  return sizeof(answer) + AttentionRowsQuestion::bytes(*answer.rows) +
         bytes_in(answer.map->coarse.values, answer.spread.largest_score,
                  answer.spread.mean_score) +
         items * kPerItem;
}

const std::vector<std::int32_t>* row_order(const HeavyTailQuestion::Answer& answer,
                                           const std::string& order) {
  return order == "relevance" ? &answer.relevance.ranking.item : nullptr;
}

ViewInfo heavy_tail_view() {
  return ViewInfo{kView, "Heavy tail", "how few queries and keys carry a head's attention",
                  "Queries, keys and heads"}
      .follow(At::Cell | At::Query | At::Keys)
      .take(0)
      .with({{"plot",
              {"mass", "queries", "scores"},
              "left of the rows: the attention by key and by query, how far the queries lie from "
              "their mean, or how scores deviate from their key's mean"},
             {"order",
              {"relevance", "position"},
              "how the rows of attention are ordered: largest S_q on top, or as they come"}})
      .draw(problem_with<question_of>, table, array);
}

}  // namespace kvloupe::state
