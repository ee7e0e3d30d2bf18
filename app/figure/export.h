// `kvloupe export`: what a view shows, as a file, without a display.
#pragma once

#include "app/state/description.h"
#include "app/widgets/theme.h"

#include <cstdint>
#include <string>

namespace kvloupe::figure {

struct ExportRequest {
  state::Description what;
  state::Format format = state::Format::Png;
  std::string file;    // - is standard output
  bool force = false;  // replaces an HDF5, GGUF or safetensors file
  int width = 1600, height = 900;
  double scale = 1;
  widgets::ThemeKind theme = widgets::ThemeKind::Light;
  std::uint64_t memory_limit = 0;
};

// Throws Error: Usage for what the arguments alone tell (state::check, a format that the view
// lacks), Input for a place that is not in the trace and for what could not be computed.
void export_view(const ExportRequest& request);

}  // namespace kvloupe::figure
