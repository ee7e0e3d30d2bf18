// A scene as an SVG, in which text is text.
#pragma once

#include "app/figure/scene.h"

#include <string>

namespace kvloupe::figure {

// `width_pt`: of the figure on paper, in points (1/72 inch).
// `prefix`: of the names inside, which are those of the whole page where an SVG is a part of one.
std::string svg_text(const Scene& scene, double width_pt, const std::string& prefix = {});

}  // namespace kvloupe::figure
