// What views share beyond plain widgets: the head, states, axes over tokens. Everything is labelled
// by the place and the method of the result that is drawn, never by the current selection.
#pragma once

#include "app/panels/panel.h"
#include "app/state/labels.h"
#include "app/state/questions/how_it_ran/run.h"
#include "app/widgets/figure.h"
#include "app/widgets/palette.h"

#include <string>
#include <vector>

namespace kvloupe::panels {

using state::chunk_name;
using state::share_text;
using state::step_word;

// Chips that every view of a method must show: loop mode, budget asked and kept, scope, precision,
// fallback. `slot` names the method A or B.
std::vector<widgets::Chip> method_chips(DrawContext& context, const state::Place& place,
                                        const state::MethodFacts& facts, state::Slot slot);
// The SPEC as captions carry it, flagged where its basis was fitted on the text under test.
std::string method_caption(const DrawContext& context, const state::MethodFacts& facts);
// One line about the method in this layer that the colours alone do not show; empty where there is
// nothing to say.
std::string method_note(const state::Place& place, const state::MethodFacts& facts);
void method_note_ui(DrawContext& context, const state::Place& place,
                    const state::MethodFacts& facts);
// Title, caption and chips of a view of one method.
void method_head_ui(DrawContext& context, const std::string& title, const state::Place& place,
                    const state::MethodFacts& facts, state::Slot slot);
// The chips of a method that stands in for the one chosen name no slot, in full or in brief.
std::vector<widgets::Chip> stand_in_chips(DrawContext& context, const state::Place& place,
                                          const state::MethodFacts& facts,
                                          const std::string& stand_in);
// The same for views of one kind of methods. `stand_in` says why this is not the method chosen: then
// it stands below, and the chips name no slot. `more` chips follow the method's name.
void stand_in_head_ui(DrawContext& context, const std::string& title, const state::Place& place,
                      const state::MethodFacts& facts, const std::string& stand_in,
                      const std::vector<widgets::Chip>& more = {});
// Chips of views that show the model's attention alone.
std::vector<widgets::Chip> trace_chips(DrawContext& context, const state::Place& place);
// "demo.h5 · SmolLM2 · layer 3 · query head 5 (KV head 1) · chunk 12: tokens 1,536 to 1,663"
std::string place_caption(const state::Place& place);

// The head of one plot of several: "Lane use  share of the chunk's rows ..."
void heading_ui(DrawContext& context, const std::string& title, const std::string& measured);
// What the view found, as the first thing to read.
void headline_ui(DrawContext& context, const std::string& sentence);
// "A" or "B", in its colour, before what is said of it.
void letter_ui(DrawContext& context, state::Slot slot);
// Goes on in the same line where so much room is left, else in the next one.
void beside_ui(float gap, float width);
// The height of a plot that may take `room`. In the window no plot is lower than 120 pixels (at normal
// size): where there is less room the panel scrolls. A figure has nothing to scroll with.
float least_plot_height();
// Of a part of a view: a figure has nothing to scroll with.
ImGuiWindowFlags child_flags(const DrawContext& context);
float plot_height(const DrawContext& context, float room);
// The choices of an option of a view behind its label, which may be empty; nothing in an exported
// figure. `option_beside_ui` goes on in the line of what was drawn before where it has room.
void option_ui(DrawContext& context, const std::string& view, const std::string& option,
               const std::string& label, float width);
void option_beside_ui(DrawContext& context, const std::string& view, const std::string& option,
                      const std::string& label, float width);
// Says which part of a method extends its paper; nothing if no part does.
std::vector<widgets::Chip> extension_chips(const widgets::Palette& palette,
                                           const state::MethodChoice& method);

// The sentence of what failed; in the window with a button that asks anew.
void failure_ui(DrawContext& context, const std::string& error);
// Draws loading, error or empty and returns false when there is no answer to draw; marks a stale
// one.
template <state::Question Q>
bool ready_ui(DrawContext& context, const state::Result<Q>& result, const std::string& doing) {
  if (result) {
    if (result.stale) widgets::stale_ui(context.palette);
    return true;
  }
  switch (result.state) {
    case state::ResultState::Error: failure_ui(context, result.error); break;
    case state::ResultState::Loading: widgets::loading_ui(context.palette, doing); break;
    default: widgets::empty_ui(context.palette, result.note);
  }
  return false;
}
// The same for a view of one kind of methods, with the head that says what is being asked.
template <state::Question Q>
bool stand_in_ready_ui(DrawContext& context, const std::string& title, const Q& question,
                       const state::Result<Q>& result, const std::string& doing) {
  if (result) return true;
  stand_in_head_ui(context, title, question.place, state::facts_of(question.place, question.method),
                   question.stand_in);
  return ready_ui(context, result, doing);
}
// The same before there is a trace: opening, failed, none. False when nothing else can be drawn.
bool trace_ready_ui(DrawContext& context);

// The edges of the watched span in a plot of keys that has no room for a name above it.
void span_edges_ui(DrawContext& context, const state::Place& place);
// Labelled marks of the trace's spans along the top of a plot whose x axis counts tokens, or blocks of so
// many. Call between BeginPlot and EndPlot, after the items.
void span_marks_ui(DrawContext& context, const state::Place& place, bool lines,
                   double tokens_per_column = 1);
// "1,640  “ answer”"
std::string token_line(const state::Place& place, std::int32_t position);

}  // namespace kvloupe::panels
