// The keys that were kept with the lowest scores, and the queries that wanted the key most.
#include "app/panels/key_inspection.h"
#include "app/widgets/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using replay::Explanation;

constexpr ImGuiTableFlags kFlags =
    ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_NoSavedSettings;

bool beside(float width) { return width > widgets::em(30); }

// "1,175 “ 4”", which is pressed to go there.
bool token_ui(DrawContext& context, const state::Place& place, std::int64_t position,
              const std::string& id) {
  const std::string shown = widgets::elided(token_line(place, static_cast<std::int32_t>(position)),
                                            ImGui::GetContentRegionAvail().x);
  if (context.figure) {
    widgets::text_colored(context.palette.text, shown);
    return false;
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::Selectable(id.c_str(), false, ImGuiSelectableFlags_SpanAllColumns);
  ImGui::GetWindowDrawList()->AddText(at, context.palette.text, shown.c_str());
  return pressed;
}

void rivals_ui(DrawContext& context, const KeyUnderMethod& key) {
  const auto& result = key.why.result;
  heading_ui(context, "Rivals", "kept with the lowest scores");
  const widgets::FontScope small(widgets::Type::Caption);
  if (result->rivals.empty()) {
    widgets::text_wrapped(context.palette.muted, "Nothing was ranked here.");
    return;
  }
  const state::Place& place = result.question.place;
  table::Table table{{"key", "score", {"true_mass", "true mass", "", -3}}, {}};
  for (const Explanation::Rival& rival : result->rivals)
    table.rows.push_back({rival.key, rival.score, rival.true_mass});
  widgets::TableLook look{{2.2F, 1.0F, 1.1F}, kFlags};
  look.ink = [&](auto, auto) { return context.palette.muted; };
  look.draw = [&](std::size_t row, std::size_t column) {
    if (column > 0) return false;
    const std::int64_t rival = result->rivals[row].key;
    if (token_ui(context, place, rival, fmt::format("###rival {}", row)) && !result.stale)
      context.workspace.cursor.set_keys(static_cast<std::int32_t>(rival),
                                        static_cast<std::int32_t>(rival) + 1);
    return true;
  };
  if (!context.figure) look.pointer = &context.workspace.pointer;
  widgets::table_ui(context.palette, "##rivals", table, look);
}

void voters_ui(DrawContext& context, const KeyUnderMethod& key) {
  const auto& result = key.why.result;
  heading_ui(context, "Voters", "queries with most attention on it");
  const widgets::FontScope small(widgets::Type::Caption);
  const auto& voters = result->voters;
  if (voters.empty()) {
    widgets::text_wrapped(context.palette.muted, "No query of the chunk sees the key.");
    return;
  }
  const bool samples = std::any_of(voters.begin(), voters.end(),
                                   [](const auto& voter) { return voter.sampled.has_value(); });
  const state::Place& place = result.question.place;
  table::Table table{{"query", "head", {"attention", "attention", "%", 1}}, {}};
  widgets::TableLook look{{2.2F, 0.7F, 1.1F}, kFlags};
  if (samples) {
    table.columns.emplace_back("sampled");
    look.weights.push_back(1.0F);
  }
  for (const Explanation::Voter& voter : voters) {
    table.rows.push_back({voter.position, voter.q_head, voter.attention});
    if (samples)
      table.rows.back().push_back(voter.sampled ? table::Cell(*voter.sampled) : table::Cell());
  }
  look.ink = [&](std::size_t row, std::size_t column) {
    if (column < 3) return context.palette.muted;
    return *voters[row].sampled ? context.palette.good : context.palette.miss;
  };
  look.draw = [&](std::size_t row, std::size_t column) {
    if (column > 0) return false;
    const Explanation::Voter& voter = voters[row];
    if (token_ui(context, place, voter.position, fmt::format("###voter {}", row)) && !result.stale)
      context.workspace.cursor.change("", [&](state::Selection& s) {
        s.place.q_head = voter.q_head;
        s.place.query = static_cast<std::int32_t>(voter.position);
      });
    return true;
  };
  if (!context.figure) look.pointer = &context.workspace.pointer;
  widgets::table_ui(context.palette, "##voters", table, look);
}

}  // namespace

float key_lists_height(const KeyUnderMethod& key, float width) {
  const auto& result = key.why.result;
  if (!result) return 0;
  const float line = ImGui::GetTextLineHeight() * 0.9F + ImGui::GetStyle().CellPadding.y * 2;
  const auto lines = [&](std::size_t count) {
    return line * (static_cast<float>(count) + 1) + ImGui::GetTextLineHeightWithSpacing();
  };
  const float rivals = lines(result->rivals.size()), voters = lines(result->voters.size());
  return (beside(width) ? std::max(rivals, voters) : rivals + voters) + widgets::em(0.5F);
}

void key_lists_ui(DrawContext& context, const KeyUnderMethod& key) {
  if (!key.why.result) return;
  const float width = ImGui::GetContentRegionAvail().x;
  if (!beside(width)) {
    voters_ui(context, key);
    rivals_ui(context, key);
    return;
  }
  const float gap = widgets::em(1.2F);
  const float left = (width - gap) * 0.54F;
  ImGui::BeginChild("voters", {left, 0}, ImGuiChildFlags_AutoResizeY);
  voters_ui(context, key);
  ImGui::EndChild();
  ImGui::SameLine(0, gap);
  ImGui::BeginChild("rivals", {0, 0}, ImGuiChildFlags_AutoResizeY);
  rivals_ui(context, key);
  ImGui::EndChild();
}

}  // namespace kvloupe::panels
