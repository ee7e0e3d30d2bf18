// A scene as a PDF, in which its fonts are embedded.
#pragma once

#include "app/figure/scene.h"

#include <string>

namespace kvloupe::figure {

// `width_pt`: of the figure on paper, in points (1/72 inch). Throws Error{Internal} where Cairo fails.
std::string pdf_bytes(const Scene& scene, double width_pt);

}  // namespace kvloupe::figure
