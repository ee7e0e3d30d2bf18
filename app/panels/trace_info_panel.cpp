// trace_info: what the open trace holds.
#include "app/state/questions/trace_info.h"

#include "app/panels/view_frame.h"
#include "app/state/token_text.h"

namespace kvloupe::panels {
namespace {

using state::TraceInfoQuestion;

class TraceInfoPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    const auto facts = shown_.ask(context.workspace, TraceInfoQuestion{context.workspace.place()});
    const state::Place& place = facts.question.place;
    widgets::figure_head_ui(context.palette, context.figure, "Trace", "", place.trace->name,
                            trace_chips(context, place));
    if (ready_ui(context, facts, "Reading the trace")) table_ui(context, *facts);
  }

 private:
  static void table_ui(DrawContext& context, const TraceInfoQuestion::Answer& facts) {
    if (!ImGui::BeginTable("##facts", 2,
                           ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_ScrollY |
                               ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX))
      return;
    ImGui::TableSetupColumn("name");
    ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
    for (const auto& [name, value] : facts) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      widgets::text_colored(name == "warning" ? context.palette.warning : context.palette.muted,
                            widgets::elided(state::readable_name(name), widgets::em(16)));
      ImGui::TableNextColumn();
      widgets::text_wrapped(context.palette.text, state::readable_name(value));
    }
    ImGui::EndTable();
  }

  state::LastAnswer<TraceInfoQuestion> shown_;
};

}  // namespace

std::unique_ptr<Panel> make_trace_info_panel() { return std::make_unique<TraceInfoPanel>(); }

}  // namespace kvloupe::panels
