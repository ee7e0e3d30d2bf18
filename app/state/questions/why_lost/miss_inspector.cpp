#include "app/state/questions/why_lost/miss_inspector.h"

#include "app/state/kept_of_span.h"
#include "app/state/labels.h"
#include "app/state/questions/why_lost/explain.h"
#include "app/state/shown_methods.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/analysis/kv_map.h"
#include "core/base/units.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvloupe::state {
namespace {

constexpr const char* kViewId = "miss_inspector";
constexpr std::size_t kMostBars = 400;

// The chunks after which keys of the span died, with the number of keys.
std::map<int, int> deaths_of(const replay::ReplayResult& run, int layer, int row,
                             const trace::KeySet& watched) {
  const std::vector<std::uint16_t> deaths = analysis::deaths_in(run, layer, row);
  std::map<int, int> keys_of;
  for (const std::int32_t key : watched.positions_in(0, std::ssize(deaths)))
    if (const auto death = deaths[static_cast<std::size_t>(key)]; death != trace::kAlive)
      ++keys_of[death];
  return keys_of;
}

std::string text_of(const std::map<int, int>& deaths) {
  std::string text;
  for (const auto& [chunk, keys] : deaths)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", chunk,
                        keys > 1 ? fmt::format(" ({} keys)", keys) : std::string());
  return text;
}

// "Keys evicted after chunk 5 (3 keys), after decode step 9."
std::string sentence_of(const std::map<int, int>& deaths, const trace::TraceInfo& info) {
  std::string text;
  for (const auto& [chunk, keys] : deaths)
    text +=
        fmt::format("{} after {}{}", text.empty() ? "Keys evicted" : ",", chunk_name(info, chunk),
                    keys > 1 ? fmt::format(" ({} keys)", keys) : std::string());
  return text.empty() ? text : text + ".";
}

std::string deaths_in_row(const SpanFateQuestion::Answer& answer, int row) {
  const auto index = static_cast<std::size_t>(row);
  return index < answer.deaths.size() ? text_of(answer.deaths[index]) : std::string();
}

std::string keys(std::int64_t count) {
  return fmt::format("{} {}", format_count(count), count == 1 ? "key" : "keys");
}

// "22 keys of needle", "12 picked keys"
std::string watched(std::int64_t count, const Place& place) {
  const std::string name = watched_words(place);
  return is_picked(name) ? picked_words(count) : fmt::format("{} of {}", keys(count), name);
}

std::vector<MissQuestion::Bar> bars_of(const std::vector<MissQuestion::Chunk>& chunks) {
  const std::size_t step = std::max<std::size_t>(1, (chunks.size() + kMostBars - 1) / kMostBars);
  std::vector<MissQuestion::Bar> bars;
  for (std::size_t first = 0; first < chunks.size(); first += step) {
    const std::size_t last = std::min(first + step, chunks.size());
    MissQuestion::Bar bar{static_cast<int>(first), static_cast<int>(last), 0, 0, 0};
    for (std::size_t chunk = first; chunk < last; ++chunk) {
      bar.kept += chunks[chunk].kept;
      bar.total += chunks[chunk].total;
      bar.span_mass = std::max(bar.span_mass, chunks[chunk].span_mass);
    }
    if (bar.total > 0) bars.push_back(bar);
  }
  return bars;
}

// None of it is kept, and by true mass one would be.
bool had_room(const MissQuestion::Chunk& chunk) {
  return chunk.kept == 0 && chunk.best_true_rank >= 0 && chunk.best_true_rank < chunk.num_kept;
}

std::vector<MissQuestion> questions_of(const Workspace& workspace) {
  std::vector<MissQuestion> questions;
  for (const Slot slot : inspected_slots(workspace))
    questions.push_back({workspace.place(), workspace.method(slot)});
  return questions;
}

ExplainNow explain_now(Workspace& workspace, const MissQuestion& question, std::int32_t position) {
  return with_budget(
      workspace, workspace.ask(ExplainQuestion{question.place, question.method, position}), false);
}

// What stands beside the span's fate: it may be unknown, and is waited for.
bool is_asking(Workspace& workspace, const std::vector<MissQuestion>& questions) {
  const WatchedKey watched = watched_key(workspace);
  bool asking = watched.loading;
  if (watched.position < 0) return asking;
  for (const MissQuestion& question : questions) {
    const ExplainNow why = explain_now(workspace, question, watched.position);
    const KeyLifeQuestion life{question.place, question.method, watched.position};
    const KeyFatesQuestion fates{question.place, question.method, watched.position};
    asking |= why.result.state == ResultState::Loading;
    asking |= workspace.ask(life).state == ResultState::Loading;
    asking |= workspace.ask(fates).state == ResultState::Loading;
  }
  return asking;
}

std::string problem(Workspace& workspace) {
  const Place& place = workspace.place();
  if (!place.empty() && !watched_keys(place))
    return "no key is selected and the trace has no needle: name one with --goto key=N";
  const std::vector<MissQuestion> questions = questions_of(workspace);
  if (questions.empty()) return MissQuestion{place, workspace.method()}.obstacle();
  std::string problem;
  for (const MissQuestion& question : questions) {
    for (const std::string& why :
         {problem_of(workspace.ask(question)),
          problem_of(workspace.ask(SpanFateQuestion{question.place, question.method}))})
      if (!why.empty()) problem = why;
  }
  if (problem.empty() && is_asking(workspace, questions)) return "the result is not computed yet";
  return problem;
}

// Of the key: what is known in every chunk of the place's row, and what is known of the place alone.
struct KeyCells {
  std::int32_t position = -1;
  int row = -1, chunk = -1;
  ExplainNow why;
  Result<KeyLifeQuestion> life;

  void append_to(std::vector<Cell>& cells, const analysis::SpanFate& fate) const {
    std::array<Cell, 7> own;
    const bool here = fate.row == row;
    if (here && position >= 0) own[0] = position;
    const bool now = here && fate.chunk == chunk && why.result;
    if (now) {
      const replay::Explanation& known = *why.result;
      if (known.lost_at) own[1] = table::term_of(*known.lost_at);
      own[2] = known.score;
      own[3] = known.cut;
      own[4] = known.rank;
      own[5] = known.true_rank;
      own[6] = known.needed_budget;
    }
    if (here && !now && life && static_cast<std::size_t>(fate.chunk) < life->chunks.size()) {
      const auto& chunk_of_life = life->chunks[static_cast<std::size_t>(fate.chunk)];
      own[2] = chunk_of_life.score;
      own[3] = chunk_of_life.cut;
    }
    cells.insert(cells.end(), own.begin(), own.end());
  }
};

KeyCells key_cells(Workspace& workspace, const MissQuestion& question) {
  KeyCells cells;
  cells.position = watched_key(workspace).position;
  cells.chunk = question.place.chunk;
  cells.why = explain_now(workspace, question, cells.position);
  cells.life = workspace.ask(KeyLifeQuestion{question.place, question.method, cells.position});
  if (question.method.known() && cells.position >= 0)
    cells.row = ExplainQuestion{question.place, question.method, cells.position}.row();
  return cells;
}

Table table(Workspace& workspace) {
  Table table{{"method", "span", "layer", "row", "chunk", "kept", "total", "mass_share",
               "best_true_rank", "evicted_after", "leakage", "key", "lost_at", "score", "cut",
               "rank", "true_rank", "needed_budget"},
              {}};
  for (const MissQuestion& question : questions_of(workspace)) {
    const auto span = watched_keys(question.place);
    const auto miss = workspace.ask(question);
    const auto all = workspace.ask(SpanFateQuestion{question.place, question.method});
    if (!span || !miss || !all) continue;
    const KeyCells key = key_cells(workspace, question);
    for (const analysis::SpanFate& fate : all->fates) {
      table.rows.push_back({MethodText{question.method.text}, span->name, fate.layer, fate.row,
                            fate.chunk, fate.kept, fate.total, fate.span_mass,
                            fate.best_true_rank < 0 ? Cell() : Cell(fate.best_true_rank + 1),
                            deaths_in_row(*all, fate.row), miss->facts.leakage});
      key.append_to(table.rows.back(), fate);
    }
  }
  return table;
}

}  // namespace

std::string SpanFateQuestion::obstacle() const {
  const std::string obstacle = OfMethod::obstacle();
  return obstacle.empty() && !watched_keys(place) ? kNoKeyChosen : obstacle;
}

SpanFateQuestion::Answer SpanFateQuestion::work(Steps& steps) const {
  const trace::KeySet watched = watched_keys(place)->keys;
  const auto run = steps.need(RunQuestion{place, method});
  Answer answer;
  answer.fates = engine().span_fate(*place.trace->session, *run, watched, steps.context);
  const int num_rows = (place.info().model.num_q_heads + run->q_heads_per_row - 1) /
                       std::max(1, run->q_heads_per_row);
  for (int row = 0; row < num_rows; ++row)
    answer.deaths.push_back(deaths_of(*run, place.layer, row, watched));
  return answer;
}

MissQuestion::Answer MissQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  const auto all = steps.need(SpanFateQuestion{place, method});
  const int row = row_of(place, *run);
  Answer answer;
  answer.chunks.resize(place.info().chunks.size());
  for (const replay::ReplayCell& cell : run->cells) {
    if (cell.layer != place.layer || static_cast<std::size_t>(row) >= cell.rows.size()) continue;
    Chunk& chunk = answer.chunks.at(static_cast<std::size_t>(cell.chunk));
    chunk.num_candidates = cell.num_candidates;
    chunk.num_kept =
        static_cast<std::int64_t>(cell.rows[static_cast<std::size_t>(row)].positions.size());
    chunk.dense = cell.dense_reason.has_value();
  }
  for (const analysis::SpanFate& fate : all->fates) {
    if (fate.row != row || fate.layer != place.layer) continue;
    Chunk& chunk = answer.chunks.at(static_cast<std::size_t>(fate.chunk));
    chunk.kept = fate.kept;
    chunk.total = fate.total;
    chunk.span_mass = fate.span_mass;
    chunk.best_true_rank = fate.best_true_rank;
    answer.top_mass = std::max(answer.top_mass, fate.span_mass);
  }
  answer.bars = bars_of(answer.chunks);
  if (static_cast<std::size_t>(row) < all->deaths.size())
    answer.deaths = sentence_of(all->deaths[static_cast<std::size_t>(row)], place.info());
  answer.axis = chunk_axis(place.info());
  answer.row_name =
      replay::row_words({run->row_axis, std::max(1, run->q_heads_per_row)}, row_of(place, *run));
  answer.facts = facts_of(place, method, *run);
  return answer;
}

std::vector<Slot> inspected_slots(const Workspace& workspace) {
  if (show_of(workspace, kViewId) == Show::One) {
    const Slot slot = workspace.selection().shown;
    return workspace.method(slot).empty() ? std::vector<Slot>() : std::vector{slot};
  }
  std::vector<Slot> slots;
  for (const Slot slot : kSlots)
    if (!workspace.method(slot).empty() &&
        (slots.empty() || !(workspace.method(slots.front()) == workspace.method(slot))))
      slots.push_back(slot);
  return slots;
}

std::string sentence_of(const MissQuestion& question, const MissQuestion::Answer& answer) {
  const Place& place = question.place;
  const std::string name = watched_words(place);
  const std::string where = fmt::format(
      "At {}, layer {}, {}", chunk_name(place.info(), place.chunk), place.layer, answer.row_name);
  const MissQuestion::Chunk& chunk = answer.chunks.at(static_cast<std::size_t>(place.chunk));
  if (!place.info().has_queries(place.chunk))
    return fmt::format("{}: the trace lacks the chunk's queries, so nothing is known of {}.", where,
                       name);
  if (chunk.total == 0)
    return fmt::format("{}: {} does not lie before it, so nothing was decided about it.", where,
                       name);
  std::string why = "everything is kept here.";
  if (!chunk.dense) {
    why = fmt::format("its best key ranks {} of {} by true mass",
                      format_count(chunk.best_true_rank + 1), format_count(chunk.num_candidates));
    if (had_room(chunk))
      why += fmt::format(", so the {} kept had room for it: a better choice would have kept it.",
                         format_count(chunk.num_kept));
    else
      why += fmt::format("; {} {} kept.", keys(chunk.num_kept), chunk.num_kept == 1 ? "is" : "are");
  }
  return fmt::format("{}, {} keeps {} of {}, which {} {} of this row's attention mass; {}", where,
                     question.method.id(), chunk.kept, watched(chunk.total, place),
                     chunk.total == 1 ? "carries" : "carry", share_text(chunk.span_mass), why);
}

std::string mass_sentence_of(const MissQuestion& question, const MissQuestion::Answer& answer) {
  const Place& place = question.place;
  const MissQuestion::Chunk& chunk = answer.chunks.at(static_cast<std::size_t>(place.chunk));
  if (chunk.total == 0 || chunk.dense) return "";
  return fmt::format(
      "At {}, layer {}, {}, the {} {} {} of the attention mass; the best ranks {} of {}.",
      chunk_name(place.info(), place.chunk), place.layer, answer.row_name,
      watched(chunk.total, place), chunk.total == 1 ? "carries" : "carry",
      share_text(chunk.span_mass), format_count(chunk.best_true_rank + 1),
      format_count(chunk.num_candidates));
}

std::string kept_sentence_of(const MissQuestion& question, const MissQuestion::Answer& answer) {
  const MissQuestion::Chunk& chunk =
      answer.chunks.at(static_cast<std::size_t>(question.place.chunk));
  std::string text =
      fmt::format("{} keeps {} of {}", question.method.id(), chunk.kept, chunk.total);
  if (had_room(chunk))
    text += fmt::format(
        ". Its best key is among the true top {}: a better choice at this budget would keep it",
        format_count(chunk.num_kept));
  return text + ".";
}

ViewInfo miss_inspector_view() {
  return ViewInfo{kViewId, "Miss inspector",
                  "why a key was kept or lost, and what became of it chunk by chunk",
                  "What is kept of attention"}
      .follow(At::Cell | At::Keys)
      .take(2)
      .with({show_option({Show::Both, Show::One})})
      .draw(problem, table);
}

}  // namespace kvloupe::state
