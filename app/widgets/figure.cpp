// See figure.h.
#include "app/widgets/figure.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::widgets {
namespace {

ImDrawList* draw() { return ImGui::GetWindowDrawList(); }

FigureParts figure_parts;  // of the figure that is drawn now

constexpr float kHatchShare = 0.25F;  // of the distance of two lines
float hatch_step() { return std::max(5.0F, grid(0.75F)); }

// False where there is no room.
bool centered(ImU32 color, const std::string& heading, const std::string& text, bool spinner,
              const Palette& palette) {
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float wrap = std::min(room.x - em(2), em(34));
  if (room.x < em(3) || room.y < em(1)) return false;
  const ImVec2 size = ImGui::CalcTextSize(text.c_str(), nullptr, false, wrap);
  float y = origin.y + std::max(em(0.5F), (room.y - size.y) * 0.42F - em(1.2F));
  const float middle = origin.x + room.x / 2;
  if (spinner) {
    const float radius = em(0.7F);
    const ImVec2 center(middle, y);
    const float turn = static_cast<float>(ImGui::GetTime()) * 5.0F;
    draw()->AddCircle(center, radius, palette.line, 32, em(0.16F));
    draw()->PathArcTo(center, radius, turn, turn + 1.7F, 16);
    draw()->PathStroke(palette.accent, 0, em(0.16F));
    y += em(1.5F);
  }
  if (!heading.empty()) {
    const FontScope strong(Type::Strong);
    const float width = ImGui::CalcTextSize(heading.c_str()).x;
    draw()->AddText({middle - width / 2, y}, color, heading.c_str());
    y += em(1.6F);
  }
  ImGui::SetCursorScreenPos({middle - std::min(size.x, wrap) / 2, y});
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + wrap);
  ImGui::PushStyleColor(ImGuiCol_Text, palette.muted);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopStyleColor();
  ImGui::PopTextWrapPos();
  return true;
}

}  // namespace

bool popup_is_open() {
  return ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel);
}

void escape_closes_popup() {
  if (ImGui::IsKeyPressed(ImGuiKey_Escape, false)) ImGui::CloseCurrentPopup();
}

void text_colored(ImU32 color, const std::string& text) {
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopStyleColor();
  keep_clear_if_warning(color, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}

void text_wrapped(ImU32 color, const std::string& words) {
  // A line does not begin with a per cent sign.
  std::string text = words;
  for (std::size_t at = 0; (at = text.find(" %", at)) != std::string::npos;)
    text.replace(at, 1, "\u00A0");
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  keep_clear_if_warning(color, ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
}

namespace {

bool fits(const std::string& text, float width) {
  return ImGui::CalcTextSize(text.c_str()).x <= width;
}

// Text is cut at character boundaries only.
bool within_character(const std::string& text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

}  // namespace

std::string elided(const std::string& text, float width) {
  // Of a long text no more is measured than two letters beyond the width: a span may have a megabyte.
  const float size = ImGui::GetFontSize();
  const char* rest = nullptr;
  ImGui::GetFont()->CalcTextSizeA(size, width + 2 * size, 0, text.data(), text.data() + text.size(),
                                  &rest);
  auto keep = static_cast<std::size_t>(rest - text.data());
  if (keep == text.size() && fits(text, width)) return text;
  while (keep > 0) {
    do --keep;
    while (keep > 0 && within_character(text, keep));
    std::string shortened = text.substr(0, keep) + "\u2026";
    if (fits(shortened, width)) return shortened;
  }
  return "\u2026";
}

std::string elided_label(const std::string& label, float width) {
  const std::size_t gap = label.rfind("  ");
  if (gap == std::string::npos || fits(label, width)) return elided(label, width);
  const std::string end = label.substr(gap + 1);
  const float left = width - ImGui::CalcTextSize(end.c_str()).x;
  return left < em(2) ? elided(label, width) : elided(label.substr(0, gap), left) + end;
}

// A SPEC in lines that fit, each but the last with its comma.
static std::vector<std::string> cut_at_commas(const std::string& spec, float width) {
  std::vector<std::string> lines{""};
  for (std::size_t at = 0; at < spec.size();) {
    const std::size_t end = std::min(spec.find(',', at), spec.size() - 1) + 1;
    const std::string part = spec.substr(at, end - at);
    if (!lines.back().empty() && !fits(lines.back() + part, width)) lines.emplace_back();
    lines.back() += part;
    at = end;
  }
  return lines;
}

void figure_head_ui(const Palette& palette, bool figure, const std::string& title,
                    const std::string& subtitle, const std::string& caption,
                    const std::vector<Chip>& chips) {
  const auto end_head = [&] {
    if (figure && !title.empty() && figure_parts.head_end != nullptr)
      *figure_parts.head_end = ImGui::GetCursorScreenPos().y - ImGui::GetMainViewport()->Pos.y;
  };
  if (figure && !figure_parts.head) return end_head();
  if (figure && !title.empty()) {
    {
      const FontScope strong(Type::Title);
      text_colored(palette.text, title);
    }
    if (!subtitle.empty()) {
      const FontScope mono(Type::Number);
      for (const std::string& line : cut_at_commas(subtitle, ImGui::GetContentRegionAvail().x))
        text_colored(palette.accent, line);
    }
    text_wrapped(palette.muted, caption);
    ImGui::Dummy({0, grid(0.5F)});
  }
  const float pad_x = em(0.55F);
  const float pad_y = em(0.16F);
  const FontScope small(Type::Caption);
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  bool first = true;
  for (const Chip& chip : chips) {
    const std::string& words = figure || chip.brief.empty() ? chip.text : chip.brief;
    const ImVec2 text = ImGui::CalcTextSize(words.c_str());
    const ImVec2 size(text.x + 2 * pad_x, text.y + 2 * pad_y);
    if (!first) {
      ImGui::SameLine(0, em(0.35F));
      if (ImGui::GetCursorScreenPos().x + size.x > right) ImGui::NewLine();
    }
    first = false;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 end(at.x + size.x, at.y + size.y);
    const ImU32 color = chip.color == 0 ? palette.muted : chip.color;
    draw()->AddRectFilled(at, end, mix(palette.panel, color, chip.color == 0 ? 0.12 : 0.16),
                          size.y / 2);
    draw()->AddText({at.x + pad_x, at.y + pad_y}, chip.color == 0 ? palette.text : color,
                    words.c_str());
    ImGui::Dummy(size);
    if (!chip.explained.empty() && ImGui::IsItemHovered())
      tooltip("%s\n%s", chip.text.c_str(), chip.explained.c_str());
  }
  end_head();
}

bool shares_legend() { return figure_parts.legends != nullptr; }

FigureScope::FigureScope(const FigureParts& parts) : before_(std::exchange(figure_parts, parts)) {}
FigureScope::~FigureScope() { figure_parts = before_; }

void legend_ui(const Palette& palette, const std::vector<LegendItem>& items) {
  if (std::vector<LegendItem>* legends = figure_parts.legends; legends != nullptr) {
    for (const LegendItem& item : items)
      if (std::find(legends->begin(), legends->end(), item) == legends->end())
        legends->push_back(item);
    ImGui::Dummy({0, 0});  // ends the line that it would have stood in, or begins one
    return;
  }
  const FontScope small(Type::Caption);
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  const float box = em(0.75F);
  bool first = true;
  for (const LegendItem& item : items) {
    const ImVec2 text = ImGui::CalcTextSize(item.text.c_str());
    const float width = box + em(0.4F) + text.x;
    if (!first) {
      ImGui::SameLine(0, em(1.0F));
      if (ImGui::GetCursorScreenPos().x + width > right) ImGui::NewLine();
    }
    first = false;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float top = at.y + (text.y - box) / 2;
    const ImVec2 middle(at.x + box / 2, top + box / 2);
    switch (item.shape) {
      case LegendItem::Shape::Square:
        key_rect(draw(), palette, {at.x, top}, {at.x + box, top + box}, item.color, em(0.15F));
        draw()->AddRect({at.x, top}, {at.x + box, top + box}, with_alpha(palette.faint, 0.45F),
                        em(0.15F));
        break;
      case LegendItem::Shape::Evicted:
        draw()->AddRectFilled({at.x, top}, {at.x + box, top + box}, item.color, em(0.15F));
        key_rect(draw(), palette, {at.x, top + box * 0.6F}, {at.x + box, top + box},
                 palette.evicted, em(0.15F));
        break;
      case LegendItem::Shape::Dot: draw()->AddCircleFilled(middle, box * 0.36F, item.color); break;
      case LegendItem::Shape::Ring:
        draw()->AddCircle(middle, box * 0.42F, item.color, 0, em(0.12F));
        break;
      case LegendItem::Shape::Line:
        draw()->AddLine({at.x, middle.y}, {at.x + box, middle.y}, item.color, em(0.14F));
        break;
      case LegendItem::Shape::Triangle:
        draw()->AddTriangleFilled({at.x, top}, {at.x + box, top}, {middle.x, top + box},
                                  item.color);
        break;
      case LegendItem::Shape::Diamond:
        draw()->AddCircleFilled(middle, box * 0.6F, item.color, 4);
        break;
      case LegendItem::Shape::Frame:
        draw()->AddRect({at.x + 1, top + 1}, {at.x + box - 1, top + box - 1}, item.color, 0, 0,
                        em(0.13F));
        break;
      case LegendItem::Shape::Edges:
        for (const float y : {top, top + box - em(0.22F)})
          draw()->AddRectFilled({at.x, y}, {at.x + box, y + em(0.22F)}, item.color);
        break;
    }
    draw()->AddText({at.x + box + em(0.4F), at.y}, palette.muted, item.text.c_str());
    ImGui::Dummy({width, text.y});
  }
}

void key_rect(ImDrawList* draw, const Palette& palette, ImVec2 from, ImVec2 to, ImU32 color,
              float rounding) {
  draw->AddRectFilled(from, to, color, rounding);
  if (color != palette.evicted) return;
  const float step = hatch_step();
  const float thick = std::max(1.0F, step * kHatchShare);
  const float height = to.y - from.y;
  draw->PushClipRect(from, to, true);
  // All rectangles share one raster, so that neighbours look like one area.
  const float first = std::floor((from.x + from.y) / step) * step;
  for (float sum = first; sum < to.x + to.y + step; sum += step)
    draw->AddLine({sum - from.y, from.y}, {sum - from.y - height, to.y}, palette.evicted_hatch,
                  thick);
  draw->PopClipRect();
}

void hatch_pixels(const Palette& palette, int width, std::vector<ImU32>& pixels) {
  const int step = static_cast<int>(hatch_step());
  const int thick = std::max(1, static_cast<int>(static_cast<float>(step) * kHatchShare));
  const int height = static_cast<int>(pixels.size()) / std::max(1, width);
  for (int y = 0; y < height; ++y) {
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * width;
    for (int x = 0; x < width; ++x)
      if (line[x] == palette.evicted && (x + y) % step < thick) line[x] = palette.evicted_hatch;
  }
}

void color_scale_ui(const Palette& palette, ImU32 (*color)(const Palette&, double),
                    const std::string& low, const std::string& high, const std::string& unit,
                    float width) {
  const FontScope small(Type::Caption);
  text_colored(palette.muted, low);
  ImGui::SameLine(0, em(0.4F));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = em(0.75F);
  // In a line with controls the text stands lower.
  const float lower = ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset;
  const float top = at.y + lower + (ImGui::GetTextLineHeight() - height) / 2;
  constexpr int kSteps = 48;
  for (int i = 0; i < kSteps; ++i) {
    const ImU32 from = color(palette, static_cast<double>(i) / kSteps);
    const ImU32 to = color(palette, (i + 1.0) / kSteps);
    draw()->AddRectFilledMultiColor({std::round(at.x + width * i / kSteps), top},
                                    {std::round(at.x + width * (i + 1) / kSteps), top + height},
                                    from, to, to, from);
  }
  draw()->AddRect({at.x, top}, {at.x + width, top + height}, palette.line);
  ImGui::Dummy({width, ImGui::GetTextLineHeight()});
  ImGui::SameLine(0, em(0.4F));
  text_colored(palette.muted, high + (unit.empty() ? "" : "  " + unit));
}

void empty_ui(const Palette& palette, const std::string& text) {
  centered(palette.text, "Nothing to show", text, false, palette);
}

void error_ui(const Palette& palette, const std::string& text) {
  centered(palette.error, "This could not be computed", text, false, palette);
}

bool failed_ui(const Palette& palette, const std::string& text) {
  const float middle = ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x / 2;
  const float width = em(5.5F);
  if (!centered(palette.error, "This could not be computed", text, false, palette)) return false;
  ImGui::Dummy({0, grid(1)});
  ImGui::SetCursorPosX(middle - width / 2);
  return ImGui::Button("Try again", {width, 0});
}

void loading_ui(const Palette& palette, const std::string& text) {
  centered(palette.text, "", text, true, palette);
}

void stale_ui(const Palette& palette) {
  const ImVec2 corner = ImGui::GetWindowPos();
  const ImVec2 size = ImGui::GetWindowSize();
  const float phase = 0.5F + 0.5F * std::sin(static_cast<float>(ImGui::GetTime()) * 6.0F);
  draw()->AddCircleFilled({corner.x + size.x - em(0.9F), corner.y + em(2.4F)}, em(0.28F),
                          with_alpha(palette.accent, 0.35F + 0.65F * phase));
}

void share_bar_ui(const Palette& palette, double share, ImU32 color, float width, float height) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float top = at.y + (ImGui::GetTextLineHeight() - height) / 2;
  const float filled = width * static_cast<float>(std::clamp(share, 0.0, 1.0));
  draw()->AddRectFilled({at.x, top}, {at.x + width, top + height}, palette.raised, height / 2);
  if (filled > 0)
    draw()->AddRectFilled({at.x, top}, {at.x + std::max(filled, 2.0F), top + height}, color,
                          height / 2);
  ImGui::Dummy({width, ImGui::GetTextLineHeight()});
}

}  // namespace kvloupe::widgets
