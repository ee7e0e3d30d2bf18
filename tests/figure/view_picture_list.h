// One picture of each view, and of its forms that look another way, on a small trace. What is measured
// is the same each time.
#pragma once

#include "app/figure/export.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace kvloupe::figure::testing {

struct Size {
  int width, height;
};
inline constexpr Size kSmall{800, 500};

struct Picture {
  std::string name;
  std::string view;
  std::string go_to;
  std::vector<std::string> methods;
  std::map<std::string, std::string> options = {};
  Size size = kSmall;
  widgets::ThemeKind theme = widgets::ThemeKind::Light;

  friend void PrintTo(const Picture& picture, std::ostream* out) { *out << picture.name; }
};

std::vector<Picture> pictures();
ExportRequest request_of(const Picture& picture);
// Opens the trace and shows what the picture is of.
void show(state::Workspace& workspace, const ExportRequest& request);

}  // namespace kvloupe::figure::testing
