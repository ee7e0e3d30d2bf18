#include "app/panels/heavy_tail_words.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace kvloupe::panels {

using state::Place;

namespace {

std::string of_all(std::int64_t part, std::int64_t all) {
  return share_text(static_cast<double>(part) / static_cast<double>(all));
}

widgets::Chip tail_chip(const std::string& name, const std::optional<analysis::PowerTail>& tail,
                        std::int64_t count, const std::string& more) {
  if (!tail)
    return {name + " undefined", 0, "Too few values, or the largest are equal: no tail to fit."};
  return {
      fmt::format("{} {:.2f}", name, tail->index), 0,
      fmt::format("Hill's estimator over the k = {0} largest of n = {1} values, k the root of n: "
                  "k / sum of ln(x_i / x_{2}). The share of values above x falls as "
                  "x^-{3:.2f}: the smaller the index, the heavier the tail; below 2 the "
                  "variance is unbounded, below 1 the mean.{4}",
                  tail->top, format_count(count), tail->top + 1, tail->index, more)};
}

}  // namespace

std::vector<widgets::Chip> tail_chips(DrawContext& context, const Place& place,
                                      const TailAnswer& answer, const std::string& plot) {
  std::vector<widgets::Chip> chips;
  if (answer.has_mass()) {
    chips.push_back(tail_chip("keys: tail index", answer.keys.tail, answer.num_keys(),
                              " The values are the masses of the past keys but position 0."));
    chips.push_back(
        {fmt::format("sink {} of query head {}", share_text(answer.sink_share), place.q_head), 0,
         "Position 0's share of what the chunk's queries of this query head give to all past keys. "
         "A KV "
         "head serves several query heads: its share, in Selected vs true, is their mean. It is "
         "left out of every other number here."});
  }
  if (plot == "queries" && answer.num_queries() > 1)
    chips.push_back(tail_chip("queries: tail index", answer.relevance.tail, answer.num_queries(),
                              " The values are 1 + S_q; they cannot exceed 2, so the law only "
                              "describes the upper ranks."));
  if (const analysis::ScoreDeviations& scores = answer.spread.deviations;
      plot == "scores" && !scores.bins.empty())
    chips.push_back(
        {fmt::format("scores: {:.1f} to {:.1f} \u03C3", scores.lowest, scores.highest), 0,
         fmt::format(
             "The smallest and the largest of {} deviations of a score, cos(query, key), from its "
             "key's mean "
             "over the chunk's queries, in standard deviations (\u03C3 = {:.3g}). {:.3g} % lie "
             "above 3 \u03C3, in a normal distribution 0.135 %; the excess kurtosis is {:.2f}, "
             "there 0. A heavy tail means that some queries want a key much more than its "
             "mean says: their maximum shows it, the mean does not.",
             format_count(scores.count), scores.sigma, 100 * scores.above_3_sigma,
             scores.excess_kurtosis)});
  for (widgets::Chip& chip : trace_chips(context, place)) chips.push_back(std::move(chip));
  return chips;
}

namespace {

std::string half_finding(const TailAnswer& answer) {
  if (!answer.has_mass())
    return "No key besides position 0 lies before this chunk: there is no mass to share.";
  std::string text = fmt::format(
      "Half of the attention to the past, position 0 aside, lands on {} of {} keys ({})",
      format_count(answer.keys.half), format_count(answer.num_keys()),
      of_all(answer.keys.half, answer.num_keys()));
  if (answer.num_queries() == 1) return text + ".";
  return text + fmt::format(" and comes from {} of {} queries ({}).", answer.queries.half,
                            answer.num_queries(),
                            of_all(answer.queries.half, answer.num_queries()));
}

std::string far_queries_finding(const TailAnswer& answer) {
  if (!answer.has_mass() || answer.num_queries() == 1) return "";
  const double share_of_them = static_cast<double>(answer.quarter) / answer.num_queries();
  return fmt::format(
      "The {} of largest S_q {} {} of the attention to the past, {} their share of the queries.",
      answer.quarter == 1 ? "query" : fmt::format("{} queries", answer.quarter),
      answer.quarter == 1 ? "gives" : "give", share_text(answer.quarter_share),
      answer.quarter_share < share_of_them ? "less than" : "no less than");
}

std::string max_or_mean_finding(const TailAnswer& answer) {
  if (!answer.found_by_largest || !answer.found_by_mean) return "";
  const std::int64_t largest = *answer.found_by_largest, mean = *answer.found_by_mean;
  const char* verdict = largest > mean   ? "the maximum finds more"
                        : largest < mean ? "the mean finds more"
                                         : "both find as many";
  return fmt::format(
      "Here {3}: of the {0} keys that hold half of the attention {1} are among the {0} of largest "
      "maximum score, {2} among the {0} of largest mean score. {4:.2g} % of the scores lie more "
      "than 3 \u03C3 above their key's mean, in a normal distribution 0.13 %.",
      answer.keys.half, largest, mean, verdict, 100 * answer.spread.deviations.above_3_sigma);
}

}  // namespace

std::string tail_finding(const TailAnswer& answer, const std::string& plot) {
  std::string text;
  if (plot == "queries") text = far_queries_finding(answer);
  if (plot == "scores") text = max_or_mean_finding(answer);
  return text.empty() ? half_finding(answer) : text;
}

std::string tail_query_lines(const Place& place, const TailAnswer& answer, std::int32_t row) {
  const auto index = static_cast<std::size_t>(row);
  std::string text =
      fmt::format("query {}\nS_q {:.4f}, rank {} of {}",
                  token_line(place, place.chunk_info().begin + row), answer.spread.relevance[index],
                  answer.relevance.ranking.rank[index] + 1, answer.num_queries());
  if (answer.has_mass())
    text += fmt::format("\ngives {:.4g} to the past but position 0, {} of the mass",
                        answer.spread.query_mass[index],
                        share_text(answer.queries.share(answer.spread.query_mass[index])));
  return text;
}

}  // namespace kvloupe::panels
