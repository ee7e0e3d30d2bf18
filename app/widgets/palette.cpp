// Colour tables; see palette.h.
#include "app/widgets/palette.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::widgets {
namespace {

constexpr ImU32 rgb(unsigned hex) {
  return IM_COL32((hex >> 16) & 255U, (hex >> 8) & 255U, hex & 255U, 255);
}

Palette make_dark() {
  Palette p;
  p.kind = ThemeKind::Dark;
  p.hit = rgb(0x5CB0F2);
  p.miss = rgb(0xE86F24);
  p.waste = rgb(0xF7DF52);
  p.by_rule = rgb(0x8E4BEA);
  p.current = rgb(0xBFC4CC);
  p.dense = rgb(0x45617C);
  p.dropped = rgb(0x252B35);
  p.evicted = rgb(0x8A3B55);
  p.evicted_hatch = rgb(0xB8617F);
  p.died = rgb(0xF3F5F8);
  p.future = rgb(0x14181E);
  p.hidden = rgb(0x1F1B16);
  p.window = rgb(0x0F1216);
  p.panel = rgb(0x161A20);
  p.raised = rgb(0x222831);
  p.line = rgb(0x2E3642);
  p.grid = rgb(0x2A313B);
  p.text = rgb(0xE8ECF2);
  p.muted = rgb(0x9CA8B9);
  p.faint = rgb(0x657082);
  p.accent = rgb(0x5CB0F2);
  p.on_accent = rgb(0x0B1016);
  p.slot_b = rgb(0xC79BE8);
  p.both = rgb(0x3C6B5A);
  p.series = {rgb(0x32A6A1), rgb(0xA4CE8D), rgb(0x7D5E0A), rgb(0xB03FBA),
              rgb(0x1DA26A), rgb(0xE7F3DE), rgb(0x29787A)};
  p.fit = p.series[3];
  p.good = rgb(0x2FC79A);
  p.warning = rgb(0xF7DF52);
  p.error = rgb(0xFF8A4F);
  return p;
}

Palette make_light() {
  Palette p;
  p.kind = ThemeKind::Light;
  p.hit = rgb(0x2971D6);
  p.miss = rgb(0xC9500F);
  p.waste = rgb(0xEFC91A);
  p.by_rule = rgb(0x4B1AA5);
  p.current = rgb(0x6B7280);
  p.dense = rgb(0x93C6E8);
  p.dropped = rgb(0xEEF1F5);
  p.evicted = rgb(0xD98AA3);
  p.evicted_hatch = rgb(0xA3456B);
  p.died = rgb(0x17202C);
  p.future = rgb(0xFFFFFF);
  p.hidden = rgb(0xF8F3E6);
  p.window = rgb(0xEDF0F4);
  p.panel = rgb(0xFFFFFF);
  p.raised = rgb(0xF1F4F8);
  p.line = rgb(0xD3DAE3);
  p.grid = rgb(0xE4E8EE);
  p.text = rgb(0x17202C);
  p.muted = rgb(0x556275);
  p.faint = rgb(0x8E9AAB);
  p.accent = rgb(0x2971D6);
  p.on_accent = rgb(0xFFFFFF);
  p.slot_b = rgb(0x8A4FB0);
  p.both = rgb(0x9FCFB6);
  p.series = {rgb(0x45B6B6), rgb(0x224800), rgb(0x836251), rgb(0xF88FFF),
              rgb(0x91B877), rgb(0x0B2545), rgb(0x004C40)};
  p.fit = p.series[3];
  p.good = rgb(0x00835F);
  p.warning = rgb(0x946B00);
  p.error = rgb(0xC24E00);
  return p;
}

double luminance(ImU32 color) {
  const auto channel = [color](int shift) { return ((color >> shift) & 255U) / 255.0; };
  return 0.2126 * channel(IM_COL32_R_SHIFT) + 0.7152 * channel(IM_COL32_G_SHIFT) +
         0.0722 * channel(IM_COL32_B_SHIFT);
}

constexpr ImU32 gray(unsigned shade) { return IM_COL32(shade, shade, shade, 255); }

// What happens to a key is told apart by shades; what is lost stands out most. Surfaces and words keep
// their lightness.
Palette make_gray(Palette p) {
  const bool dark = p.kind == ThemeKind::Dark;
  p.colors = Colors::Gray;
  for (ImU32* const color : {&p.window, &p.panel, &p.raised, &p.line, &p.grid, &p.text, &p.muted,
                             &p.faint, &p.future, &p.hidden, &p.on_accent, &p.died})
    *color = gray(static_cast<unsigned>(std::lround(255 * luminance(*color))));
  const auto shade = [dark](unsigned on_light, unsigned on_dark) {
    return gray(dark ? on_dark : on_light);
  };
  p.hit = shade(0x7A, 0x96);
  p.miss = shade(0x0A, 0xFF);
  p.waste = shade(0xD6, 0x58);
  p.by_rule = shade(0x52, 0xBC);
  p.current = shade(0x2E, 0xDC);
  p.dense = shade(0xB0, 0x76);
  p.dropped = shade(0xF2, 0x26);
  p.evicted = shade(0xE2, 0x38);
  p.evicted_hatch = shade(0x8A, 0x80);
  p.accent = shade(0x30, 0xE6);
  p.slot_b = shade(0x8E, 0x8C);
  p.both = shade(0xC8, 0x4A);
  p.series = {shade(0x80, 0x88), shade(0xB4, 0xC4), shade(0x1C, 0xFA), shade(0x48, 0x6A),
              shade(0x9A, 0xDE), shade(0x32, 0xA6), shade(0x64, 0x50)};
  p.fit = p.text;
  p.good = p.accent;
  p.warning = p.muted;
  p.error = p.text;
  return p;
}

struct Stop {
  double at;
  unsigned hex;
};

template <std::size_t N>
ImU32 along(const std::array<Stop, N>& stops, double t) {
  t = std::clamp(t, 0.0, 1.0);
  for (std::size_t i = 1; i < N; ++i)
    if (t <= stops[i].at)
      return mix(rgb(stops[i - 1].hex), rgb(stops[i].hex),
                 (t - stops[i - 1].at) / (stops[i].at - stops[i - 1].at));
  return rgb(stops[N - 1].hex);
}

constexpr std::array<Stop, 6> kSequentialDark{{{0.0, 0x161A20},
                                               {0.2, 0x2B2A5E},
                                               {0.45, 0x74318C},
                                               {0.68, 0xC9486B},
                                               {0.86, 0xF59B4A},
                                               {1.0, 0xFCF4B0}}};
constexpr std::array<Stop, 6> kSequentialLight{{{0.0, 0xFFFFFF},
                                                {0.15, 0xDCEAF6},
                                                {0.4, 0x8FC1E3},
                                                {0.65, 0x3A82C0},
                                                {0.85, 0x1A4A8E},
                                                {1.0, 0x0B1B4D}}};
constexpr std::array<Stop, 3> kQueryDark{{{0.0, 0x6E5E36}, {0.6, 0xD9B23C}, {1.0, 0xFFF6C8}}};
constexpr std::array<Stop, 3> kQueryLight{{{0.0, 0xE0CF96}, {0.6, 0x9C7A10}, {1.0, 0x3D2E00}}};
constexpr std::array<Stop, 5> kDivergingDark{
    {{0.0, 0xFF7A3D}, {0.3, 0xA8613F}, {0.5, 0x656C76}, {0.7, 0x4A78A3}, {1.0, 0x4AA8FF}}};
constexpr std::array<Stop, 5> kDivergingLight{
    {{0.0, 0xC24E00}, {0.25, 0xEE9A5A}, {0.5, 0xD3D7DC}, {0.75, 0x83B4DD}, {1.0, 0x14609F}}};

}  // namespace

const Palette& palette_of(ThemeKind kind, Colors colors) {
  static const Palette dark = make_dark(), light = make_light();
  static const Palette gray_on_dark = make_gray(dark), gray_on_light = make_gray(light);
  if (colors == Colors::Gray) return kind == ThemeKind::Dark ? gray_on_dark : gray_on_light;
  return kind == ThemeKind::Dark ? dark : light;
}

ImU32 color_of(const Palette& palette, analysis::KeyState state) {
  using analysis::KeyState;
  switch (state) {
    case KeyState::Future: return palette.future;
    case KeyState::Dropped: return palette.dropped;
    case KeyState::Evicted: return palette.evicted;
    case KeyState::Kept: return palette.hit;
    case KeyState::Sink:
    case KeyState::Recent: return palette.by_rule;
    case KeyState::Current: return palette.current;
    case KeyState::Dense: return palette.dense;
    case KeyState::Hidden: return palette.hidden;
  }
  return palette.future;
}

ImU32 color_of(const Palette& palette, analysis::KeyVerdict verdict) {
  using analysis::KeyVerdict;
  switch (verdict) {
    case KeyVerdict::Hit: return palette.hit;
    case KeyVerdict::Miss: return palette.miss;
    case KeyVerdict::Waste: return palette.waste;
    case KeyVerdict::Neither: return palette.dropped;
  }
  return palette.dropped;
}

ImU32 color_of(const Palette& palette, analysis::KeptBy kept_by) {
  using analysis::KeptBy;
  switch (kept_by) {
    case KeptBy::AOnly: return color_of_slot(palette, state::Slot::A);
    case KeptBy::BOnly: return color_of_slot(palette, state::Slot::B);
    case KeptBy::Both: return palette.both;
    case KeptBy::Neither: return palette.dropped;
    case KeptBy::NoCandidate: return palette.future;
  }
  return palette.future;
}

ImU32 color_of(const Palette& palette, replay::BlockState state) {
  using replay::BlockState;
  switch (state) {
    case BlockState::Future: return palette.future;
    case BlockState::Dropped: return palette.dropped;
    case BlockState::Kept: return palette.hit;
    case BlockState::Forced:  // what is chosen stands out
      return palette.colors == Colors::Gray ? palette.by_rule
                                            : mix(palette.panel, palette.by_rule, 0.65);
    case BlockState::Straddling:  // holds keys of both
      return mix(palette.by_rule, palette.current, 0.5);
    case BlockState::Current: return palette.current;
  }
  return palette.future;
}

ImU32 color_of(const Palette& palette, analysis::KeyKind kind) {
  using analysis::KeyKind;
  switch (kind) {
    case KeyKind::Other: return palette.dropped;
    case KeyKind::Global: return palette.series[4];
    case KeyKind::QuerySpecific: return palette.series[3];
    case KeyKind::Broken: return palette.error;
  }
  return palette.dropped;
}

ImU32 color_of(const Palette& palette, replay::Stage stage) {
  using replay::Stage;
  switch (stage) {
    case Stage::Evicted:  // the one cause that is seen in maps, too
      return palette.evicted;
    case Stage::QuerySampling: return palette.series[0];
    case Stage::HeadMerge: return palette.series[1];
    case Stage::Unit: return palette.series[4];
    case Stage::ReusedSet: return palette.series[6];
    case Stage::Approximation: return palette.series[3];
    case Stage::Threshold: return palette.series[5];
    case Stage::Budget: return palette.series[2];
  }
  return palette.series[2];
}

ImU32 color_of_slot(const Palette& palette, state::Slot slot) {
  return slot == state::Slot::A ? palette.accent : palette.slot_b;
}

int prominence_of(replay::BlockState state) {
  using replay::BlockState;
  switch (state) {
    case BlockState::Kept: return 5;
    case BlockState::Forced: return 4;
    case BlockState::Straddling: return 3;
    case BlockState::Current: return 2;
    case BlockState::Dropped: return 1;
    case BlockState::Future: return 0;
  }
  return 0;
}

int prominence_of(analysis::KeyState state) {
  using analysis::KeyState;
  switch (state) {
    case KeyState::Sink: return 8;
    case KeyState::Recent: return 7;
    case KeyState::Kept: return 6;
    case KeyState::Current: return 5;
    case KeyState::Dense: return 4;
    case KeyState::Evicted: return 3;
    case KeyState::Dropped: return 2;
    case KeyState::Hidden: return 1;
    case KeyState::Future: return 0;
  }
  return 0;
}

ImU32 sequential_color(const Palette& palette, double t) {
  if (palette.colors == Colors::Gray)
    return mix(palette.panel, palette.text, std::clamp(t, 0.0, 1.0));
  return palette.kind == ThemeKind::Dark ? along(kSequentialDark, t) : along(kSequentialLight, t);
}

ImU32 score_color(const Palette& palette, double t) {
  return sequential_color(palette, 0.08 + 0.92 * t);
}

ImU32 query_color(const Palette& palette, double t) {
  if (palette.colors == Colors::Gray) return sequential_color(palette, 0.34 + 0.66 * t);
  return palette.kind == ThemeKind::Dark ? along(kQueryDark, t) : along(kQueryLight, t);
}

// In gray there is no middle: what is bad stands out.
ImU32 diverging_color(const Palette& palette, double t) {
  if (palette.colors == Colors::Gray)
    return mix(palette.text, palette.raised, std::clamp(t, 0.0, 1.0));
  return palette.kind == ThemeKind::Dark ? along(kDivergingDark, t) : along(kDivergingLight, t);
}

ImU32 share_color(const Palette& palette, double t) { return diverging_color(palette, t * t); }

ImU32 slot_diverging_color(const Palette& palette, double t) {
  const double from_middle = 2 * std::clamp(t, 0.0, 1.0) - 1;
  const state::Slot higher = from_middle < 0 ? state::Slot::B : state::Slot::A;
  return mix(palette.raised, color_of_slot(palette, higher), std::abs(from_middle));
}

ImU32 ink_on(ImU32 background) {
  return luminance(background) > 0.52 ? rgb(0x10161E) : rgb(0xFFFFFF);
}

ImU32 with_alpha(ImU32 color, float alpha) {
  return (color & ~IM_COL32_A_MASK) |
         (static_cast<ImU32>(std::clamp(alpha, 0.0F, 1.0F) * 255.0F + 0.5F) << IM_COL32_A_SHIFT);
}

ImU32 mix(ImU32 from, ImU32 to, double t) {
  ImU32 out = 0;
  for (const int shift : {IM_COL32_R_SHIFT, IM_COL32_G_SHIFT, IM_COL32_B_SHIFT, IM_COL32_A_SHIFT}) {
    const double a = (from >> shift) & 255U;
    const double b = (to >> shift) & 255U;
    out |= static_cast<ImU32>(std::lround(a + (b - a) * t)) << shift;
  }
  return out;
}

ImVec4 to_vec4(ImU32 color) { return ImGui::ColorConvertU32ToFloat4(color); }

}  // namespace kvloupe::widgets
