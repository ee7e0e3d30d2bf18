#include "app/state/view.h"

#include <algorithm>
#include <cctype>

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

const std::string* ViewOption::choice(const std::string& text) const {
  const auto named = std::find(choices.begin(), choices.end(), text);
  if (named != choices.end()) return &*named;
  const std::string* found = nullptr;
  for (const std::string& one : choices) {
    // A whole word of it.
    const std::string padded = "_" + one + "_";
    if (text.empty() || padded.find("_" + text + "_") == std::string::npos) continue;
    if (found != nullptr) return nullptr;
    found = &one;
  }
  return found;
}

// As GitHub makes an anchor of a heading.
std::string ViewInfo::metrics_link() const {
  if (metrics.empty()) return "";
  std::string anchor;
  for (const char c : metrics) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ' || c == '-')
      anchor += '-';
  }
  return std::string(kMetricsFile) + "#" + anchor;
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
