// `kvloupe export`: what a view shows, as a file, without a display.
#pragma once

#include "app/panels/panel.h"
#include "app/widgets/theme.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::figure {

struct ExportRequest {
  std::string trace;
  std::string view;
  std::vector<std::string> methods;  // SPECs for A and B; empty: the recorded runs
  std::string go_to;                 // "layer=3,q_head=5,chunk=12"
  panels::Format format = panels::Format::Png;
  std::string file;
  int width = 1600, height = 900;
  double scale = 1;
  widgets::ThemeKind theme = widgets::ThemeKind::Light;
  std::uint64_t memory_limit = 0;
};

// Throws Error: Usage for an unknown view or a format that the view lacks (before the trace is
// opened), Input for a place that is not in the trace and for what could not be computed.
void export_view(const ExportRequest& request);

}  // namespace kvloupe::figure
