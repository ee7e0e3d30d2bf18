#include "app/shell/windows/memory_window.h"

#include "app/widgets/figure.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvloupe::shell {
namespace {

struct Part {
  MemoryPart part;
  const char* name;
  const char* holds;
};
// As they lie in the bar: first what stays.
constexpr std::array kParts = {
    Part{MemoryPart::Load, "Loads",
         "tokens, texts, chunks and runs of the open traces; open results"},
    Part{MemoryPart::Textures, "Textures", "pictures and glyphs of this window"},
    Part{MemoryPart::Tensors, "Tensors", "queries, keys and values of layers"},
    Part{MemoryPart::Answers, "Answers", "what the views show, and showed before"}};
static_assert(kParts.size() == kMemoryParts.size());

// Grey stays; what has a colour goes when room is needed.
ImU32 color_of(const widgets::Palette& palette, MemoryPart part) {
  switch (part) {
    case MemoryPart::Load: return palette.muted;
    case MemoryPart::Textures: return palette.faint;
    case MemoryPart::Tensors: return palette.series[0];
    case MemoryPart::Answers: return palette.series[3];
  }
  return palette.text;
}

double share_of(const MemoryAccount& account, std::uint64_t bytes) {
  // Above the limit the bar is full, and shows the parts of the sum.
  const std::uint64_t whole = std::max(account.limit(), account.held());
  return whole == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(whole);
}

void bar_ui(const MemoryAccount& account, const widgets::Palette& palette) {
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = widgets::em(0.8F);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddRectFilled(at, {at.x + width, at.y + height}, palette.raised);
  float left = at.x;
  for (const Part& part : kParts) {
    const float part_width = width * static_cast<float>(share_of(account, account.held(part.part)));
    draw->AddRectFilled({left, at.y}, {left + part_width, at.y + height},
                        color_of(palette, part.part));
    left += part_width;
  }
  ImGui::Dummy({width, height + widgets::em(0.2F)});
}

void right_aligned(ImU32 color, const std::string& text) {
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0F, room));
  widgets::text_colored(color, text);
}

void part_ui(const MemoryAccount& account, const widgets::Palette& palette, const Part& part) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float side = widgets::em(0.7F);
  const float top = at.y + (ImGui::GetTextLineHeight() - side) / 2;
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, top}, {at.x + side, top + side},
                                            color_of(palette, part.part), widgets::em(0.12F));
  ImGui::Dummy({side, side});
  ImGui::SameLine(0, widgets::em(0.5F));
  widgets::text_colored(palette.text, part.name);
  if (ImGui::IsItemHovered()) widgets::tooltip("%s", part.holds);
  ImGui::TableNextColumn();
  right_aligned(palette.text, format_bytes(account.held(part.part)));
  ImGui::TableNextColumn();
  widgets::text_colored(palette.muted,
                        widgets::elided(part.holds, ImGui::GetContentRegionAvail().x));
}

void sum_ui(const widgets::Palette& palette, const char* name, std::uint64_t bytes, ImU32 color,
            const char* note) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + widgets::em(1.2F));
  widgets::text_colored(palette.muted, name);
  ImGui::TableNextColumn();
  right_aligned(color, format_bytes(bytes));
  ImGui::TableNextColumn();
  widgets::text_colored(palette.muted, widgets::elided(note, ImGui::GetContentRegionAvail().x));
}

void rows_ui(const MemoryAccount& account, const widgets::Palette& palette) {
  const bool over = account.held() > account.limit();
  ImGui::TableSetupColumn("part");
  ImGui::TableSetupColumn("bytes", ImGuiTableColumnFlags_WidthFixed,
                          ImGui::CalcTextSize("1000.0 MiB").x);
  ImGui::TableSetupColumn("holds", ImGuiTableColumnFlags_WidthStretch);
  for (const Part& part : kParts) part_ui(account, palette, part);
  sum_ui(palette, "Sum", account.held(), over ? palette.warning : palette.text,
         over ? "all of it is in use" : "");
  sum_ui(palette, "Limit", account.limit(), palette.text, "--memory-limit");
}

}  // namespace

void memory_ui(const MemoryAccount& account, const widgets::Palette& palette) {
  bar_ui(account, palette);
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_ScrollY;
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, {widgets::em(0.5F), widgets::em(0.2F)});
  if (ImGui::BeginTable("##parts", 3, kFlags)) {
    rows_ui(account, palette);
    ImGui::EndTable();
  }
  ImGui::PopStyleVar();
}

std::string memory_text(const MemoryAccount& account) {
  return fmt::format("cache {} of {}", format_bytes(account.held()), format_bytes(account.limit()));
}

}  // namespace kvloupe::shell
