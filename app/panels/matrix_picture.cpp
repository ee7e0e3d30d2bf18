// See matrix_picture.h.
#include "app/panels/matrix_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::panels {

double ColorRange::position(double p) const {
  if (!logarithmic) return (p - low) / (high - low);
  return p <= 0 ? 0 : std::log(p / low) / std::log(high / low);
}

std::string ColorRange::key() const { return fmt::format("|{}|{}|{}", logarithmic, low, high); }

void color_range_ui(DrawContext& context, const ColorRange& range) {
  widgets::color_scale_ui(
      context.palette, widgets::sequential_color, fmt::format("{:g}", range.low),
      fmt::format("{:g}{}", range.high, range.high < 1 ? " and more" : ""),
      range.logarithmic ? "attention probability (log)" : "attention probability",
      std::min(widgets::em(9), ImGui::GetContentRegionAvail().x / 4));
}

void fill_matrix(const widgets::Palette& palette, const ColorRange& range,
                 const analysis::Matrix& matrix, const CellSize& cell,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels,
                 const RowOrder* order) {
  constexpr int kTones = 512;
  std::vector<ImU32> tones(kTones + 1);
  for (int i = 0; i <= kTones; ++i)
    tones[static_cast<std::size_t>(i)] = widgets::sequential_color(palette, double(i) / kTones);
  widgets::MapWindow cells = window;
  for (double* row : {&cells.row_begin, &cells.row_end}) *row /= cell.rows;
  for (double* col : {&cells.col_begin, &cells.col_end}) *col /= cell.cols;
  widgets::fill_pixels(cells, matrix.rows, matrix.cols, pixels, [&](auto rows, auto columns) {
    float best = -1;
    bool broken = false;
    for (std::int64_t r = rows.first; r < rows.second; ++r) {
      const std::int64_t row = order != nullptr ? (*order)[static_cast<std::size_t>(r)] : r;
      const double visible = cell.first_query + (static_cast<double>(row) + 1) * cell.rows;  // keys
      for (std::int64_t c = columns.first; c < columns.second; ++c) {
        const float p = matrix.at(row, c);
        if (std::isnan(p))
          broken = broken || static_cast<double>(c) * cell.cols < visible;
        else
          best = std::max(best, p);
      }
    }
    return broken     ? palette.error
           : best < 0 ? palette.panel
                      : tones[static_cast<std::size_t>(std::clamp(range.position(best), 0.0, 1.0) *
                                                       kTones)];
  });
}

bool wants_rows(const state::AttentionStripQuestion::Answer& strip, double num_rows,
                double num_keys) {
  constexpr double kFewCells = 8e6;
  return !strip.rows && num_rows * num_keys <= kFewCells;
}

void fill_strip(const widgets::Palette& palette, const ColorRange& range,
                const state::AttentionStripQuestion::Answer& strip, const analysis::Matrix* rows,
                const widgets::MapWindow& window, std::vector<ImU32>& pixels,
                const RowOrder* order) {
  const double begin = strip.query_begin;
  if (strip.rows) rows = strip.rows.get();
  const bool few =
      wants_rows(strip, window.row_end - window.row_begin, window.col_end - window.col_begin);
  if (rows != nullptr && (strip.rows || few))
    fill_matrix(palette, range, *rows, {1, 1, begin}, window, pixels, order);
  else
    fill_matrix(palette, range, strip.coarse, {1, static_cast<double>(strip.step), begin}, window,
                pixels, order);
}

}  // namespace kvloupe::panels
