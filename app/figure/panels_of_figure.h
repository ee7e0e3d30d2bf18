// Several pages as one figure: beside each other, in rows, in the order of reading.
#pragma once

#include "app/figure/image.h"
#include "app/figure/page.h"
#include "app/figure/scene.h"

#include <string>
#include <vector>

namespace kvloupe::figure {

struct PanelGrid {
  int columns = 1;
  PageForm page;  // of one panel
};
// As many columns as the figure's width has room for.
PanelGrid grid_of(int panels, const PageForm& figure);
std::string letter_of_panel(std::size_t index);  // "a", "b", ... "z", "aa"

// A row is as high as its highest page; what is free has the background's colour.
Image side_by_side(const std::vector<Image>& pages, int columns);
Scene side_by_side(const std::vector<Scene>& pages, int columns);

}  // namespace kvloupe::figure
