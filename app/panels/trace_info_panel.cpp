// trace_info: what the open trace holds.
#include "app/panels/view_parts.h"

#include "core/base/units.h"

#include <fmt/format.h>

namespace kvloupe::panels {
namespace {

std::vector<std::pair<std::string, std::string>> facts_of(const trace::TraceInfo& info) {
  const trace::ModelInfo& m = info.model;
  std::vector<std::pair<std::string, std::string>> facts{
      {"model", fmt::format("{} ({})", m.name, m.architecture)},
      {"heads", fmt::format("{} query, {} KV, {} per group, dimension {}", m.num_q_heads,
                            m.num_kv_heads, m.gqa_group_size(), m.head_dim)},
      {"layers", fmt::format("{} of {} captured", info.layers.size(), m.num_layers)},
      {"tokens", fmt::format("{} in {} chunks", format_count(info.num_tokens), info.chunks.size())},
      {"stored as", info.dtype == trace::DType::F16 ? "f16" : "fp32"},
      {"the model ran", info.mode == trace::LoopMode::OpenLoop
                            ? "densely"
                            : "in closed loop: it attended only to what was selected"},
      {"complete", info.complete ? "yes" : "no: the capture ended early"},
      {"file", fmt::format("{}, schema {}, written by {} at {}", format_bytes(info.bytes),
                           info.schema_version, info.producer, info.created)}};
  for (const trace::TokenSpan& span : info.spans)
    facts.emplace_back("span " + span.name, fmt::format("tokens {} to {}", format_count(span.begin),
                                                        format_count(span.end - 1)));
  for (const trace::RunInfo& run : info.runs)
    facts.emplace_back(
        fmt::format("run {}", run.id),
        fmt::format("{}  ({}{})", run.method,
                    run.mode == trace::LoopMode::OpenLoop ? "open loop" : "closed loop",
                    run.from_sidecar ? ", sidecar" : ""));
  for (const std::string& warning : info.warnings) facts.emplace_back("warning", warning);
  return facts;
}

class TraceInfoPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    widgets::figure_head_ui(context.palette, context.figure, "Trace", "",
                            context.workspace.trace_name(), trace_chips(context));
    if (!ImGui::BeginTable("##facts", 2,
                           ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_ScrollY |
                               ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_PadOuterX))
      return;
    ImGui::TableSetupColumn("name");
    ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch);
    for (const auto& [name, value] : facts_of(context.workspace.info())) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      widgets::text_colored(name == "warning" ? context.palette.warning : context.palette.muted,
                            name);
      ImGui::TableNextColumn();
      widgets::text_wrapped(context.palette.text, value);
    }
    ImGui::EndTable();
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"name", "value"}, {}};
    if (workspace.ready() == nullptr) return table;
    for (const auto& [name, value] : facts_of(workspace.info()))
      table.rows.push_back({name, value});
    return table;
  }

  std::string problem(state::Workspace& workspace) override {
    return workspace.ready() == nullptr ? "no trace is open" : "";
  }
};

}  // namespace

std::unique_ptr<Panel> make_trace_info_panel() { return std::make_unique<TraceInfoPanel>(); }

}  // namespace kvloupe::panels
