#include "app/state/view.h"

#include <algorithm>

namespace kvloupe::state {

const char* name_of(Format format) {
  switch (format) {
    case Format::Png:
      return "png";
    case Format::Svg:
      return "svg";
    case Format::Csv:
      return "csv";
    case Format::Npy:
      return "npy";
  }
  return "";
}

std::vector<Format> ViewInfo::formats() const {
  std::vector<Format> all{Format::Png};
  if (table != nullptr) all.push_back(Format::Csv);
  if (array != nullptr) all.push_back(Format::Npy);
  return all;
}

bool ViewInfo::has(Format format) const {
  const auto all = formats();
  return std::find(all.begin(), all.end(), format) != all.end();
}

}  // namespace kvloupe::state
