#include "app/state/questions/why_lost/worst_misses.h"

#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

using replay::LostKey;
using replay::LostKeys;
using replay::Regret;
using replay::Stage;
using Answer = WorstMissesQuestion::Answer;

constexpr const char* kViewId = "worst_misses";

template <typename Line, typename Mass>
void merge_in(std::vector<Line>& all, const std::vector<Line>& more, Mass mass) {
  const auto middle = static_cast<std::ptrdiff_t>(all.size());
  all.insert(all.end(), more.begin(), more.end());
  std::inplace_merge(all.begin(), all.begin() + middle, all.end(),
                     [&](const Line& a, const Line& b) { return mass(a) > mass(b); });
}

void add_layer(const LostKeys& layer, Answer& answer) {
  LostKeys& all = answer.lost;
  all.layers.insert(all.layers.end(), layer.layers.begin(), layer.layers.end());
  all.by_layer.insert(all.by_layer.end(), layer.by_layer.begin(), layer.by_layer.end());
  all.all.add(layer.all);
  merge_in(all.keys, layer.keys, [](const LostKey& key) { return key.mass; });
  merge_in(all.regrets, layer.regrets, [](const Regret& one) { return one.mass_when_wanted; });
  answer.causes = all.all.causes();
}

Token token_of(const Place& place, std::int64_t key) {
  return {place.trace->token_label.at(static_cast<std::size_t>(key))};
}

Table lost_table(const Result<WorstMissesQuestion>& result) {
  Table table{{"method", "layer", "row", "chunk", "key", "token", "mass", "share", "cause"}, {}};
  if (!result) return table;
  for (const LostKey& lost : result->lost.keys)
    table.rows.push_back({MethodText{result.question.method.text}, lost.layer,
                          table::HeadRow{result->lost.layout, lost.row}, lost.chunk, lost.key,
                          token_of(result.question.place, lost.key), lost.mass, lost.share,
                          lost.cause ? Cell(table::term_of(*lost.cause)) : Cell()});
  return table;
}

Table regret_table(const Result<WorstMissesQuestion>& result) {
  Table table{{"method", "layer", "row", "key", "token", "dropped_chunk", "wanted_chunk",
               "mass_when_dropped", "mass_when_wanted", "lost_mass"},
              {}};
  if (!result) return table;
  for (const Regret& regret : result->lost.regrets)
    table.rows.push_back({MethodText{result.question.method.text}, regret.layer,
                          table::HeadRow{result->lost.layout, regret.row}, regret.key,
                          token_of(result.question.place, regret.key), regret.dropped,
                          regret.wanted, regret.mass_when_dropped, regret.mass_when_wanted,
                          regret.lost_mass});
  return table;
}

Table table(Workspace& workspace) {
  const auto result = workspace.ask(worst_misses_question(workspace));
  return lists_regrets(workspace) ? regret_table(result) : lost_table(result);
}

// Without the keys chosen: a click on a line chooses one.
std::optional<trace::NamedKeys> needle_of(Place place) {
  place.keys = {};
  return watched_keys(place);
}

bool passes(const MissFilter& filter, int layer, int row, std::int64_t key) {
  return (!filter.layer || *filter.layer == layer) && (!filter.row || *filter.row == row) &&
         (!filter.span || (key >= filter.span->begin && key < filter.span->end));
}
bool passes(const MissFilter& filter, const LostKey& lost) {
  return passes(filter, lost.layer, lost.row, lost.key) &&
         (!filter.cause || *filter.cause == lost.cause);
}
bool passes(const MissFilter& filter, const Regret& regret) {
  return passes(filter, regret.layer, regret.row, regret.key);
}

// A short name for the row, beside a column that says "head".
std::string row_text(const selection::RowLayout& layout, int row) {
  const int first = row * layout.q_heads_per_row;
  if (layout.axis == trace::RowAxis::KvHead) return fmt::format("KV {}", row);
  return layout.q_heads_per_row == 1
             ? fmt::format("q {}", first)
             : fmt::format("q {}\u2013{}", first, first + layout.q_heads_per_row - 1);
}

using Layout = selection::RowLayout;

std::string whole_text(int number) { return std::to_string(number); }

template <typename Line, typename Number>
MissColumn<Line> number_column(const char* title, const char* meaning, float weight,
                               Number Line::*number, std::string (*text)(Number),
                               bool falling = false) {
  return {title,
          meaning,
          weight,
          [=](const Line& line) { return static_cast<double>(line.*number); },
          [=](const Line& line, const Layout&) { return text(line.*number); },
          falling};
}

// The key and where it was lost, then the others.
template <typename Line>
std::vector<MissColumn<Line>> columns_from_place(float token_weight, const char* row_meaning,
                                                 const std::vector<MissColumn<Line>>& others) {
  std::vector<MissColumn<Line>> columns{
      {"token", "The key's token, with its neighbours.", token_weight, nullptr, nullptr, false},
      number_column("key", "The token's position.", 1, &Line::key, format_count),
      number_column("layer", "", 0.8F, &Line::layer, whole_text),
      {"head", row_meaning, 0.9F, [](const Line& line) { return double(line.row); },
       [](const Line& line, const Layout& layout) { return row_text(layout, line.row); }, false}};
  columns.insert(columns.end(), others.begin(), others.end());
  return columns;
}

}  // namespace

std::string why_no_losses(const Place& place, const MethodChoice& method,
                          const std::optional<trace::NamedKeys>& span) {
  const std::string obstacle = missing(place, method);
  if (!obstacle.empty()) return obstacle;
  if (!method.known())
    return unknown_method(method, "it cannot be run again to find out why a key was lost.");
  return span && span->keys.empty() ? "The trace names no needle" : "";
}

LayerMissesQuestion::Answer LayerMissesQuestion::work(Steps& steps) const {
  KVLOUPE_CHECK(method.known());
  replay::LostKeysRequest request;
  request.method = choice_anew(*method.spec);
  request.layers = {place.layer};
  request.chunks = trace::with_queries(place.info(), chunks.list());
  request.regrets_from_all_chunks = regrets;
  request.span = span;
  request.device = place.device;
  return engine().lost_keys(*place.trace->session, request, steps.context);
}

std::string WorstMissesQuestion::title() const {
  return fmt::format("Looking for what {} loses", method.id());
}

Answer WorstMissesQuestion::work(Steps& steps) const {
  Answer answer;
  answer.num_layers = static_cast<int>(place.info().layers.size());
  answer.lost.method = method;
  answer.lost.layout = selection::row_layout(*method.spec, place.trace->shape());
  for (const int layer : place.info().layers) {
    steps.context.cancel.throw_if_cancelled();
    LayerMissesQuestion question{place, method, span, chunks, regrets};
    question.place.layer = layer;
    add_layer(*steps.need(question), answer);
    if (!answer.finished()) steps.show(answer);
  }
  return answer;
}

WorstMissesQuestion worst_misses_question(const Workspace& workspace) {
  WorstMissesQuestion question{workspace.place(), workspace.method()};
  question.chunks = number_chunks(workspace);
  // Of all chunks both lists are one answer.
  question.regrets = question.chunks.range && lists_regrets(workspace);
  if (workspace.option(kViewId, "keys") == "needle" && !question.place.empty())
    question.span = needle_of(question.place).value_or(trace::NamedKeys{"needle", {}});
  return question;
}

bool lists_regrets(const Workspace& workspace) {
  return workspace.option(kViewId, "list") == "regrets";
}

std::string rough_percent(double share) {
  const double percent = 100 * share;
  if (percent <= 0) return "0 %";
  if (percent < 0.1) return "< 0.1 %";
  return percent < 9.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string mass_text(double mass) {
  return mass < 0.005 ? fmt::format("{:.1g}", mass) : fmt::format("{:.2f}", mass);
}

std::string budget_words(const selection::MethodSpec& spec) {
  if (!spec.has_budget()) return {};
  return spec.budget_tokens() > 0 ? format_count(spec.budget_tokens())
                                  : rough_percent(spec.budget_ratio());
}

std::string sentence_of(const WorstMissesQuestion& question, const Answer& answer) {
  const replay::LostMass& sums = answer.lost.all;
  const std::string id = question.method.id();
  const std::string budget = budget_words(*answer.lost.method.spec);
  const std::string at = budget.empty() ? "" : fmt::format(" at a budget of {}", budget);
  const std::string what = question.span ? fmt::format("what \u201C{}\u201D receives",
                                                       readable_name(question.span->name))
                                         : std::string("all attention to past keys");
  const std::string in =
      question.chunks.range
          ? fmt::format(", {}{}", question.chunks.kind == NumberScope::Kind::Question ? "" : "in ",
                        words_of(question.chunks, question.place.info()))
          : "";
  if (sums.cells == 0)
    return fmt::format("{}{} chooses no keys{}: none is lost.", id, at, in.empty() ? " here" : in);
  if (sums.lost <= 0) return fmt::format("{}{} loses none of {}{}.", id, at, what, in);
  std::string causes;
  for (const Stage cause : answer.causes)
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ",
                          rough_percent(sums.share_of(cause)), words_of(cause));
  const std::string so_far =
      answer.finished() ? ""
                        : fmt::format("So far, in {} of {} layers: ", answer.lost.layers.size(),
                                      answer.num_layers);
  return fmt::format("{}{} loses {} of {}{}{}. Why: {}.", so_far, id,
                     rough_percent(sums.lost / sums.whole), what, at, in, causes);
}

void go_to(Workspace& workspace, const MissPlace& there, const selection::RowLayout& layout) {
  workspace.cursor.change("", [&](Selection& s) {
    s.place.layer = there.layer;
    s.place.chunk = there.chunk;
    if (s.place.q_head / layout.q_heads_per_row != there.row)
      s.place.q_head = there.row * layout.q_heads_per_row;
    const auto key = static_cast<std::int32_t>(there.key);
    s.place.keys = {key, key + 1};
  });
}

bool is_at(const Place& place, const MissPlace& there, const selection::RowLayout& layout) {
  return place.layer == there.layer && place.chunk == there.chunk &&
         place.q_head / layout.q_heads_per_row == there.row &&
         place.has_key(static_cast<std::int32_t>(there.key));
}

const std::vector<MissColumn<LostKey>>& lost_columns() {
  static const auto columns = columns_from_place<LostKey>(
      4.9F, "The row of the method that lost it: a KV head, a query head or several.",
      {number_column("chunk", "The chunk whose queries attend to it.", 0.9F, &LostKey::chunk,
                     whole_text),
       number_column("mass",
                     "M: the attention that it receives from the chunk's queries, summed over them "
                     "and the row's heads.",
                     1, &LostKey::mass, mass_text, true),
       number_column("share", "Of what all past keys receive in this layer, head and chunk.", 1,
                     &LostKey::share, rough_percent, true),
       {"cause",
        "The first stage that would have kept it, had it alone been different "
        "(docs/explain.md).",
        2.6F,
        [](const LostKey& lost) { return lost.cause ? double(static_cast<int>(*lost.cause)) : -1; },
        [](const LostKey& lost, const Layout&) {
          return std::string(lost.cause ? words_of(*lost.cause) : "");
        },
        false}});
  return columns;
}

const std::vector<MissColumn<Regret>>& regret_columns() {
  static const auto columns = columns_from_place<Regret>(
      4.4F, "The row of the method that dropped it.",
      {number_column("dropped", "The first chunk in a row that it was left out of.", 1.3F,
                     &Regret::dropped, whole_text),
       number_column("wanted",
                     "Of the chunks after it that numbers are over, before it came back, the one "
                     "that gives it most.",
                     1.2F, &Regret::wanted, whole_text),
       number_column("M wanted", "M in the chunk that wanted it.", 1.5F, &Regret::mass_when_wanted,
                     mass_text, true),
       number_column("M dropped", "M in the chunk that dropped it.", 1.6F,
                     &Regret::mass_when_dropped, mass_text, true),
       number_column("M lost", "M of all chunks in a row that it was left out of.", 1.1F,
                     &Regret::lost_mass, mass_text, true)});
  return columns;
}

template <typename Line>
std::vector<std::int32_t> lines_of(const std::vector<Line>& lines, const MissFilter& filter,
                                   const MissColumn<Line>& by, bool falling,
                                   const std::vector<std::string>& tokens) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (passes(filter, lines[i])) order.push_back(static_cast<std::int32_t>(i));
  const auto line = [&](std::int32_t i) -> const Line& {
    return lines[static_cast<std::size_t>(i)];
  };
  const auto less = [&](std::int32_t a, std::int32_t b) {
    if (by.value != nullptr) return by.value(line(a)) < by.value(line(b));
    return tokens.at(static_cast<std::size_t>(line(a).key)) <
           tokens.at(static_cast<std::size_t>(line(b).key));
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return falling ? less(b, a) : less(a, b);
  });
  return order;
}
template std::vector<std::int32_t> lines_of(const std::vector<LostKey>&, const MissFilter&,
                                            const MissColumn<LostKey>&, bool,
                                            const std::vector<std::string>&);
template std::vector<std::int32_t> lines_of(const std::vector<Regret>&, const MissFilter&,
                                            const MissColumn<Regret>&, bool,
                                            const std::vector<std::string>&);

ViewInfo worst_misses_view() {
  return ViewInfo{kViewId, "Worst misses",
                  "the keys of most attention that a method lost in any layer and head, and why",
                  "Lost keys"}
      .with(
          {{"keys",
            {"all", "needle"},
            "whose loss counts: all keys, or those of the trace's needle",
            {"all keys", "needle"}},
           {"list",
            {"lost", "regrets"},
            "lost: each key that a chunk attends to and the method left out; regrets: keys that it "
            "dropped and that a later chunk wanted more"}})
      .count_chunks()
      .draw(problem_with<worst_misses_question>, table);
}

}  // namespace kvloupe::state
