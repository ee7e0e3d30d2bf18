// Quest in plain loops: the bounds of every page from its keys, again for each query.
#include "tests/selection/oracle_loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace kvloupe::selection::testing {
namespace {

double page_bound(const Sequence& s, int head, int query, int begin, int end) {
  double sum = 0;
  for (int c = 0; c < s.shape.head_dim; ++c) {
    double best = -std::numeric_limits<double>::infinity();
    for (int token = begin; token < end; ++token)
      best = std::max(best, static_cast<double>(s.query(head, query)[c]) *
                                static_cast<double>(s.key(head / s.gqa_group_size(), token)[c]));
    sum += best;
  }
  return sum;
}

// The largest bound over the queries of each page of the keys [0, end).
Row page_values(const Sequence& s, int head, int first_query, int last_query, int end, int size) {
  Row values;
  for (int begin = 0; begin < end; begin += size) {
    double best = -std::numeric_limits<double>::infinity();
    for (int query = first_query; query <= last_query; ++query)
      best = std::max(best, page_bound(s, head, query, begin, std::min(begin + size, end)));
    values.push_back(best);
  }
  return values;
}

// Pages that one choice keeps for certain, and those that may stand in because of a near tie.
struct Choice {
  std::set<int> sure, possible;
};

Choice best_pages(const Row& values, std::int64_t count, bool force_last) {
  Choice choice;
  const int num_pages = static_cast<int>(values.size());
  std::vector<int> order;
  for (int page = 0; page < num_pages; ++page)
    if (!(force_last && page == num_pages - 1)) order.push_back(page);
  if (force_last) choice.sure.insert(num_pages - 1);
  const auto left = static_cast<std::size_t>(std::min<std::int64_t>(
      count - (force_last ? 1 : 0), static_cast<std::int64_t>(order.size())));
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  if (left > 0) {
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / static_cast<double>(num_pages);
    for (const double value : values) squares += (value - mean) * (value - mean);
    const double cut = values[order[left - 1]];
    const double near =
        1e-5 * std::max(std::abs(cut), std::sqrt(squares / static_cast<double>(num_pages)));
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double value = values[order[i]];
      // An exact tie is settled by position: the order is stable.
      if (i < left && (value > cut + near || value == cut)) choice.sure.insert(order[i]);
      if (std::abs(value - cut) <= near && value != cut) {
        choice.possible.insert(order[i]);
        choice.possible.insert(order[left - 1]);
      }
    }
    for (const int page : choice.possible) choice.sure.erase(page);
  }
  choice.possible.insert(choice.sure.begin(), choice.sure.end());
  return choice;
}

// The choices whose union a row of the selection is: by query row and by head.
std::vector<Choice> choices_of(const Sequence& s, const MethodSpec& spec,
                               const trace::ChunkInfo& span, int row) {
  const int size = static_cast<int>(spec.integer("page_size"));
  const bool kernel = spec.text("rule") == "kernel";
  const std::int64_t count = std::max<std::int64_t>(kernel ? 2 : 1, spec.budget(span.begin) / size);
  const bool force_last = kernel || spec.flag("force_last_page");
  const std::string& reduce = spec.text("gqa_reduce");
  std::vector<int> heads = {row};
  if (reduce != "per_query_head")
    heads = range(row * s.gqa_group_size(), (row + 1) * s.gqa_group_size());
  std::vector<Choice> choices;
  const auto choose = [&](int first_query, int last_query, int end) {
    std::vector<Row> values;
    for (const int head : heads)
      values.push_back(page_values(s, head, first_query, last_query, end, size));
    if (reduce == "max_score" || reduce == "mean_score") {
      Row merged(values.front().size(), reduce == "max_score" ? -1e300 : 0.0);
      for (const Row& one : values)
        for (std::size_t p = 0; p < merged.size(); ++p)
          merged[p] = reduce == "max_score"
                          ? std::max(merged[p], one[p])
                          : merged[p] + one[p] / static_cast<double>(values.size());
      values = {merged};
    }
    for (const Row& one : values) choices.push_back(best_pages(one, count, force_last));
  };
  if (span.phase == trace::Phase::Prefill && spec.text("prefill") == "chunk")
    choose(span.begin, span.end() - 1, span.begin);
  else
    for (int query = span.begin; query < span.end(); ++query) choose(query, query, query + 1);
  return choices;
}

}  // namespace

std::string page_defect(const Sequence& s, const MethodSpec& spec, int chunk, int row,
                        const SelectedRow& selected) {
  const trace::ChunkInfo& span = s.chunks[static_cast<std::size_t>(chunk)];
  const int size = static_cast<int>(spec.integer("page_size"));
  std::set<int> sure, possible;
  for (const Choice& choice : choices_of(s, spec, span, row)) {
    sure.insert(choice.sure.begin(), choice.sure.end());
    possible.insert(choice.possible.begin(), choice.possible.end());
  }
  const std::set<int> kept(selected.positions.begin(), selected.positions.end());
  for (int token = 0; token < span.begin; ++token) {
    const int page = token / size;
    if (sure.count(page) != 0 && kept.count(token) == 0)
      return fmt::format("token {} of page {} is missing", token, page);
    if (possible.count(page) == 0 && kept.count(token) != 0)
      return fmt::format("token {} of page {} should not be kept", token, page);
    if (kept.count(token) != kept.count(page * size))
      return fmt::format("page {} is torn at token {}", page, token);
  }
  // The last page of the past: that of chunk replay, or the one that the first query is in.
  const bool force_last = spec.text("rule") == "kernel" || spec.flag("force_last_page");
  const bool past_only = span.phase == trace::Phase::Prefill && spec.text("prefill") == "chunk";
  const int partial = span.begin % size;
  const int count = !force_last ? 0 : partial == 0 && past_only ? size : partial;
  std::vector<std::int32_t> forced;
  for (int token = span.begin - count; token < span.begin; ++token) forced.push_back(token);
  if (selected.forced != forced)
    return fmt::format("the tokens {} are forced, not the last {} of the past",
                       fmt::join(selected.forced, " "), count);
  return {};
}

}  // namespace kvloupe::selection::testing
