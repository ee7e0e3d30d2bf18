#include "app/state/questions/why_lost/span_loss.h"

#include "app/state/workspace.h"
#include "core/engine/engine.h"
#include "core/replay/request_checks.h"
#include "core/replay/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

using replay::SpanHead;
using replay::SpanLoss;
using table::Cell;

}  // namespace

std::string SpanCountQuestion::title() const {
  return fmt::format("Counting what {} keeps of the span", method.id());
}

SpanCountQuestion::Answer SpanCountQuestion::work(Steps& steps) const {
  const std::vector<int> asked = chunks.list();
  if (!method.recorded())
    return replay::count_span(
        run_method(place, method, place.info().layers, asked, false, false, steps.context), method,
        *span);
  const auto one = asked.size() == 1 ? std::optional(asked.front()) : std::nullopt;
  replay::ReplayResult run =
      replay::read_run(*place.trace->session, method.run, {}, one, steps.context);
  std::erase_if(run.cells, [&](const replay::ReplayCell& cell) { return !chunks.has(cell.chunk); });
  return replay::count_span(run, method, *span);
}

LayerSpanLossQuestion::Answer LayerSpanLossQuestion::work(Steps& steps) const {
  replay::SpanLossRequest request;
  request.method = method;
  request.span = *span;
  request.layers = {place.layer};
  request.chunks = trace::with_queries(place.info(), chunks.list());
  request.want_budgets = want_budgets;
  request.device = place.device;
  return engine().span_loss(*place.trace->session, request, steps.context);
}

std::string SpanLossQuestion::title() const {
  return want_budgets
             ? fmt::format("Looking for the budget with which {} keeps the span", method.id())
             : fmt::format("Asking why {} lost the span", method.id());
}

SpanLossQuestion::Answer SpanLossQuestion::work(Steps& steps) const {
  Answer answer;
  // A run may cover fewer layers than the trace.
  const std::vector<int> layers =
      method.recorded() ? replay::checked_layers_of_run(*place.trace->session, method.run, {})
                        : place.info().layers;
  answer.num_layers = static_cast<int>(layers.size());
  LayerSpanLossQuestion layer{place, method, chunks, span, want_budgets};
  for (const int index : layers) {
    layer.place.layer = index;
    const auto done = steps.need(layer);
    if (answer.loss.layers.empty())
      answer.loss = *done;
    else
      answer.loss.add(*done);
    steps.show(answer);
    steps.context.report(std::ssize(answer.loss.layers), answer.num_layers, "layers");
  }
  return answer;
}

bool SpanLossQuestion::budgets_are_quick() const {
  return has_budget() && method.spec->traits().grows_with_budget;
}

SpanLossQuestion span_loss_question(const Workspace& workspace, const MethodChoice& method) {
  SpanLossQuestion question{workspace.place(), method, {}, {}, false};
  if (question.place.empty()) return question;
  // What is kept when somebody asks; where no chunks are chosen, in the one that is shown.
  question.chunks = number_chunks(workspace, NumberScope::Kind::Chunk);
  const auto span = watched_keys(question.place);
  if (span && span->keys.size() > 1) question.span = span;
  return question;
}

SpanLossNow span_loss_now(Workspace& workspace, const SpanLossQuestion& question, bool search) {
  SpanLossNow now{question, nullptr, "", "", false};
  const auto counts = workspace.ask(
      SpanCountQuestion{question.place, question.method, question.chunks, question.span});
  if (counts.state == ResultState::Error) now.error = counts.error;
  if (!counts) {
    if (counts.state == ResultState::Loading) now.doing = "counting";
    return now;
  }
  now.loss = counts.answer;
  const auto causes = workspace.ask(question);
  const auto doing = [](const char* what, const Result<SpanLossQuestion>& result) {
    return result.answer ? fmt::format("{}: {} of {} layers", what, result->loss.layers.size(),
                                       result->num_layers)
                         : std::string(what);
  };
  if (causes.state == ResultState::Error) now.error = causes.error;
  if (causes.state == ResultState::Loading) now.doing = doing("asking why", causes);
  if (causes.state != ResultState::Ready) return now;
  now.loss = {causes.answer, &causes->loss};
  if (!question.has_budget()) return now;
  if (!search && !question.budgets_are_quick()) {
    now.may_look = true;
    return now;
  }
  SpanLossQuestion wider = question;
  wider.want_budgets = true;
  const auto budgets = workspace.ask(wider);
  if (budgets.state == ResultState::Loading) now.doing = doing("looking for the budget", budgets);
  if (budgets.state == ResultState::Ready) now.loss = {budgets.answer, &budgets->loss};
  return now;
}

bool is_head_of(const Place& place, const SpanLoss& loss, const SpanHead& head) {
  return head.layer == place.layer &&
         head.row == place.q_head / std::max(1, loss.layout.q_heads_per_row);
}

std::vector<const SpanHead*> heads_to_list(const SpanLoss& loss, const Place& place,
                                           std::size_t most) {
  std::vector<const SpanHead*> heads = loss.heads_of_mass(replay::kShareThatMatters);
  heads.resize(std::min(heads.size(), most));
  const auto here = std::find_if(loss.heads.begin(), loss.heads.end(), [&](const SpanHead& head) {
    return is_head_of(place, loss, head);
  });
  if (here == loss.heads.end()) return heads;
  std::erase(heads, &*here);
  heads.insert(heads.begin(), &*here);
  return heads;
}

table::Table span_heads_table(const SpanLoss& loss, const std::vector<const SpanHead*>& heads) {
  table::Table table{{"layer",
                      {"row", "head"},
                      {"kept", "kept"},
                      {"keys", "of"},
                      {"mass_share", "its share", "%", 1},
                      {"mass_lost", "mass lost", "%", 1},
                      {"lost_at", "most lost at"}},
                     {}};
  if (loss.has_budgets) table.columns.push_back({"enough", "budget"});
  const double mass = loss.sums().mass;
  for (const SpanHead* head : heads) {
    const std::vector<replay::Stage> causes = head->causes();
    table.rows.push_back({head->layer, table::HeadRow{loss.layout, head->row}, head->kept,
                          head->keys, mass > 0 ? Cell(head->mass / mass) : Cell(),
                          head->mass > 0 ? Cell(head->lost_mass / head->mass) : Cell(),
                          causes.empty() ? Cell() : table::term_of(causes.front())});
    if (loss.has_budgets) table.rows.back().emplace_back(head->enough);
  }
  return table;
}

}  // namespace kvloupe::state
