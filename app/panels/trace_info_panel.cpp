// trace_info: what the open trace holds.
#include "app/state/questions/how_it_ran/trace_info.h"

#include "app/panels/view_frame.h"
#include "app/state/token_text.h"

#include <fmt/format.h>

namespace kvloupe::panels {
namespace {

using state::TraceInfoQuestion;
using Fact = TraceInfoQuestion::Fact;

class TraceInfoPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const auto facts = shown_.ask(context.workspace, TraceInfoQuestion{context.workspace.place()});
    const state::Place& place = facts.question.place;
    widgets::figure_head_ui(context.palette, context.figure, "Trace", "", place.trace->name,
                            trace_chips(context, place));
    if (!ready_ui(context, facts, "Reading the trace")) return;
    headline_ui(context, state::trace_finding(context.workspace.place().info()));
    facts_ui(context, *facts);
  }

 private:
  // What can be clicked stands in a column of its own where there is room.
  void facts_ui(DrawContext& context, const TraceInfoQuestion::Answer& facts) {
    const float room = ImGui::GetContentRegionAvail().x;
    elides_ = context.figure || room < widgets::em(80);
    if (elides_) return table_ui(context, "facts", facts, 0);
    const auto is_link = [](const Fact& fact) { return fact.span || fact.run; };
    TraceInfoQuestion::Answer plain, links;
    for (const Fact& fact : facts) (is_link(fact) ? links : plain).push_back(fact);
    table_ui(context, "facts", plain, room * 0.42F);
    ImGui::SameLine(0, widgets::em(1));
    table_ui(context, "links", links, 0);
  }

  void table_ui(DrawContext& context, const char* id, const TraceInfoQuestion::Answer& facts,
                float width) {
    ImGuiTableFlags flags =
        ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX;
    if (!context.figure) flags |= ImGuiTableFlags_ScrollY;
    if (!ImGui::BeginTable(id, 2, flags, {width, 0})) return;
    ImGui::TableSetupColumn("name");
    ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
    int row = 0;
    for (const Fact& fact : facts) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      widgets::text_colored(
          fact.name == "warning" ? context.palette.warning : context.palette.muted,
          widgets::elided(state::readable_name(fact.name), widgets::em(16)));
      ImGui::TableNextColumn();
      ImGui::PushID(row++);
      value_ui(context, fact);
      ImGui::PopID();
    }
    ImGui::EndTable();
  }

  // A span and a run can be clicked.
  void value_ui(DrawContext& context, const Fact& fact) {
    std::string value = state::readable_name(fact.words.empty() ? fact.value : fact.words);
    if (elides_ && fact.span && !fact.words.empty())
      value = widgets::elided(value, ImGui::GetContentRegionAvail().x);
    for (const state::Slot slot : state::kSlots)
      if (fact.run && !context.figure && context.workspace.method(slot).run == fact.run)
        value += fmt::format("  \u00B7 {}", state::letter_of(slot));
    if (context.figure || !(fact.span || fact.run))
      return widgets::text_wrapped(context.palette.text, value);
    const ImVec2 at = ImGui::GetCursorPos();
    const float width = ImGui::GetContentRegionAvail().x;
    const float height = ImGui::CalcTextSize(value.c_str(), nullptr, false, width).y;
    if (ImGui::Selectable("##go", is_shown(context.workspace, fact), 0, {0, height}))
      go(context.workspace, fact);
    if (ImGui::IsItemHovered() && fact.span)
      context.workspace.pointer.at({.row = value,
                                    .place = context.workspace.place(),
                                    .key_begin = fact.span->begin,
                                    .key_end = fact.span->end});
    if (ImGui::IsItemHovered())
      widgets::tooltip(
          "%s\n%s", fact.value.c_str(),
          fact.span ? "click: watch these keys everywhere" : "click: show as A; Ctrl+click: as B");
    ImGui::SetCursorPos(at);
    widgets::text_wrapped(context.palette.accent, value);
  }

  static bool is_shown(const state::Workspace& workspace, const Fact& fact) {
    const state::Place& place = workspace.place();
    if (fact.span) return place.key_begin == fact.span->begin && place.key_end == fact.span->end;
    return workspace.method(state::Slot::A).run == fact.run ||
           workspace.method(state::Slot::B).run == fact.run;
  }

  static void go(state::Workspace& workspace, const Fact& fact) {
    if (fact.span)
      workspace.cursor.set_keys(fact.span->begin, fact.span->end);
    else
      workspace.cursor.set_run(ImGui::GetIO().KeyCtrl ? state::Slot::B : state::Slot::A, *fact.run);
  }

  state::LastAnswer<TraceInfoQuestion> shown_;
  bool elides_ = false;  // a span has one line
};

}  // namespace

std::unique_ptr<Panel> make_trace_info_panel() { return std::make_unique<TraceInfoPanel>(); }

}  // namespace kvloupe::panels
