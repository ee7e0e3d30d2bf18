// The view budget_sweep: mass recall, top-k overlap and output error against the budget, with the
// bounds `oracle` and `random`, and the smallest budget that is enough.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/question_at.h"
#include "core/analysis/budget_sweep.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

enum class SweepExtent { Head, Layer, Trace };
const char* name_of(SweepExtent extent);  // "head", "layer", "trace"

// A method as a curve: its SPEC without the budget, so that all budgets of it are one question. What
// has no budget, or is not known, is its whole text.
std::string family_of(const MethodChoice& method);
// The same for people: it names the parameters alone that differ from the method's defaults.
std::string short_family_of(const MethodChoice& method);
// The same method keeping so many tokens. Only for one that is known and has a budget.
selection::MethodSpec with_budget(const MethodChoice& method, std::int64_t tokens,
                                  const selection::ModelShape& shape);

struct SweepCurve {
  MethodChoice method;  // one of the family
  std::string family;
  std::string name;                          // its id, with what tells it from others of that id
  std::vector<analysis::SweepPoint> points;  // ascending budgets, one where there is no budget;
                                             // those that average no cell are left out
  std::string problem;                       // why there is no point
  // From which budget on a target is reached, [number][target] in the order of kSweepNumbers and kSweepTargets.
  std::array<std::array<std::optional<std::int64_t>, analysis::kSweepTargets.size()>,
             analysis::kSweepNumbers.size()>
      enough{};
  const std::array<std::optional<std::int64_t>, analysis::kSweepTargets.size()>& enough_of(
      replay::Number number) const;

  bool has_budget() const { return method.known() && method.spec->has_budget(); }
  // Lane methods rank no keys: of them the output error alone is known.
  bool is_known(replay::Number number) const;
};

// At the layer and KV head as far as the extent says.
struct BudgetSweepQuestion : OfPlace<At::Trace> {
  static constexpr const char* kName = "budget sweep";
  static constexpr Pace kPace = Pace::Patient;
  SweepExtent extent = SweepExtent::Head;
  std::array<MethodChoice, 2> slots;  // A and B
  std::vector<MethodChoice> others;
  NumberChunks chunks = {};
  bool asks_for_span = false;                    // the share of the watched keys is drawn
  std::optional<trace::NamedKeys> watched = {};  // these
  struct Answer {
    std::vector<SweepCurve> curves;  // by family
    std::int64_t past = 0;           // before the last chunk averaged
    int num_layers = 0;              // averaged: while loading maybe not all
    bool exact = false;              // of the budgets that are enough: one key less is not
  };

  std::string key() const;
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);

  // A, B, the others and the bounds, each family once, by family.
  std::vector<MethodChoice> methods() const;
  std::array<MethodChoice, 2> bounds() const;  // oracle and random, in the scope of the methods
  // Of the chunks averaged.
  trace::Phase phase() const { return chunks.phase(place.info(), trace::Phase::Prefill); }
  std::int64_t past() const { return analysis::longest_past(place.info(), chunks.list(), phase()); }
  // Head: exact; else among the budgets computed.
  bool wants_exact() const { return extent == SweepExtent::Head; }
};

// What a curve stands for now: the question is one for all budgets and both orders of A and B.
struct SweepLine {
  enum class Bound { Best, Chance };
  const SweepCurve* curve = nullptr;
  std::optional<Slot> slot;
  std::optional<Bound> bound;  // of what is neither A nor B
  std::string label;           // "A: quoka"
};
// A and B first, the bounds last.
std::vector<SweepLine> sweep_lines(const BudgetSweepQuestion& question,
                                   const BudgetSweepQuestion::Answer& answer);
// "Keys per row for 90 % recall: quoka 1,010, snapkv 847, the true top keys 426.": the budgets that reach
// the least target. Empty where no line has budgets.
std::string sweep_finding(const std::vector<SweepLine>& lines, replay::Number number, bool exact);
// What the curves of a number alone would not tell, one sentence each.
std::vector<std::string> sweep_notes(const BudgetSweepQuestion::Answer& answer,
                                     replay::Number number);

class Workspace;
BudgetSweepQuestion budget_sweep_question(const Workspace& workspace);
replay::Number budget_sweep_number(const Workspace& workspace);
// Tokens that the method keeps as it is chosen; a share of the keys counts by its mean.
std::optional<double> budget_now(Workspace& workspace, const Place& place,
                                 const MethodChoice& method);

}  // namespace kvloupe::state
