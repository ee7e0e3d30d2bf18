// Scale, theme and the colours of meanings.
#include "app/shell/frame/desktop_theme.h"
#include "app/shell/saved/settings.h"
#include "app/widgets/ink.h"
#include "app/widgets/meanings.h"
#include "core/base/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace kvloupe {
namespace {

using shell::DesktopTheme;
using widgets::Meaning;
using widgets::ThemeKind;
using Clock = std::chrono::steady_clock;

TEST(Scale, GoesFrom75To300PercentAndBackInSteps) {
  std::vector<float> up{shell::kLeastScale};
  while (shell::next_scale(up.back(), true) != up.back())
    up.push_back(shell::next_scale(up.back(), true));
  EXPECT_FLOAT_EQ(up.front(), 0.75F);
  EXPECT_FLOAT_EQ(up.back(), 3.0F);
  for (std::size_t i = 1; i < up.size(); ++i)
    EXPECT_EQ(shell::next_scale(up[i], false), up[i - 1]) << up[i];
  EXPECT_EQ(shell::next_scale(shell::kLeastScale, false), shell::kLeastScale);
  EXPECT_TRUE(std::count(up.begin(), up.end(), 1.0F)) << "normal size is a step";
  // A scale between two steps, as an older version kept it.
  EXPECT_FLOAT_EQ(shell::next_scale(1.21F, true), 1.25F);
  EXPECT_FLOAT_EQ(shell::next_scale(1.21F, false), 1.1F);
}

TEST(Theme, IsKeptByItsName) {
  paths::set_config_dir(std::filesystem::current_path() / "looks config");
  for (const auto theme :
       {widgets::ThemeChoice::Dark, widgets::ThemeChoice::Light, widgets::ThemeChoice::System}) {
    shell::Settings settings;
    settings.theme = theme;
    shell::save_settings(shell::text_of(settings));
    EXPECT_EQ(shell::load_settings().theme, theme);
  }
  std::ofstream(paths::config_dir() / "settings.json") << R"({"theme": "pink", "scale": 0.2})";
  EXPECT_EQ(shell::load_settings().theme, widgets::ThemeChoice::System);
  EXPECT_EQ(shell::load_settings().user_scale, shell::kLeastScale);
}

// Words in the colour of a mark, as pale as it may be: the method or the curve is still told by it.
TEST(Ink, IsLegibleAndNoFurtherFromTheMarkThanNeeded) {
  for (const auto theme : {ThemeKind::Dark, ThemeKind::Light})
    for (const auto colors : {widgets::Colors::Usual, widgets::Colors::Gray}) {
      const widgets::Palette& p = widgets::palette_of(theme, colors);
      std::set<ImU32> inks;
      for (const ImU32 mark : p.series) {
        const ImU32 ink = widgets::ink_of(p, mark);
        EXPECT_GE(widgets::contrast(ink, p.panel), widgets::kLegible) << std::hex << mark;
        EXPECT_EQ(ink == mark, widgets::contrast(mark, p.panel) >= widgets::kLegible)
            << std::hex << mark;
        inks.insert(ink);
      }
      if (colors == widgets::Colors::Usual) {
        EXPECT_EQ(inks.size(), p.series.size());
      }
    }
  EXPECT_DOUBLE_EQ(widgets::contrast(IM_COL32_WHITE, IM_COL32_BLACK), 21);
  EXPECT_NEAR(widgets::contrast(IM_COL32(0x77, 0x77, 0x77, 255), IM_COL32_WHITE), 4.48, 0.01);
}

TEST(Theme, ReadsWhatDesktopsSay) {
  EXPECT_EQ(shell::theme_said("(<<uint32 1>>,)"), ThemeKind::Dark);
  EXPECT_EQ(shell::theme_said("(<<uint32 2>>,)"), ThemeKind::Light);
  EXPECT_EQ(shell::theme_said("(<<uint32 0>>,)"), ThemeKind::Light);
  EXPECT_EQ(shell::theme_said("'prefer-dark'"), ThemeKind::Dark);
  EXPECT_EQ(shell::theme_said("'default'"), ThemeKind::Light);
  EXPECT_EQ(shell::theme_said("No such schema"), std::nullopt);
}

// Polls as a window does; returns the slowest poll in seconds.
double ask_and_wait(DesktopTheme& desktop) {
  double slowest = 0;
  const auto timed = [&](const auto& step) {
    const auto start = Clock::now();
    step();
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - start).count());
  };
  timed([&] { desktop.ask(); });
  while (desktop.asking()) {
    timed([&] { desktop.poll(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return slowest;
}

TEST(Theme, TheFirstThatAnswersIsBelieved) {
  DesktopTheme light({{"sh", "-c", "echo no portal; exit 1"},
                      {"sh", "-c", "echo \"'prefer-light'\""},
                      {"sh", "-c", "echo \"'prefer-dark'\""}});
  ask_and_wait(light);
  EXPECT_EQ(light.kind(), ThemeKind::Light);
}

TEST(Theme, IsDarkWhereNobodyAnswers) {
  DesktopTheme nobody({{"no-such-program"}, {"false"}});
  ask_and_wait(nobody);
  EXPECT_EQ(nobody.kind(), ThemeKind::Dark);
  DesktopTheme none(DesktopTheme::Commands{});
  none.ask();
  EXPECT_FALSE(none.asking());
  EXPECT_EQ(none.kind(), ThemeKind::Dark);
}

TEST(Theme, ADesktopThatIsSilentHoldsNoFrame) {
  DesktopTheme silent(DesktopTheme::Commands{std::vector<std::string>{"sleep", "60"}});
  const auto start = Clock::now();
  EXPECT_LT(ask_and_wait(silent), 0.5);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 10);
  EXPECT_EQ(silent.kind(), ThemeKind::Dark);
}

// Two meanings that share a colour would be one in a view that has both.
class ColorsTest : public ::testing::TestWithParam<std::pair<ThemeKind, widgets::Colors>> {};
INSTANTIATE_TEST_SUITE_P(Looks, ColorsTest,
                         ::testing::Values(std::pair{ThemeKind::Dark, widgets::Colors::Usual},
                                           std::pair{ThemeKind::Light, widgets::Colors::Usual},
                                           std::pair{ThemeKind::Dark, widgets::Colors::Gray},
                                           std::pair{ThemeKind::Light, widgets::Colors::Gray}));

TEST_P(ColorsTest, EachMeaningHasItsOwn) {
  const widgets::Palette& palette = widgets::palette_of(GetParam().first, GetParam().second);
  std::map<ImU32, std::string> taken;
  for (const Meaning meaning : widgets::all_meanings()) {
    // A card has the blue of what is kept, and tells of a method, not of a key.
    if (meaning == Meaning::MethodA) continue;
    const ImU32 color = widgets::color_of(palette, meaning);
    EXPECT_EQ(taken.count(color), 0U) << widgets::name_of(meaning) << " and " << taken[color];
    taken[color] = widgets::name_of(meaning);
    EXPECT_STRNE(widgets::sentence_of(meaning), "");
  }
  // Causes are none of them, but for eviction, which is the one that maps show.
  for (int i = 0; i < replay::kNumStages; ++i) {
    const auto stage = static_cast<replay::Stage>(i);
    const ImU32 color = widgets::color_of(palette, stage);
    if (stage == replay::Stage::Evicted)
      EXPECT_EQ(color, palette.evicted);
    else
      EXPECT_EQ(taken.count(color), 0U) << replay::words_of(stage) << " and " << taken[color];
    taken[color] = replay::words_of(stage);
  }
  EXPECT_EQ(widgets::color_of(palette, analysis::KeyState::Sink), palette.by_rule);
  EXPECT_EQ(widgets::color_of(palette, analysis::KeyState::Recent), palette.by_rule);
}

TEST_P(ColorsTest, GrayHasShadesThatAPrintKeepsApart) {
  if (GetParam().second == widgets::Colors::Usual) return;
  const widgets::Palette& palette = widgets::palette_of(GetParam().first, GetParam().second);
  const auto channel = [](ImU32 color, int shift) {
    return static_cast<int>(color >> shift & 255U);
  };
  std::vector<ImU32> all{palette.evicted, palette.evicted_hatch, palette.accent, palette.slot_b,
                         palette.both,    palette.text,          palette.warning};
  const std::vector<ImU32> of_keys{palette.hit,     palette.miss,  palette.waste,  palette.by_rule,
                                   palette.current, palette.dense, palette.dropped};
  all.insert(all.end(), of_keys.begin(), of_keys.end());
  all.insert(all.end(), palette.series.begin(), palette.series.end());
  for (const double t : {0.0, 0.3, 0.5, 1.0})
    all.insert(all.end(),
               {widgets::sequential_color(palette, t), widgets::diverging_color(palette, t),
                widgets::slot_diverging_color(palette, t), widgets::query_color(palette, t)});
  for (const ImU32 color : all) {
    EXPECT_EQ(channel(color, IM_COL32_R_SHIFT), channel(color, IM_COL32_G_SHIFT));
    EXPECT_EQ(channel(color, IM_COL32_R_SHIFT), channel(color, IM_COL32_B_SHIFT));
  }
  constexpr int kApart = 25;  // of 255
  for (std::size_t i = 0; i < of_keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_GE(
          std::abs(channel(of_keys[i], IM_COL32_R_SHIFT) - channel(of_keys[j], IM_COL32_R_SHIFT)),
          kApart)
          << i << " and " << j;
}

}  // namespace
}  // namespace kvloupe
