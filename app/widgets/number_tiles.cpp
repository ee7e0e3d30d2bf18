#include "app/widgets/number_tiles.h"

#include "app/widgets/figure.h"
#include "app/widgets/fonts.h"
#include "app/widgets/tooltip.h"

#include <algorithm>

namespace kvloupe::widgets {
namespace {

float width_of(const NumberTile& tile) {
  const auto width = [](const std::string& text, Type type) {
    const FontScope scope(type);
    return ImGui::CalcTextSize(text.c_str()).x;
  };
  return std::max(width(tile.value, Type::Title), width(tile.name, Type::Caption));
}

void tile_ui(const Palette& palette, ImVec2 at, const NumberTile& tile) {
  ImGui::SetCursorScreenPos(at);
  ImGui::BeginGroup();
  {
    const FontScope strong(Type::Title);
    text_colored(tile.color != 0 ? tile.color : palette.text, tile.value);
  }
  ImGui::SetCursorScreenPos({at.x, at.y + em(1.45F)});
  {
    const FontScope small(Type::Caption);
    text_colored(palette.muted, tile.name);
  }
  ImGui::EndGroup();
  if (!tile.explained.empty() && ImGui::IsItemHovered()) tooltip("%s", tile.explained.c_str());
}

}  // namespace

void number_tiles_ui(const Palette& palette, const std::vector<NumberTile>& tiles) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float room = ImGui::GetContentRegionAvail().x;
  const float height = em(2.75F);
  const float even =
      std::min(em(9), room / static_cast<float>(std::max<std::size_t>(tiles.size(), 1)));
  ImVec2 where = at;
  for (const NumberTile& tile : tiles) {
    const float width = width_of(tile);
    if (where.x > at.x && where.x + width > at.x + room) where = {at.x, where.y + height};
    tile_ui(palette, where, tile);
    where.x += std::max(even, width + em(0.8F));
  }
  ImGui::SetCursorScreenPos({at.x, where.y + height});
  ImGui::Dummy({0, 0});
}

}  // namespace kvloupe::widgets
