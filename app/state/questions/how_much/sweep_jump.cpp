#include "app/state/questions/how_much/sweep_jump.h"

#include "app/state/labels.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "core/base/units.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

using replay::Number;

constexpr double kJump = 0.2;  // of mass recall, from one budget to the next

MethodChoice method_of(const std::string& spec, const Place& place) {
  return choice_anew(selection::MethodSpec::parse(spec).resolved(place.trace->shape()));
}

}  // namespace

double SweepJump::gain() const {
  return above->value(Number::MassRecall) - below->value(Number::MassRecall);
}

std::optional<SweepJump> largest_jump(const SweepCurve& curve) {
  std::optional<SweepJump> largest;
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    const SweepJump jump{&curve.points[i - 1], &curve.points[i]};
    if (jump.gain() >= kJump && (!largest || jump.gain() > largest->gain())) largest = jump;
  }
  return largest;
}

SweepJumpQuestion::Answer SweepJumpQuestion::work(Steps& steps) const {
  const auto less = steps.need(SelectedVsTrueQuestion{place, method_of(below, place)});
  const auto more = steps.need(SelectedVsTrueQuestion{place, method_of(above, place)});
  Answer answer;
  for (const analysis::KeyRank& key : more->cell.by_true_rank) {
    const auto index = static_cast<std::size_t>(key.position);
    const bool new_here = analysis::is_kept(key.verdict) && index < less->cell.verdict.size() &&
                          !analysis::is_kept(less->cell.verdict[index]);
    if (!new_here || more->share_of(key) <= answer.share) continue;
    answer.key = key.position;
    answer.share = more->share_of(key);
  }
  // One key of many that came together, or of a row that does not jump, explains nothing.
  if (answer.share < gain / 2) return {};
  return answer;
}

std::optional<SweepJumpQuestion> sweep_jump_question(const BudgetSweepQuestion& sweep,
                                                     const SweepCurve& curve) {
  if (sweep.extent != SweepExtent::Head || !sweep.chunks.range || !sweep.chunks.range->is_one())
    return std::nullopt;
  const auto jump = largest_jump(curve);
  if (!jump || jump->below->budget == 0) return std::nullopt;
  SweepJumpQuestion question{{sweep.place}, jump->below->spec, jump->above->spec, jump->gain()};
  question.place.chunk = sweep.chunks.range->first;
  return question;
}

std::string words_of(const SweepJumpQuestion& question, const SweepJumpQuestion::Answer& answer,
                     const SweepCurve& curve) {
  const auto jump = largest_jump(curve);
  if (!jump || answer.key < 0) return "";
  const auto& labels = question.place.trace->token_label;
  const auto index = static_cast<std::size_t>(answer.key);
  const std::string token =
      index < labels.size() ? fmt::format(" (\u201C{}\u201D)", labels[index]) : std::string();
  return fmt::format(
      "{} jumps between {} and {} keys: it comes to keep key {}{}, which has {} of the mass.",
      curve.name, format_count(jump->below->budget), format_count(jump->above->budget),
      format_count(answer.key), token, share_text(answer.share));
}

}  // namespace kvloupe::state
