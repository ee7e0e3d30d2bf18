#include "app/panels/kv_map_picture.h"

#include "app/widgets/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::KeptBy;
using analysis::KeyState;

// One pixel of several keys: the most telling state, over the most common quiet one. A single kept
// key keeps at least half of its colour; the share says how dense the pixel is.
class StateMix {
 public:
  explicit StateMix(const widgets::Palette& palette) : palette_(palette) {}
  void add(KeyState state, std::int32_t count) {
    counts_[static_cast<std::size_t>(state)] += count;
  }
  ImU32 color() const {
    std::int64_t total = 0;
    int best = -1, quiet = -1;
    for (int s = 0; s < analysis::kNumKeyStates; ++s) {
      const std::int32_t count = counts_[static_cast<std::size_t>(s)];
      if (count == 0) continue;
      total += count;
      const auto state = static_cast<KeyState>(s);
      if (best < 0 ||
          widgets::prominence_of(state) > widgets::prominence_of(static_cast<KeyState>(best)))
        best = s;
      const bool is_quiet = state == KeyState::Dropped || state == KeyState::Evicted ||
                            state == KeyState::Hidden || state == KeyState::Future;
      if (is_quiet && (quiet < 0 || count > counts_[static_cast<std::size_t>(quiet)])) quiet = s;
    }
    if (best < 0) return palette_.future;
    const ImU32 color = widgets::color_of(palette_, static_cast<KeyState>(best));
    if (quiet < 0 || quiet == best) return color;
    const double share = 1.0 - static_cast<double>(counts_[static_cast<std::size_t>(quiet)]) /
                                   static_cast<double>(total);
    return widgets::mix(widgets::color_of(palette_, static_cast<KeyState>(quiet)), color,
                        0.5 + 0.5 * share);
  }

 private:
  const widgets::Palette& palette_;
  std::array<std::int32_t, analysis::kNumKeyStates> counts_{};
};

// The same of a difference.
class DifferenceMix {
 public:
  explicit DifferenceMix(const widgets::Palette& palette) : palette_(palette) {}
  void add(KeptBy what, std::int32_t count) { counts_[static_cast<std::size_t>(what)] += count; }
  ImU32 color() const { return color_of_keys(palette_, counts_); }

 private:
  const widgets::Palette& palette_;
  KeptByCounts counts_{};
};

// What is drawn: cells of a few kinds, and of a very large map also their counts in a small grid.
template <typename Kind, int N>
struct Cells {
  template <typename Map>
  Cells(const std::vector<Kind>& of_map, const analysis::CountGrid<N>& counts, const Map& map)
      : kinds(of_map),
        grid(counts),
        num_chunks(static_cast<std::int64_t>(map.chunks.size())),
        num_tokens(map.num_tokens) {}

  const std::vector<Kind>& kinds;  // [num_chunks, num_tokens]
  const analysis::CountGrid<N>& grid;
  std::int64_t num_chunks = 0, num_tokens = 0;
};

template <typename Mix, typename Kind, int N>
void fill(const widgets::Palette& palette, const Cells<Kind, N>& cells,
          const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const double in_view = (window.row_end - window.row_begin) * (window.col_end - window.col_begin);
  constexpr double kExactCells = 8e6;
  const bool exact = in_view <= kExactCells || cells.grid.rows == 0;
  const std::int64_t rows = exact ? cells.num_chunks : cells.grid.rows;
  const std::int64_t cols = exact ? cells.num_tokens : cells.grid.cols;
  const double row_scale = static_cast<double>(rows) / static_cast<double>(cells.num_chunks);
  const double col_scale = static_cast<double>(cols) / static_cast<double>(cells.num_tokens);
  widgets::MapWindow in_cells = window;
  for (double* row : {&in_cells.row_begin, &in_cells.row_end}) *row *= row_scale;
  for (double* col : {&in_cells.col_begin, &in_cells.col_end}) *col *= col_scale;
  widgets::fill_pixels(in_cells, rows, cols, pixels, [&](auto chunks, auto keys) {
    Mix mix(palette);
    for (std::int64_t r = chunks.first; r < chunks.second; ++r)
      for (std::int64_t c = keys.first; c < keys.second; ++c) {
        const auto cell = static_cast<std::size_t>(r * cols + c);
        if (exact) {
          mix.add(cells.kinds[cell], 1);
        } else {
          for (int kind = 0; kind < N; ++kind)
            mix.add(static_cast<Kind>(kind),
                    cells.grid.counts[cell][static_cast<std::size_t>(kind)]);
        }
      }
    return mix.color();
  });
}

// Single keys of single chunks, as pixels: they are seen however small the picture.
class KeyMarks {
 public:
  KeyMarks(const widgets::MapWindow& window, std::size_t num_chunks)
      : window_(window),
        num_chunks_(num_chunks),
        marked_(static_cast<std::size_t>(window.width) * num_chunks, 0) {}

  void add(int x, std::size_t chunk) {
    if (chunk < num_chunks_) marked_[index(x, chunk)] = 1;
  }
  // At the foot or at the head of the rows. Rows of a few pixels have a line; smaller ones are tinted.
  void draw(ImU32 color, bool at_foot, std::vector<ImU32>& pixels) const {
    const double row_pixels = window_.height / (window_.row_end - window_.row_begin);
    const double line_share = std::max(1.0, std::round(0.14 * row_pixels)) / row_pixels;
    constexpr double kTintBelow = 4;
    const auto num_chunks = static_cast<std::int64_t>(num_chunks_);
    for (int y = 0; y < window_.height; ++y) {
      const double from = window_.row_begin + y / row_pixels, to = from + 1 / row_pixels;
      auto first = static_cast<std::int64_t>(from);
      std::int64_t last = first + 1;
      const double middle = from + 0.5 / row_pixels - static_cast<double>(first);
      if (row_pixels < kTintBelow)
        last = std::max(last, static_cast<std::int64_t>(std::ceil(to)));
      else if (at_foot ? middle < 1 - line_share : middle > line_share)
        continue;
      first = std::clamp<std::int64_t>(first, 0, num_chunks);
      last = std::clamp<std::int64_t>(last, 0, num_chunks);
      ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window_.width;
      for (int x = 0; x < window_.width; ++x)
        if (any(x, first, last))
          line[x] = row_pixels < kTintBelow ? widgets::mix(line[x], color, 0.5) : color;
    }
  }

 private:
  std::size_t index(int x, std::size_t chunk) const {
    return static_cast<std::size_t>(x) * num_chunks_ + chunk;
  }
  bool any(int x, std::int64_t first, std::int64_t last) const {
    for (std::int64_t chunk = first; chunk < last; ++chunk)
      if (marked_[index(x, static_cast<std::size_t>(chunk))] != 0) return true;
    return false;
  }

  const widgets::MapWindow& window_;
  std::size_t num_chunks_;
  std::vector<std::uint8_t> marked_;
};

std::pair<std::int64_t, std::int64_t> keys_of_pixel(const widgets::MapWindow& window, int x,
                                                    std::int32_t num_tokens) {
  return widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end, window.width, x,
                                             num_tokens);
}

// Where keys die.
void mark_deaths(const widgets::Palette& palette, const analysis::KvMap& map,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  if (map.evict_chunk.empty()) return;
  KeyMarks marks(window, map.chunks.size());
  for (int x = 0; x < window.width; ++x) {
    const auto keys = keys_of_pixel(window, x, map.num_tokens);
    for (std::int64_t key = keys.first; key < keys.second; ++key)
      if (const auto chunk = map.death_of(static_cast<std::int32_t>(key)))
        marks.add(x, static_cast<std::size_t>(*chunk));
  }
  marks.draw(palette.died, true, pixels);
}

void mark_true_keys(const widgets::Palette& palette, const state::TrueKeysQuestion::Answer& keys,
                    const widgets::MapWindow& window, std::int32_t num_tokens,
                    std::vector<ImU32>& pixels) {
  KeyMarks marks(window, keys.size());
  for (int x = 0; x < window.width; ++x) {
    const auto range = keys_of_pixel(window, x, num_tokens);
    for (std::size_t chunk = 0; chunk < keys.size(); ++chunk) {
      const auto first = std::lower_bound(keys[chunk].begin(), keys[chunk].end(), range.first);
      if (first != keys[chunk].end() && *first < range.second) marks.add(x, chunk);
    }
  }
  marks.draw(palette.text, false, pixels);
}

}  // namespace

void fill_kv_map(const widgets::Palette& palette, const state::KvMapQuestion::Answer& answer,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const analysis::KvMap& map = answer.map;
  fill<StateMix>(palette, Cells(map.states, answer.grid, map), window, pixels);
  widgets::hatch_pixels(palette, window.width, pixels);
  mark_deaths(palette, map, window, pixels);
}

void fill_kv_difference(const widgets::Palette& palette,
                        const state::KvDifferenceQuestion::Answer& answer,
                        const state::TrueKeysQuestion::Answer* true_keys,
                        const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const analysis::KvDifference& map = answer.map;
  fill<DifferenceMix>(palette, Cells(map.cells, answer.grid, map), window, pixels);
  if (true_keys != nullptr) mark_true_keys(palette, *true_keys, window, map.num_tokens, pixels);
}

// What one of the two keeps alone is shown where it is at least a quarter of what is kept: else a pixel
// of a hundred keys would always tell of a difference.
ImU32 color_of_keys(const widgets::Palette& palette, const KeptByCounts& counts) {
  const auto count = [&](KeptBy what) { return counts[static_cast<std::size_t>(what)]; };
  const std::int32_t only_a = count(KeptBy::AOnly), only_b = count(KeptBy::BOnly);
  const std::int32_t kept = only_a + only_b + count(KeptBy::Both);
  const std::int32_t candidates = kept + count(KeptBy::Neither);
  if (candidates == 0) return palette.future;
  if (kept == 0) return widgets::color_of(palette, KeptBy::Neither);
  KeptBy what = KeptBy::Both;
  if (4 * std::max(only_a, only_b) >= kept) what = only_a >= only_b ? KeptBy::AOnly : KeptBy::BOnly;
  return widgets::mix(widgets::color_of(palette, KeptBy::Neither), widgets::color_of(palette, what),
                      0.5 + 0.5 * kept / candidates);
}

}  // namespace kvloupe::panels
