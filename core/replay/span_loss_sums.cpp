// What is said of a span's heads together, without computing any. Free of Torch.
#include "core/base/letters.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/replay/method_choice.h"
#include "core/replay/span_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::replay {
namespace {

void add(SpanLoss::Sums& sums, const SpanHead& head, bool& all_known) {
  ++sums.heads;
  sums.whole += head.keeps_all();
  sums.nothing += head.kept == 0;
  sums.kept += head.kept;
  sums.keys += head.keys;
  sums.mass += head.mass;
  sums.lost_mass += head.lost_mass;
  for (std::size_t i = 0; i < sums.lost_to.size(); ++i) sums.lost_to[i] += head.lost_to[i];
  all_known &= head.enough.has_value();
  if (all_known) sums.enough = std::max(sums.enough.value_or(0), *head.enough);
  if (!all_known) sums.enough.reset();
}

std::string percent(double share) {
  const double rounded = std::round(100 * share);
  if (share > 0 && rounded < 1) return "less than 1 %";
  if (share < 1 && rounded > 99) return "more than 99 %";
  return fmt::format("{:.0f} %", rounded);
}

std::string heads_word(const selection::RowLayout& layout, std::int64_t count) {
  const char* const kind = layout.axis == trace::RowAxis::KvHead ? "KV head"
                           : layout.q_heads_per_row == 1         ? "query head"
                                                                 : "group of query heads";
  if (count == 1) return kind;
  return layout.axis == trace::RowAxis::KvHead || layout.q_heads_per_row == 1
             ? fmt::format("{}s", kind)
             : "groups of query heads";
}

// "quoka 256"; what more a SPEC says stands beside the sentence.
std::string brief_name(const MethodChoice& method) {
  if (!method.known()) return short_name(method);
  const std::int64_t tokens = method.spec->has_budget() ? method.spec->budget_tokens() : 0;
  return tokens > 0 ? fmt::format("{} {}", method.spec->id(), format_count(tokens))
                    : method.spec->id();
}

// "In chunk 15", "In the chunks 3 to 7".
std::string words_of_chunks(const std::vector<int>& chunks) {
  if (chunks.empty()) return "In no chunk";
  if (chunks.size() == 1) return fmt::format("In chunk {}", chunks.front());
  if (chunks.back() - chunks.front() + 1 == static_cast<int>(chunks.size()))
    return fmt::format("In the chunks {} to {}", chunks.front(), chunks.back());
  return fmt::format("In the chunks {}", fmt::join(chunks, ", "));
}

std::optional<std::int64_t> enough_of(const std::vector<const SpanHead*>& heads) {
  std::optional<std::int64_t> most;
  for (const SpanHead* head : heads) {
    if (!head->enough) return std::nullopt;
    most = std::max(most.value_or(0), *head->enough);
  }
  return most;
}

std::string causes_of(const SpanLoss::Sums& sums) {
  std::vector<std::string> causes;
  for (const Stage cause : sums.causes())
    causes.push_back(
        fmt::format("{} {}",
                    percent(static_cast<double>(sums.lost_to[static_cast<std::size_t>(cause)]) /
                            static_cast<double>(sums.lost())),
                    words_of(cause)));
  return fmt::format("{}", fmt::join(causes, ", "));
}

}  // namespace

SpanLoss::Sums SpanLoss::sums() const {
  Sums sums;
  bool all_known = true;
  for (const SpanHead& head : heads) replay::add(sums, head, all_known);
  return sums;
}

SpanLoss::Sums SpanLoss::sums_of_layer(int layer) const {
  Sums sums;
  bool all_known = true;
  for (const SpanHead& head : heads)
    if (head.layer == layer) replay::add(sums, head, all_known);
  return sums;
}

std::vector<const SpanHead*> SpanLoss::heads_of_mass(double share) const {
  std::vector<const SpanHead*> order;
  for (const SpanHead& head : heads) order.push_back(&head);
  std::stable_sort(order.begin(), order.end(),
                   [](const SpanHead* a, const SpanHead* b) { return a->mass > b->mass; });
  const double goal = share * sums().mass;
  double mass = 0;
  std::size_t count = 0;
  while (count < order.size() && mass < goal) mass += order[count++]->mass;
  order.resize(count);
  return order;
}

void SpanLoss::add(const SpanLoss& other) {
  layers.insert(layers.end(), other.layers.begin(), other.layers.end());
  heads.insert(heads.end(), other.heads.begin(), other.heads.end());
  dense_heads += other.dense_heads;
  idle_heads += other.idle_heads;
  comes_before |= other.comes_before;
  exact_budgets &= other.exact_budgets;
  for (const SpanChange& change : other.changes) {
    const auto same = std::find_if(changes.begin(), changes.end(), [&](const SpanChange& mine) {
      return mine.stage == change.stage && mine.change == change.change;
    });
    if (same == changes.end()) {
      changes.push_back(change);
      continue;
    }
    same->heads += change.heads;
    same->keys += change.keys;
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const SpanChange& a, const SpanChange& b) { return a.heads > b.heads; });
}

SpanLoss count_span(const ReplayResult& run, const MethodChoice& method,
                    const trace::NamedKeys& span) {
  SpanLoss loss;
  loss.method = method;
  loss.span = span;
  loss.layout = {run.row_axis, run.q_heads_per_row};
  loss.layers = run.layers;
  std::vector<SpanHead> of_layer;
  std::vector<bool> chose;
  const auto close = [&] {
    for (std::size_t row = 0; row < of_layer.size(); ++row) {
      if (of_layer[row].keys > 0) loss.heads.push_back(of_layer[row]);
      loss.dense_heads += !chose[row];
      loss.idle_heads += chose[row] && of_layer[row].keys == 0;
    }
    of_layer.clear();
    chose.clear();
  };
  for (std::size_t i = 0; i < run.cells.size(); ++i) {
    const ReplayCell& cell = run.cells[i];
    if (i > 0 && cell.layer != run.cells[i - 1].layer) close();
    if (std::find(loss.chunks.begin(), loss.chunks.end(), cell.chunk) == loss.chunks.end())
      loss.chunks.push_back(cell.chunk);
    loss.comes_before |= span.keys.meets(0, cell.span.begin);
    if (of_layer.empty()) {
      chose.assign(cell.rows.size(), false);
      for (std::size_t row = 0; row < cell.rows.size(); ++row)
        of_layer.push_back({cell.layer, static_cast<int>(row)});
    }
    if (!cell.chooses_keys()) continue;
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      const SpanCount count = count_in_span(cell, row, span.keys);
      of_layer[row].kept += count.kept;
      of_layer[row].keys += count.candidates;
      chose[row] = true;
    }
  }
  close();
  std::sort(loss.chunks.begin(), loss.chunks.end());
  return loss;
}

namespace {

// "none keeps", "1 keeps", "5 keep"
std::string keep_words(std::int64_t count) {
  return fmt::format("{} keep{}", count == 0 ? "none" : std::to_string(count),
                     count > 1 ? "" : "s");
}

// " keeps 42 % of needle. 1 of 3 KV heads keeps all 4 keys, 1 keeps none."
std::string kept_words(const SpanLoss& loss, const SpanLoss::Sums& sums, const std::string& span) {
  const std::int64_t length = loss.span.keys.size();
  const std::string heads = fmt::format("{} {}", sums.heads, heads_word(loss.layout, sums.heads));
  if (length == 1) return fmt::format(" keeps {} in {} of {}.", span, sums.whole, heads);
  return fmt::format(" keeps {} of {}. {} of {} keep{} all {} keys{}.",
                     percent(static_cast<double>(sums.kept) / static_cast<double>(sums.keys)), span,
                     sums.whole == 0 ? "None" : std::to_string(sums.whole), heads,
                     sums.whole > 1 ? "" : "s", length,
                     sums.nothing == 0 ? "" : fmt::format(", {} none", keep_words(sums.nothing)));
}

}  // namespace

std::string sentence_of(const SpanLoss& loss) {
  const SpanLoss::Sums sums = loss.sums();
  const std::string name = printable(brief_name(loss.method));
  const std::string span = printable(loss.span.name);
  const std::string where = words_of_chunks(loss.chunks);
  if (sums.heads == 0 && !loss.comes_before)
    return fmt::format("{} no key of {} comes before the chunk.", where, span);
  // Of those that chose a window hides the span, or it came after the chunks in which they did.
  if (sums.heads == 0)
    return loss.dense_heads > 0 && loss.idle_heads == 0
               ? fmt::format("{} {} keeps every key: none of {} is lost.", where, name, span)
               : fmt::format("{} {} does not choose among keys of {}.", where, name, span);
  std::string text = where + ' ' + name + kept_words(loss, sums, span);
  if (!loss.has_causes) return text;
  if (const auto matter = loss.heads_of_mass(kShareThatMatters); !matter.empty()) {
    const auto whole = std::count_if(matter.begin(), matter.end(),
                                     [](const SpanHead* head) { return head->keeps_all(); });
    text += fmt::format(" Of the {} {} with {} of its attention {} all.", matter.size(),
                        heads_word(loss.layout, std::ssize(matter)), percent(kShareThatMatters),
                        keep_words(whole));
  }
  const std::string causes = causes_of(sums);
  if (sums.lost() > 0)
    text += causes.empty() ? " Why is not recorded." : fmt::format(" Lost to: {}.", causes);
  return text;
}

std::string headline_of(const SpanLoss& loss) {
  const SpanLoss::Sums sums = loss.sums();
  if (sums.heads == 0) return sentence_of(loss);
  return fmt::format("{} {} keeps {} of {} over all {} {}.", words_of_chunks(loss.chunks),
                     printable(brief_name(loss.method)),
                     percent(static_cast<double>(sums.kept) / static_cast<double>(sums.keys)),
                     printable(loss.span.name), sums.heads, heads_word(loss.layout, sums.heads));
}

std::vector<SpanNumber> numbers_of(const SpanLoss& loss) {
  const SpanLoss::Sums sums = loss.sums();
  if (sums.heads == 0) return {};
  const auto of = [](std::int64_t count, std::int64_t all) {
    return fmt::format("{} of {}", count, all);
  };
  const std::string heads = heads_word(loss.layout, sums.heads);
  std::vector<SpanNumber> numbers{
      {of(sums.whole, sums.heads), heads + " keep all", "All of the span's keys, in all layers."},
      {of(sums.nothing, sums.heads), "keep none", ""}};
  if (!loss.has_causes) return numbers;
  if (const auto matter = loss.heads_of_mass(kShareThatMatters); !matter.empty())
    numbers.push_back(
        {of(std::count_if(matter.begin(), matter.end(),
                          [](const SpanHead* head) { return head->keeps_all(); }),
            std::ssize(matter)),
         "that matter keep all",
         fmt::format("Those that matter: the fewest heads with {} of the attention that the span "
                     "receives.",
                     percent(kShareThatMatters))});
  if (loss.has_budgets && sums.enough && sums.lost() > 0)
    numbers.push_back({format_count(*sums.enough), "budget that keeps all",
                       loss.exact_budgets ? "In every head; one less does not."
                                          : "The largest that a head needs."});
  return numbers;
}

std::string remedy_of(const SpanLoss& loss) {
  const SpanLoss::Sums sums = loss.sums();
  if (sums.lost() == 0 || !loss.has_causes) return "";
  std::string text;
  if (loss.has_budgets && sums.enough) {
    text = loss.exact_budgets
               ? fmt::format("A budget of {} keeps all of it in every head, {} does not",
                             format_count(*sums.enough), format_count(*sums.enough - 1))
               : fmt::format(
                     "Each head keeps all of it with a budget of its own, the largest {}; "
                     "with a larger one than its own a head may lose some again",
                     format_count(*sums.enough));
    if (const auto matter = enough_of(loss.heads_of_mass(kShareThatMatters));
        matter && *matter < *sums.enough)
      text += fmt::format("; {} is enough in the heads with {} of its attention",
                          format_count(*matter), percent(kShareThatMatters));
    text += ".";
  } else if (loss.has_budgets) {
    text = "No budget that was tried keeps all of it in every head.";
  }
  const int losing = sums.heads - sums.whole;
  for (const SpanChange& change : loss.changes)
    if (change.heads > 0)
      text +=
          fmt::format("{}{} would keep all of it in {} of the {} heads that lose some.",
                      text.empty() ? "" : " ", capitalised(change.change), change.heads, losing);
  return text;
}

}  // namespace kvloupe::replay
