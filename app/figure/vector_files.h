// A scene as a file: SVG, in which text is text, and PDF, in which its fonts are embedded.
#pragma once

#include "app/figure/scene.h"

#include <string>

namespace kvloupe::figure {

// `width_pt`: of the figure on paper, in points (1/72 inch).
// `prefix`: of the names inside, which are those of the whole page where an SVG is a part of one.
std::string svg_text(const Scene& scene, double width_pt, const std::string& prefix = {});
// Throws Error{Internal} where Cairo fails.
std::string pdf_bytes(const Scene& scene, double width_pt);

}  // namespace kvloupe::figure
