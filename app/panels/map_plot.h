// A plot whose content is one large map: axes, pan and zoom from ImPlot, pixels from a MapTexture.
#pragma once

#include "app/panels/view_frame.h"
#include "app/widgets/map_texture.h"

#include <implot/implot.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::panels {

struct MapPlotSpec {
  const char* id = "";
  std::string x_label, y_label;
  double rows = 1, cols = 1;  // extent in source units; row 0 is at the top
  ImVec2 size{-1, -1};
  bool show_x_ticks = true;
  bool show_y_ticks = true;
  bool row_ticks = false;                               // a number in the middle of each row
  const std::vector<std::string>* row_names = nullptr;  // in place of the numbers
  int named_row = 0;                              // where not all have room, the ticks hit this one
  int first_row = 0;                              // the number of row 0
  const std::vector<int>* row_numbers = nullptr;  // of each row, where they are no sequence
  bool col_ticks = false;                         // a number in the middle of each column
  const std::vector<int>* col_numbers = nullptr;  // of each column, where they are no sequence
  bool zoom_rows = true;    // false: the wheel zooms columns, with Ctrl rows too
  std::string content_key;  // of the result that is drawn: other pixels, other key
  widgets::MapTexture::Fill fill;
  // Linked limits, kept by the caller so that neighbours can share them; nullptr: own, which begin
  // anew where rows or cols change.
  ImPlotRange* x_range = nullptr;
  ImPlotRange* y_range = nullptr;
};

struct MapPlotHit {
  double row = 0, col = 0;  // source units under the mouse
  bool clicked = false;
};

// Draws the map; `over` draws on top, between BeginPlot and EndPlot. Returns what the mouse points
// at.
std::optional<MapPlotHit> map_plot_ui(DrawContext& context, const MapPlotSpec& spec,
                                      widgets::MapTexture& texture,
                                      const std::function<void()>& over);

// "1,024" on an axis that counts tokens; nothing at fractions.
int format_token_tick(double value, char* buffer, int size, void*);
// "25 %" of 0.25.
int percent_tick(double value, char* buffer, int size, void*);
// The name of an axis of a plot so high (or wide): the short one where the long one would be cut.
const char* fitting(const char* name, const char* short_name, float plot_size);
// Plots that begin while it lives leave room beside the frame for half of the last tick's number.
class TickRoom {
 public:
  TickRoom() {
    const ImVec2 padding = ImPlot::GetStyle().PlotPadding;
    ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, {widgets::em(1), padding.y});
  }
  ~TickRoom() { ImPlot::PopStyleVar(); }
  TickRoom(const TickRoom&) = delete;
  TickRoom& operator=(const TickRoom&) = delete;
};
// Axis ranges are fitted once to what is drawn, and again when that changes.
class ContentFit {
 public:
  // `frames`: more than one where the limits depend on the plot's own size.
  explicit ContentFit(int frames = 1) : frames_(frames) {}
  // They show all of it again.
  void again() { left_ = frames_; }
  ImPlotCond condition(const std::string& content_key) {
    if (key_ != content_key) left_ = frames_;
    key_ = content_key;
    if (left_ == 0) return ImPlotCond_Once;
    --left_;
    return ImPlotCond_Always;
  }

 private:
  std::string key_;
  int frames_;
  int left_ = 0;
};
// A click that was not a drag, in the plot just drawn.
bool plot_clicked();

}  // namespace kvloupe::panels
