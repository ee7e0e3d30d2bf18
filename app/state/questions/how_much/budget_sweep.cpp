#include "app/state/questions/how_much/budget_sweep.h"

#include "app/state/questions/how_it_ran/run.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/engine/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace kvloupe::state {
namespace {

using analysis::kSweepNumbers;
using analysis::kSweepTargets;
using analysis::SweepPoint;
using replay::Number;
using selection::MethodSpec;

constexpr const char* kViewId = "budget_sweep";
constexpr std::array kExtents{SweepExtent::Head, SweepExtent::Layer, SweepExtent::Trace};
// A first look at a whole trace takes about so many of its layers.
constexpr std::size_t kFirstLookLayers = 5;

constexpr std::array<const char*, 2> kBudgets{"budget_tokens", "budget_ratio"};

// "name=value" of each parameter but the budget.
std::vector<std::string> parameters_of(const MethodChoice& method) {
  std::vector<std::string> kept;
  if (!method.known()) return kept;
  for (const auto& [name, value] : method.spec->parameters())
    if (std::ranges::find(kBudgets, name) == kBudgets.end()) kept.push_back(name + "=" + value);
  return kept;
}

bool sweeps(const MethodChoice& method) { return method.known() && method.spec->has_budget(); }

// Curves of one id are told apart by the parameters that they do not share.
void name_curves(std::vector<SweepCurve>& curves) {
  std::map<std::string, std::map<std::string, int>> uses;  // by id, by parameter
  std::map<std::string, int> of_id;
  for (const SweepCurve& curve : curves) {
    ++of_id[curve.method.id()];
    for (const std::string& parameter : parameters_of(curve.method))
      ++uses[curve.method.id()][parameter];
  }
  for (SweepCurve& curve : curves) {
    const std::string id = curve.method.id();
    std::vector<std::string> own;
    for (const std::string& parameter : parameters_of(curve.method))
      if (uses[id][parameter] < of_id[id]) own.push_back(parameter);
    curve.name = own.empty() ? id : fmt::format("{} {}", id, fmt::join(own, ", "));
  }
}

// The work on one question: passes over the trace that add points to curves.
class Sweep {
 public:
  Sweep(const BudgetSweepQuestion& question, Steps& steps)
      : question_(question), steps_(steps), session_(*question.place.trace->session) {
    const trace::TraceInfo& info = question.place.info();
    answer_.past = question.past();
    scope_.counted = counted_in(question.chunks, question.watched, info);
    scope_.phase = question.phase();
    for (const MethodChoice& method : question.methods()) {
      SweepCurve curve;
      curve.method = method;
      curve.family = family_of(method);
      answer_.curves.push_back(std::move(curve));
    }
    name_curves(answer_.curves);
    look_at(question.extent == SweepExtent::Trace ? info.layers
                                                  : std::vector<int>{question.place.layer});
  }

  // A few layers of a whole trace stand for it until all are done.
  void first_look() {
    const std::vector<int> all = scope_.layers;
    const std::size_t step = all.size() / kFirstLookLayers;
    if (question_.extent != SweepExtent::Trace || step < 2) return;
    std::vector<int> some;
    for (std::size_t i = step / 2; i < all.size(); i += step) some.push_back(all[i]);
    look_at(some);
    add_everywhere(analysis::coarse_budgets(answer_.past));
    show();
    look_at(all);
  }

  void add_everywhere(const std::vector<std::int64_t>& budgets) {
    std::vector<Wanted> wanted;
    for (std::size_t i = 0; i < answer_.curves.size(); ++i) {
      const SweepCurve& curve = answer_.curves[i];
      if (curve.has_budget())
        for (const std::int64_t budget : budgets) wanted.push_back({i, budget});
      else if (curve.points.empty())
        wanted.push_back({i, 0});
    }
    add(wanted);
  }

  // Halves the gaps below the budgets that are enough, all gaps in one pass, until none is left.
  void find_exact() {
    while (true) {
      std::set<std::pair<std::size_t, std::int64_t>> halves;
      for (std::size_t i = 0; i < answer_.curves.size(); ++i)
        for (const Number number : kSweepNumbers)
          for (const auto& target : kSweepTargets) {
            if (!answer_.curves[i].has_budget()) continue;
            const auto gap = analysis::reached_from(answer_.curves[i].points, number, target);
            if (gap && gap->at - gap->below > 1)
              halves.emplace(i, gap->below + (gap->at - gap->below) / 2);
          }
      if (halves.empty()) break;
      std::vector<Wanted> wanted;
      for (const auto& [curve, budget] : halves) wanted.push_back({curve, budget});
      add(wanted);
      show();
    }
    answer_.exact = true;
  }

  void show() {
    note_enough();
    steps_.show(answer_);
  }

  BudgetSweepQuestion::Answer finish() {
    note_enough();
    for (SweepCurve& curve : answer_.curves)
      if (curve.points.empty() && curve.problem.empty())
        curve.problem = "it keeps everything here at every budget";
    return std::move(answer_);
  }

 private:
  struct Wanted {
    std::size_t curve = 0;
    std::int64_t budget = 0;  // 0: the method as it is
  };

  void look_at(const std::vector<int>& layers) {
    scope_.layers = layers;
    scope_.device = question_.place.device;
    if (question_.extent == SweepExtent::Head) scope_.kv_head = question_.place.kv_head();
    answer_.num_layers = static_cast<int>(layers.size());
    for (SweepCurve& curve : answer_.curves) curve.points.clear();
  }

  void add(const std::vector<Wanted>& wanted) {
    std::vector<MethodSpec> specs;
    std::map<std::string, std::size_t> curve_of;  // by SPEC
    for (const Wanted& one : wanted) {
      SweepCurve& curve = answer_.curves[one.curve];
      if (!curve.problem.empty()) continue;
      if (!curve.method.known()) {
        add_run(curve);
        continue;
      }
      specs.push_back(one.budget > 0 ? with_budget(curve.method, one.budget, session_.shape())
                                     : *curve.method.spec);
      curve_of[specs.back().canonical()] = one.curve;
    }
    if (specs.empty()) return;
    const analysis::SweepPass pass = engine().sweep_pass(session_, specs, scope_, steps_.context);
    for (const SweepPoint& point : pass.points)
      insert(answer_.curves[curve_of.at(point.spec)], point);
    for (const replay::UnavailableMethod& method : pass.unavailable)
      answer_.curves[curve_of.at(method.method)].problem = method.error.what();
  }

  // A run may have none of the layers.
  void add_run(SweepCurve& curve) {
    try {
      insert(curve,
             engine().sweep_point_of_run(session_, curve.method.run, scope_, steps_.context));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Input) throw;
      curve.problem = error.what();
    }
  }

  static void insert(SweepCurve& curve, const SweepPoint& point) {
    if (point.cells == 0) return;
    const auto at = std::lower_bound(
        curve.points.begin(), curve.points.end(), point.budget,
        [](const SweepPoint& one, std::int64_t budget) { return one.budget < budget; });
    if (at == curve.points.end() || at->budget != point.budget) curve.points.insert(at, point);
  }

  void note_enough() {
    for (SweepCurve& curve : answer_.curves)
      for (std::size_t m = 0; m < kSweepNumbers.size() && curve.has_budget(); ++m)
        for (std::size_t t = 0; t < kSweepTargets.size(); ++t) {
          const auto found =
              analysis::reached_from(curve.points, kSweepNumbers[m], kSweepTargets[t]);
          curve.enough[m][t] = found ? std::optional(found->at) : std::nullopt;
        }
  }

  const BudgetSweepQuestion& question_;
  Steps& steps_;
  const session::TraceSession& session_;
  analysis::SweepScope scope_;
  BudgetSweepQuestion::Answer answer_;
};

std::vector<MethodChoice> more_methods(const Workspace& workspace) {
  return workspace.more_methods(workspace.option(kViewId, "methods") == "all");
}

std::array<MethodChoice, 2> bounds_of(const char* scope) {
  const auto bound = [&](const char* id) {
    return choice_anew(MethodSpec::parse(id).with({{"budget_scope", scope}}));
  };
  return {bound("oracle"), bound("random")};
}

Table table(Workspace& workspace) {
  Table table{
      {"method", "budget", "kept", "mass_recall", "topk_overlap", "output_error", "cells", "scope"},
      {}};
  const bool of_span = budget_sweep_number(workspace) == Number::SpanKept;
  if (of_span) table.columns.emplace_back(replay::name_of(Number::SpanKept));
  const auto result = workspace.ask(budget_sweep_question(workspace));
  if (!result) return table;
  for (const SweepCurve& curve : result->curves)
    for (const SweepPoint& point : curve.points) {
      table.rows.push_back({MethodText{point.spec},
                            curve.has_budget() ? Cell(point.budget) : Cell(),
                            point.value(Number::EffectiveBudget), point.value(Number::MassRecall),
                            point.value(Number::TopkOverlap), point.value(Number::OutputError),
                            point.cells, name_of(result.question.extent)});
      if (of_span) table.rows.back().emplace_back(point.value(Number::SpanKept));
    }
  return table;
}

}  // namespace

const char* name_of(SweepExtent extent) {
  switch (extent) {
    case SweepExtent::Head: return "head";
    case SweepExtent::Layer: return "layer";
    case SweepExtent::Trace: return "trace";
  }
  fail_check("a known extent", __FILE__, __LINE__);
}

std::string family_of(const MethodChoice& method) {
  if (!method.known()) return method.key();
  if (!sweeps(method)) return method.spec->canonical();
  return fmt::format("{}:{}", method.id(), fmt::join(parameters_of(method), ","));
}

std::string short_family_of(const MethodChoice& method) {
  return method.known() ? replay::short_name(*method.spec, {kBudgets.begin(), kBudgets.end()})
                        : method.key();
}

MethodSpec with_budget(const MethodChoice& method, std::int64_t tokens,
                       const selection::ModelShape& shape) {
  KVLOUPE_CHECK(sweeps(method));
  return method.spec->with({{"budget_tokens", fmt::to_string(tokens)}}).resolved(shape);
}

std::string BudgetSweepQuestion::key() const {
  PlaceParts parts = At::Trace;
  if (extent != SweepExtent::Trace) parts |= At::Layer;
  if (extent == SweepExtent::Head) parts |= At::KvHead;
  std::string key =
      key_of_members(place.key(parts), chunks.chosen ? chunks.key() : std::string(), watched);
  for (const MethodChoice& method : methods()) key = key_of_members(key, family_of(method));
  return key;
}

std::string BudgetSweepQuestion::title() const {
  return extent == SweepExtent::Trace ? "Sweeping the budget in all layers"
                                      : fmt::format("Sweeping the budget in layer {}", place.layer);
}

std::string BudgetSweepQuestion::obstacle() const {
  if (place.empty()) return missing(place);
  if (!chunks.range && past() < 2) return "The prompt is one chunk: no key lies before it.";
  if (asks_for_span && !watched) return "Choose keys to watch: the trace names no needle";
  return past() < 2 ? "No key lies before this chunk." : "";
}

std::array<MethodChoice, 2> BudgetSweepQuestion::bounds() const {
  std::vector<MethodChoice> chosen(slots.begin(), slots.end());
  chosen.insert(chosen.end(), others.begin(), others.end());
  const auto leader = std::find_if(chosen.begin(), chosen.end(), sweeps);
  const bool all = leader != chosen.end() && leader->spec->scope() == selection::BudgetScope::All;
  // Asked for in each frame: parsed once.
  static const auto of_past = bounds_of("past"), of_all = bounds_of("all");
  return all ? of_all : of_past;
}

std::vector<MethodChoice> BudgetSweepQuestion::methods() const {
  std::map<std::string, MethodChoice> by_family;
  const auto add = [&](const MethodChoice& method) {
    if (!method.empty()) by_family.emplace(family_of(method), method);
  };
  for (const MethodChoice& method : slots) add(method);
  for (const MethodChoice& method : others) add(method);
  for (const MethodChoice& method : bounds()) add(method);
  std::vector<MethodChoice> methods;
  for (auto& [family, method] : by_family) methods.push_back(std::move(method));
  return methods;
}

BudgetSweepQuestion::Answer BudgetSweepQuestion::work(Steps& steps) const {
  Sweep sweep(*this, steps);
  sweep.first_look();
  sweep.add_everywhere(analysis::coarse_budgets(past()));
  sweep.show();
  sweep.add_everywhere(analysis::finer_budgets(past()));
  sweep.show();
  if (wants_exact()) sweep.find_exact();
  return sweep.finish();
}

std::uint64_t BudgetSweepQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer);
  for (const SweepCurve& curve : answer.curves) {
    sum += sizeof(curve) + 3 * curve.family.size();
    for (const SweepPoint& point : curve.points) sum += sizeof(point) + point.spec.size();
  }
  return sum;
}

const std::array<std::optional<std::int64_t>, kSweepTargets.size()>& SweepCurve::enough_of(
    Number number) const {
  const auto* const at = std::find(kSweepNumbers.begin(), kSweepNumbers.end(), number);
  KVLOUPE_CHECK(at != kSweepNumbers.end());
  return enough[static_cast<std::size_t>(at - kSweepNumbers.begin())];
}

bool SweepCurve::is_known(Number number) const {
  return !points.empty() && !std::isnan(points.front().value(number));
}

std::vector<SweepLine> sweep_lines(const BudgetSweepQuestion& question,
                                   const BudgetSweepQuestion::Answer& answer) {
  std::vector<SweepLine> lines, others, ends;
  const auto family = [](const MethodChoice& method) {
    return method.empty() ? std::string() : family_of(method);
  };
  const std::string family_a = family(question.slots[0]), family_b = family(question.slots[1]);
  const auto bounds = question.bounds();
  const std::string oracle = family(bounds[0]), random = family(bounds[1]);
  for (const SweepCurve& curve : answer.curves) {
    const bool a = curve.family == family_a, b = curve.family == family_b;
    if (a || b)
      lines.insert(a ? lines.begin() : lines.end(), {&curve,
                                                     a ? Slot::A : Slot::B,
                                                     {},
                                                     fmt::format("{}: {}",
                                                                 a && b ? "A, B"
                                                                 : a    ? "A"
                                                                        : "B",
                                                                 curve.name)});
    else if (curve.family == oracle)
      ends.insert(ends.begin(), {&curve, {}, SweepLine::Bound::Best, "oracle (true top keys)"});
    else if (curve.family == random)
      ends.push_back({&curve, {}, SweepLine::Bound::Chance, "random (one draw)"});
    else
      others.push_back({&curve, {}, {}, curve.name});
  }
  lines.insert(lines.end(), others.begin(), others.end());
  lines.insert(lines.end(), ends.begin(), ends.end());
  return lines;
}

std::string sweep_finding(const std::vector<SweepLine>& lines, Number number, bool exact) {
  const replay::NumberInfo& info = replay::info_of(number);
  std::vector<std::string> each;
  for (const SweepLine& line : lines) {
    if (!line.curve->has_budget() || !line.curve->is_known(number) ||
        line.bound == SweepLine::Bound::Chance)
      continue;
    const std::string name = line.bound  ? "the true top keys"
                             : line.slot ? line.label.substr(line.label.find(": ") + 2)
                                         : line.label;
    const std::optional<std::int64_t> enough = line.curve->enough_of(number).front();
    each.push_back(name + " " + (enough ? format_count(*enough) : "more than was tried"));
  }
  if (each.empty()) return "";
  return fmt::format("Keys per row for {}{:g} % {}{}: {}.",
                     info.higher_is_better() ? "" : "at most ",
                     100 * analysis::goal_of(number, analysis::kSweepTargets.front()), info.heading,
                     exact ? "" : ", so far", fmt::join(each, ", "));
}

std::vector<std::string> sweep_notes(const BudgetSweepQuestion::Answer& answer, Number number) {
  std::vector<std::string> notes, lanes;
  for (const SweepCurve& curve : answer.curves) {
    if (!curve.method.known())
      notes.push_back(curve.name + ": as recorded; this version cannot select anew with it.");
    if (!curve.problem.empty()) notes.push_back(fmt::format("{}: {}.", curve.name, curve.problem));
    if (!curve.points.empty() && !curve.is_known(number)) lanes.push_back(curve.name);
    if (std::any_of(curve.points.begin(), curve.points.end(),
                    [](const SweepPoint& point) { return point.leakage; }))
      notes.push_back(curve.name + ": leakage, its basis was fitted on this text.");
  }
  if (!lanes.empty() && number == Number::SpanKept)
    notes.push_back(fmt::format("Not drawn: {}. None of the watched keys is there to keep or lose.",
                                fmt::join(lanes, ", ")));
  else if (!lanes.empty())
    notes.push_back(fmt::format("Not drawn: {}. Of pruned lanes only the output error speaks.",
                                fmt::join(lanes, ", ")));
  return notes;
}

BudgetSweepQuestion budget_sweep_question(const Workspace& workspace) {
  BudgetSweepQuestion question;
  question.place = workspace.place();
  for (const SweepExtent extent : kExtents)
    if (workspace.option(kViewId, "scope") == name_of(extent)) question.extent = extent;
  question.slots = {workspace.method(Slot::A), workspace.method(Slot::B)};
  if (question.place.empty()) return question;
  question.chunks = number_chunks(workspace);
  question.asks_for_span = budget_sweep_number(workspace) == Number::SpanKept;
  if (question.asks_for_span) question.watched = watched_keys(question.place);
  question.others = more_methods(workspace);
  if (workspace.option(kViewId, "methods") != "ab")
    for (const MethodChoice& run : workspace.traces.ready()->recorded)
      question.others.push_back(run);
  return question;
}

Number budget_sweep_number(const Workspace& workspace) {
  for (const Number number : kSweepNumbers)
    if (workspace.option(kViewId, "metric") == replay::name_of(number)) return number;
  fail_check("a number of the view", __FILE__, __LINE__);
}

std::optional<double> budget_now(Workspace& workspace, const Place& place,
                                 const MethodChoice& method) {
  if (!sweeps(method)) return std::nullopt;
  if (const std::int64_t tokens = method.spec->budget_tokens(); tokens > 0)
    return static_cast<double>(tokens);
  return known_facts(workspace, place, method)->requested_budget;
}

ViewInfo budget_sweep_view() {
  std::vector<std::string> numbers, titles;
  for (const Number number : kSweepNumbers) {
    numbers.emplace_back(replay::name_of(number));
    titles.push_back(replay::headline_of(number));
  }
  return ViewInfo{kViewId, "Budget sweep", "what each budget keeps, and the budget that is enough",
                  "Averages"}
      .follow(At::Head)
      .take(2, more_methods)
      .take_both()
      .with(
          {{"metric", numbers,
            "what is drawn against the budget; span_kept: of the keys of --goto span=, else of the "
            "needle",
            titles},
           {"scope",
            {"head", "layer", "trace"},
            "the cells averaged: of the KV head, of all heads of the layer, or of all layers",
            {"this head", "this layer", "all layers"}},
           {"methods",
            {"ab", "recorded", "all"},
            "curves beside A, B, further methods named and the bounds: none, the runs of the "
            "trace, "
            "also "
            "those tried in the window",
            {"A and B", "and recorded", "and tried"}}})
      .count_chunks()
      .draw(problem_with<budget_sweep_question>, table);
}

}  // namespace kvloupe::state
