// trace_info: what the open trace holds: facts, runs, and where along the tokens its spans and chunks are.
#include "app/panels/trace_timeline.h"
#include "app/panels/view_frame.h"
#include "app/state/questions/how_it_ran/trace_info.h"
#include "app/state/token_text.h"
#include "app/widgets/slot_button.h"

namespace kvloupe::panels {
namespace {

using state::TraceInfoQuestion;
using Fact = TraceInfoQuestion::Fact;

class TraceInfoPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const auto result = shown_.ask(context.workspace, TraceInfoQuestion{context.workspace.place()});
    const state::Place& place = result.question.place;
    widgets::figure_head_ui(context.palette, context.figure, "Trace", "", place.trace->name,
                            trace_chips(context, place));
    if (!ready_ui(context, result, "Reading the trace")) return;
    headline_ui(context,
                state::trace_finding(context.workspace.place().info(), result->chunk_seconds));
    // A figure has nothing to scroll with: its plots take what the tables leave.
    if (context.figure) tables_ui(context, result->facts);
    ImGui::Dummy({0, widgets::em(0.4F)});
    // In a low window what the trace holds is in view, and the seconds of its chunks are below the fold.
    timeline_.draw(context, context.workspace.place(), *result, [&] {
      if (!context.figure) tables_ui(context, result->facts);
    });
  }

 private:
  // Runs have a column of their own where there is room.
  // A figure may be drawn without its head, so that it hides nothing that the head says.
  void tables_ui(DrawContext& context, const std::vector<Fact>& facts) {
    std::vector<const Fact*> plain, runs;
    for (const Fact& fact : facts) {
      if (fact.run) runs.push_back(&fact);
      if (!fact.run && !fact.span && (context.figure || !fact.said)) plain.push_back(&fact);
    }
    const float room = ImGui::GetContentRegionAvail().x;
    const bool beside = room >= widgets::em(60) && !runs.empty();
    if (beside) ImGui::BeginGroup();
    facts_ui(context, plain, beside ? room * 0.55F : 0);
    if (beside) {
      ImGui::EndGroup();
      ImGui::SameLine(0, widgets::em(1));
      ImGui::BeginGroup();
    }
    if (!runs.empty()) runs_ui(context, runs);
    if (beside) ImGui::EndGroup();
  }

  static constexpr ImGuiTableFlags kTable =
      ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX;

  static void facts_ui(DrawContext& context, const std::vector<const Fact*>& facts, float width) {
    if (!ImGui::BeginTable("facts", 2, kTable, {width, 0})) return;
    ImGui::TableSetupColumn("name");
    ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
    for (const Fact* fact : facts) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      widgets::text_colored(
          fact->name == "warning" ? context.palette.warning : context.palette.muted, fact->name);
      ImGui::TableNextColumn();
      widgets::text_wrapped(context.palette.text, state::readable_name(fact->value));
    }
    ImGui::EndTable();
  }

  static void runs_ui(DrawContext& context, const std::vector<const Fact*>& runs) {
    if (!ImGui::BeginTable("runs", 2, kTable)) return;
    ImGui::TableSetupColumn("slots");
    ImGui::TableSetupColumn("run", ImGuiTableColumnFlags_WidthStretch);
    for (const Fact* fact : runs) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      ImGui::PushID(*fact->run);
      slots_ui(context, *fact->run);
      ImGui::PopID();
      ImGui::TableNextColumn();
      widgets::text_wrapped(context.palette.text, state::readable_name(fact->words));
    }
    ImGui::EndTable();
  }

  // In a figure only who stands in a slot has its letter.
  static void slots_ui(DrawContext& context, int run) {
    for (const state::Slot slot : state::kSlots) {
      const bool here = context.workspace.method(slot).run == run;
      if (context.figure) {
        if (here) letter_ui(context, slot);
        continue;
      }
      if (slot != state::kSlots.front()) ImGui::SameLine(0, widgets::em(0.2F));
      if (widgets::slot_button_ui(context.palette, slot, here))
        context.workspace.cursor.set_run(slot, run);
    }
  }

  state::LastAnswer<TraceInfoQuestion> shown_;
  TraceTimeline timeline_;
};

}  // namespace

std::unique_ptr<Panel> make_trace_info_panel() { return std::make_unique<TraceInfoPanel>(); }

}  // namespace kvloupe::panels
