// Every colour of the program. A meaning has one colour, in every view and figure. For an eye without
// green cones the colours of meanings differ by at least 16 (CIEDE2000; tests/tools/check_colors.py).
#pragma once

#include "app/state/method_choice.h"
#include "app/widgets/theme.h"
#include "core/analysis/kv_difference.h"
#include "core/analysis/kv_map.h"
#include "core/analysis/received_rankings.h"
#include "core/analysis/selected_vs_true.h"
#include "core/replay/block_report.h"
#include "core/replay/explain.h"

#include <imgui.h>

#include <array>

namespace kvloupe::widgets {

struct Palette {
  ThemeKind kind = ThemeKind::Dark;
  Colors colors = Colors::Usual;
  // What happens to a key. Kept by rule: sinks, recent keys, what a block or page brings along.
  ImU32 hit = 0, miss = 0, waste = 0, by_rule = 0, current = 0, dense = 0;
  // Evicted is hatched wherever it has an area.
  ImU32 dropped = 0, evicted = 0, evicted_hatch = 0, died = 0, future = 0, hidden = 0;
  // Surfaces and text.
  ImU32 window = 0, panel = 0, raised = 0, line = 0, grid = 0;
  ImU32 text = 0, muted = 0, faint = 0, accent = 0, on_accent = 0;
  ImU32 good = 0, warning = 0, error = 0;
  // Methods: A has the accent. What both keep tells nothing of the two, and is pale.
  ImU32 slot_b = 0, both = 0;
  // Causes of a loss, and lines and parts that are many: of none of the meanings above.
  std::array<ImU32, 7> series{};
  ImU32 fit = 0;  // a law, a bound or a mean that is laid over data
};

const Palette& palette_of(ThemeKind kind, Colors colors = Colors::Usual);

ImU32 color_of(const Palette& palette, analysis::KeyState state);
ImU32 color_of(const Palette& palette, analysis::KeyVerdict verdict);
ImU32 color_of(const Palette& palette, analysis::KeptBy kept_by);
ImU32 color_of(const Palette& palette, replay::BlockState state);
ImU32 color_of(const Palette& palette, analysis::KeyKind kind);
// What lost a key.
ImU32 color_of(const Palette& palette, replay::Stage stage);
// The methods A and B, wherever they are told apart.
ImU32 color_of_slot(const Palette& palette, state::Slot slot);
// Which state wins a pixel that holds several keys: the rarer and more telling first.
int prominence_of(analysis::KeyState state);
int prominence_of(replay::BlockState state);

// t in [0,1]. Low values fade into the panel, high ones stand out; lightness is monotonic.
ImU32 sequential_color(const Palette& palette, double t);
// The same for cells with numbers: the lowest one is still seen.
ImU32 score_color(const Palette& palette, double t);
// t in [0,1], of queries that lie among keys: no colour of a fate occurs in it.
ImU32 query_color(const Palette& palette, double t);
// t in [0,1]: bad (the colour of a miss) through neutral to good (the colour of a hit).
ImU32 diverging_color(const Palette& palette, double t);
// The same for a share of which more is better. Most are above one half: the colours are spent there, so that 0.6 does
// not look like 1.
ImU32 share_color(const Palette& palette, double t);
// t in [0,1]: B alone (0) through neutral to A alone (1).
ImU32 slot_diverging_color(const Palette& palette, double t);
// Readable on a cell of this colour.
ImU32 ink_on(ImU32 background);
ImU32 with_alpha(ImU32 color, float alpha);
ImU32 mix(ImU32 from, ImU32 to, double t);
ImVec4 to_vec4(ImU32 color);

}  // namespace kvloupe::widgets
