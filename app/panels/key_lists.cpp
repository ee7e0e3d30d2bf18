// The keys that were kept with the lowest scores, and the queries that wanted the key most.
#include "app/panels/key_parts.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using replay::Explanation;

constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_BordersInnerH |
                                   ImGuiTableFlags_SizingStretchProp |
                                   ImGuiTableFlags_NoSavedSettings;

bool beside(float width) { return width > widgets::em(30); }

std::string token_of(const state::Place& place, std::int64_t position) {
  const auto index = static_cast<std::size_t>(position);
  return index < place.trace->token_label.size() ? place.trace->token_label[index] : "";
}

// "1,175 “ 4”", which is pressed to go there.
bool token_ui(DrawContext& context, const state::Place& place, std::int64_t position,
              const std::string& id) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const std::string text =
      fmt::format("{}  \u201C{}\u201D", format_count(position), token_of(place, position));
  const std::string shown = widgets::elided(text, ImGui::GetContentRegionAvail().x);
  if (context.figure) {
    widgets::text_colored(context.palette.text, shown);
    return false;
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::Selectable(id.c_str(), false, ImGuiSelectableFlags_SpanAllColumns);
  ImGui::GetWindowDrawList()->AddText(at, context.palette.text, shown.c_str());
  return pressed;
}

void number_ui(DrawContext& context, const std::string& text) {
  ImGui::TableNextColumn();
  widgets::text_colored(context.palette.muted, text);
}

void rivals_ui(DrawContext& context, const KeyUnderMethod& key) {
  const auto& result = key.why.result;
  heading_ui(context, "Rivals", "kept with the lowest scores");
  const widgets::FontScope small(widgets::fonts().body, 0.9F);
  if (result->rivals.empty()) {
    widgets::text_wrapped(context.palette.muted, "Nothing was ranked here.");
    return;
  }
  if (!ImGui::BeginTable("##rivals", 3, kFlags)) return;
  ImGui::TableSetupColumn("key", 0, 2.2F);
  ImGui::TableSetupColumn("score", 0, 1.0F);
  ImGui::TableSetupColumn("true mass", 0, 1.1F);
  ImGui::TableHeadersRow();
  const state::Place& place = result.question.place;
  for (std::size_t i = 0; i < result->rivals.size(); ++i) {
    const Explanation::Rival& rival = result->rivals[i];
    if (token_ui(context, place, rival.key, fmt::format("###rival {}", i)) && !result.stale)
      context.workspace.cursor.set_keys(static_cast<std::int32_t>(rival.key),
                                        static_cast<std::int32_t>(rival.key) + 1);
    number_ui(context, fmt::format("{:.4g}", rival.score));
    number_ui(context, fmt::format("{:.3g}", rival.true_mass));
  }
  ImGui::EndTable();
}

void voters_ui(DrawContext& context, const KeyUnderMethod& key) {
  const auto& result = key.why.result;
  heading_ui(context, "Voters", "queries with most attention on it");
  const widgets::FontScope small(widgets::fonts().body, 0.9F);
  const auto& voters = result->voters;
  if (voters.empty()) {
    widgets::text_wrapped(context.palette.muted, "No query of the chunk sees the key.");
    return;
  }
  const bool samples = std::any_of(voters.begin(), voters.end(),
                                   [](const auto& voter) { return voter.sampled.has_value(); });
  if (!ImGui::BeginTable("##voters", samples ? 4 : 3, kFlags)) return;
  ImGui::TableSetupColumn("query", 0, 2.2F);
  ImGui::TableSetupColumn("head", 0, 0.7F);
  ImGui::TableSetupColumn("attention", 0, 1.1F);
  if (samples) ImGui::TableSetupColumn("sampled", 0, 1.0F);
  ImGui::TableHeadersRow();
  const state::Place& place = result.question.place;
  for (std::size_t i = 0; i < voters.size(); ++i) {
    const Explanation::Voter& voter = voters[i];
    if (token_ui(context, place, voter.position, fmt::format("###voter {}", i)) && !result.stale)
      context.workspace.cursor.change("", [&](state::Selection& s) {
        s.place.q_head = voter.q_head;
        s.place.query = static_cast<std::int32_t>(voter.position);
      });
    number_ui(context, std::to_string(voter.q_head));
    number_ui(context, percent(voter.attention));
    if (!samples) continue;
    ImGui::TableNextColumn();
    if (voter.sampled)
      widgets::text_colored(*voter.sampled ? context.palette.good : context.palette.miss,
                            *voter.sampled ? "yes" : "no");
  }
  ImGui::EndTable();
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
