// Pixels of attention probabilities at any zoom: what all pictures of attention share.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/kept/attention_map.h"
#include "app/widgets/map_texture.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::panels {

// How a probability becomes a colour.
struct ColorRange {
  bool logarithmic = true;
  double low = 1e-4;  // fades into the background
  double high = 0.25;

  double position(double p) const;  // 0 at low, 1 at high, beyond them outside of that
  std::string key() const;          // part of a picture's key
};
// The bar of the colours with its ends.
void color_range_ui(DrawContext& context, const ColorRange& range);

// Which row of a matrix stands in each row of the picture, from the top.
using RowOrder = std::vector<std::int32_t>;

// Source units that one cell of a matrix covers.
struct CellSize {
  double rows = 1, cols = 1;
  double first_query = 0;  // at which the matrix begins: NaN up to the diagonal is broken
};
// Maximum over the source cells that a pixel covers: one bright cell is never lost, nor one that is
// broken (the colour of errors).
void fill_matrix(const widgets::Palette& palette, const ColorRange& range,
                 const analysis::Matrix& matrix, const CellSize& cell,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels,
                 const RowOrder* order = nullptr);
// The same of a chunk's rows. Where the strip has them in coarse form alone that stands in, but where few
// cells are in view and `rows` is given.
void fill_strip(const widgets::Palette& palette, const ColorRange& range,
                const state::AttentionStripQuestion::Answer& strip, const analysis::Matrix* rows,
                const widgets::MapWindow& window, std::vector<ImU32>& pixels,
                const RowOrder* order = nullptr);
// Whether a coarse strip shows less than there is in so much of it.
bool wants_rows(const state::AttentionStripQuestion::Answer& strip, double num_rows,
                double num_keys);

}  // namespace kvloupe::panels
