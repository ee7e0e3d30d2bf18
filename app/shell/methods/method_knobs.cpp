// See method_knobs.h.
#include "app/shell/methods/method_knobs.h"

#include "app/widgets/figure.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <utility>

namespace kvloupe::shell {
namespace {

// Of a run whose method is not known here: of the one that a window begins with.
state::MethodDraft draft_of(const state::Workspace& workspace, state::Slot slot) {
  const state::MethodChoice& choice = workspace.method(slot);
  const state::Place& place = workspace.place();
  return {choice.known() ? choice.text : state::default_spec(place.info().num_tokens),
          place.trace->shape()};
}

}  // namespace

void MethodKnobs::follow(const state::Workspace& workspace, state::Slot slot) {
  const state::MethodChoice& choice = workspace.method(slot);
  const state::Place& place = workspace.place();
  const std::string key = place.trace_key() + choice.key();
  // What was typed or dragged ends with the controls: they may come back for another method.
  if (ImGui::GetFrameCount() > frame_ + 1) {
    drafted_.clear();
    dragging_ = false;
  }
  frame_ = ImGui::GetFrameCount();
  if (drafted_ == key) return;
  if (std::exchange(dragging_, false)) ImGui::ClearActiveID();  // somebody else changed the method
  drafted_ = key;
  problem_.clear();
  state::MethodDraft draft = draft_of(workspace, slot);
  draft.keep_budget_of(draft_);
  draft_ = std::move(draft);
}

state::MethodDraft MethodKnobs::defaults(const state::Workspace& workspace) const {
  return draft_.defaults(workspace.place().trace->shape(), workspace.place().info().num_tokens);
}

void MethodKnobs::draw(state::Workspace& workspace, const widgets::Palette& palette,
                       state::Slot slot, const std::vector<std::string>& only) {
  follow(workspace, slot);
  ImGui::PushID(
      static_cast<int>(slot));  // a hand that holds a slider does not go on in the other slot
  const Edit edit = params_table_ui(palette, draft_, defaults(workspace), room(workspace), only);
  ImGui::PopID();
  apply(workspace, slot, edit);
  if (const std::string wrong = problem(); !wrong.empty())
    widgets::text_wrapped(palette.error, wrong);
}

void MethodKnobs::apply(state::Workspace& workspace, state::Slot slot, Edit edit) {
  if (edit == Edit::Live) return drag(workspace, slot);
  if (edit == Edit::None && !dragging_) return;
  // A slider that was pressed and not moved chooses nothing; one that came back undoes what was shown meanwhile.
  if (!dragging_ || draft_.spec() != begun_ || shown_ != begun_) show(workspace, slot, true);
  dragging_ = false;
}

// A question asked in each frame would be replaced before it is answered: the next one waits for the
// answer, or for a hand that rests.
void MethodKnobs::drag(state::Workspace& workspace, state::Slot slot) {
  constexpr double kRests = 0.25;
  if (!dragging_) {
    dragging_ = true;
    static int drags = 0;  // of all controls: each drag is a step back of its own
    drag_ = ++drags;
    begun_ = shown_ = wanted_ = draft_of(workspace, slot).spec();
  }
  const std::string spec = draft_.spec();
  if (spec != wanted_) changed_ = ImGui::GetTime();
  wanted_ = spec;
  const bool rests = ImGui::GetTime() - changed_ > kRests;
  if (spec == shown_ || (workspace.answers.busy() && !rests)) return;
  shown_ = spec;
  show(workspace, slot, false);
}

void MethodKnobs::show(state::Workspace& workspace, state::Slot slot, bool complete) {
  if (!draft_.problem().empty()) return;
  try {
    if (dragging_)
      workspace.cursor.change(
          fmt::format("drag {} of method {}", drag_, state::letter_of(slot)),
          [&, choice = state::choice_of_spec(draft_.spec(), *workspace.place().trace)](
              state::Selection& selection) { selection.choice(slot) = choice; });
    if (complete) workspace.cursor.set_method(slot, draft_.spec());
    drafted_ = workspace.place().trace_key() + workspace.method(slot).key();
    problem_.clear();
  } catch (const Error& error) {
    problem_ = error.what();
  }
}

std::string MethodKnobs::problem() const {
  const std::string problem = draft_.problem();
  return problem.empty() ? problem_ : problem;
}

// A parameter that says how many of a chunk's rows are asked says so where all of them are.
ParamRoom MethodKnobs::room(const state::Workspace& workspace) const {
  const state::Place& place = workspace.place();
  ParamRoom room{place.info().num_tokens, {}};
  std::int64_t rows = 0;
  for (const trace::ChunkInfo& chunk : place.info().chunks)
    rows = std::max<std::int64_t>(rows, chunk.length);
  if (!draft_.problem().empty()) return room;
  const auto spec = selection::MethodSpec::parse(draft_.spec());
  const auto with_all_of = [&](std::int64_t count) {
    return selection::ablated(spec, selection::Ablation::AllRows, count, place.trace->shape());
  };
  const auto all = with_all_of(rows), of_one_more = with_all_of(rows + 1);
  if (!all || !of_one_more) return room;
  // What follows the number of rows is one.
  const auto others = of_one_more->parameters();
  for (const auto& param : all->parameters())
    if (std::ranges::find(others, param) == others.end())
      room.most[param.first] = static_cast<double>(rows);
  return room;
}

}  // namespace kvloupe::shell
