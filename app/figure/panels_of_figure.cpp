#include "app/figure/panels_of_figure.h"

#include <algorithm>
#include <utility>

namespace kvloupe::figure {
namespace {

constexpr int kLeastWidth = 600;  // pixels: narrower panels are cut

template <typename Page>
struct Placed {
  const Page* page;
  int left, top;
};

// Of all rows together: how high they are, and where each page lies.
template <typename Page>
std::pair<int, std::vector<Placed<Page>>> placed(const std::vector<Page>& pages, int columns) {
  std::vector<Placed<Page>> all;
  int top = 0, row_height = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto column = static_cast<int>(i) % columns;
    if (column == 0) top += std::exchange(row_height, 0);
    all.push_back({&pages[i], static_cast<int>(pages[i].width) * column, top});
    row_height = std::max(row_height, static_cast<int>(pages[i].height));
  }
  return {top + row_height, all};
}

struct Mover {
  float x, y;
  void move(ImVec2& at) const { at = {at.x + x, at.y + y}; }
  void move(Box& box) const { box = {box.left + x, box.top + y, box.right + x, box.bottom + y}; }
  void operator()(Area& area) const {
    for (Outline& outline : area.outlines)
      for (ImVec2& at : outline) move(at);
  }
  void operator()(Words& words) const { move(words.origin); }
  void operator()(Picture& picture) const { move(picture.box); }
};

}  // namespace

PanelGrid grid_of(int panels, const PageForm& figure) {
  PanelGrid grid{std::clamp(figure.width / kLeastWidth, 1, std::max(panels, 1)), figure};
  grid.page.width = figure.width / grid.columns;
  // A size that was asked for is that of all rows together; else a panel has the figure's shape, and grows.
  const int rows = (std::max(panels, 1) + grid.columns - 1) / grid.columns;
  grid.page.height =
      std::max(figure.height / (figure.grows ? grid.columns : rows), kLeastWidth * 2 / 3);
  return grid;
}

std::string letter_of_panel(std::size_t index) {
  constexpr std::size_t kLetters = 26;
  const std::string last(1, static_cast<char>('a' + index % kLetters));
  return index < kLetters ? last : letter_of_panel(index / kLetters - 1) + last;
}

Image side_by_side(const std::vector<Image>& pages, int columns) {
  const auto [height, all] = placed(pages, columns);
  const int width = pages.front().width * std::min(columns, static_cast<int>(pages.size()));
  Image figure{width, height, {}};
  const auto row_bytes = [](const Image& image) {
    return static_cast<std::size_t>(image.width) * 4;
  };
  // The first pixel is the background's.
  figure.rgba.resize(row_bytes(figure) * static_cast<std::size_t>(height));
  for (std::size_t i = 0; i < figure.rgba.size(); ++i) figure.rgba[i] = pages.front().rgba[i % 4];
  for (const auto& [page, left, top] : all)
    for (int row = 0; row < page->height; ++row)
      std::copy_n(
          page->rgba.begin() + static_cast<std::ptrdiff_t>(row_bytes(*page)) * row,
          // Widths at a scale are rounded each for itself.
          std::min(row_bytes(*page), row_bytes(figure) - static_cast<std::size_t>(left) * 4),
          figure.rgba.begin() + static_cast<std::ptrdiff_t>(row_bytes(figure)) * (top + row) +
              4 * left);
  return figure;
}

Scene side_by_side(const std::vector<Scene>& pages, int columns) {
  const auto [height, all] = placed(pages, columns);
  Scene figure = pages.front();
  figure.items.clear();
  figure.fonts.clear();
  figure.width = pages.front().width * static_cast<float>(std::min<std::size_t>(
                                           static_cast<std::size_t>(columns), pages.size()));
  figure.height = static_cast<float>(height);
  for (const auto& [page, left, top] : all) {
    const Mover mover{static_cast<float>(left), static_cast<float>(top)};
    for (Item item : page->items) {
      std::visit(mover, item.shape);
      if (item.clip) mover.move(*item.clip);
      if (auto* words = std::get_if<Words>(&item.shape)) {
        const auto& font = page->fonts[words->font];
        const auto same =
            std::find_if(figure.fonts.begin(), figure.fonts.end(), [&](const auto& has) {
              return has->name == font->name && has->face == font->face &&
                     has->bytes == font->bytes;
            });
        words->font = static_cast<std::size_t>(same - figure.fonts.begin());
        if (same == figure.fonts.end()) figure.fonts.push_back(font);
      }
      figure.items.push_back(std::move(item));
    }
  }
  return figure;
}

}  // namespace kvloupe::figure
