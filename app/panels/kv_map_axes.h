// The part of a KV map in view, and the key under the mouse. It belongs to the place: all maps of a row
// share it, whatever the method.
#pragma once

#include "app/panels/linked_ranges.h"
#include "app/panels/map_plot.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::panels {

class KvMapAxes {
 public:
  // How much stands around a map.
  struct Form {
    bool x_axis = true;
    bool small = false;  // no bars beside it, no name of the axis of chunks
  };

  // Once a frame, before the maps.
  void begin_frame() { pointed_ = std::exchange(pointing_, std::nullopt); }
  // All of a map of another shape; a key span that was chosen elsewhere comes into view.
  void fit(std::size_t num_chunks, std::int32_t num_tokens, const state::Place& place);
  // A plot of the map, to be filled.
  MapPlotSpec spec(ImVec2 size, const Form& form);
  ImPlotRange& chunks() { return y_; }
  double keys_in_view() const { return x_.Size(); }
  // Of the bars beside a map in a room of this width.
  static float bars_width(float room) { return std::min(room * 0.2F, widgets::em(13)); }
  // Of the numbers and the name below a map.
  static float axis_height() { return 2 * ImGui::GetTextLineHeight() + widgets::em(0.9F); }

  // The mouse is in the map of this number.
  void point_at(std::size_t map, const MapPlotHit& hit) { pointing_ = {map, hit.row, hit.col}; }
  // The axes of the same row in another trace, once a frame after begin_frame() and fit() of both: whichever
  // was zoomed or moved, the other follows by the tokens; so does the mouse.
  void link(KvMapAxes& other, const state::AlignedTraces& aligned, const state::Place& here,
            const state::Place& there);
  // Inside a plot: the chunk and the spans, and the key under the mouse where that is in another map.
  void marks_ui(DrawContext& context, const state::Place& place, std::size_t map) const;

 private:
  struct Pointed {
    std::size_t map = 0;
    double chunk = 0, key = 0;
  };
  ImPlotRange x_, y_;                      // keys, chunks
  std::pair<double, double> shape_{0, 0};  // chunks, keys
  std::string chunk_axis_;
  trace::KeySet keys_ = {};
  std::optional<Pointed> pointed_, pointing_;  // in the last frame, in this one
  LinkedRanges keys_link_, chunks_link_;
};

// What a click in a map does.
void go_to_key(DrawContext& context, const MapPlotHit& hit);
// What the mouse points at in a map of a place, and the first lines of its tooltip.
std::vector<widgets::TooltipLine> key_and_chunk(DrawContext& context, const state::Place& place,
                                                const MapPlotHit& hit);

}  // namespace kvloupe::panels
