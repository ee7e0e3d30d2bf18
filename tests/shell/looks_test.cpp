// Scale, theme and the colours of meanings.
#include "app/shell/frame/desktop_theme.h"
#include "app/shell/saved/settings.h"
#include "app/widgets/meanings.h"
#include "core/base/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

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
TEST(Colors, EachMeaningHasItsOwn) {
  for (const auto kind : {ThemeKind::Dark, ThemeKind::Light}) {
    const widgets::Palette& palette = widgets::palette_of(kind);
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
}

}  // namespace
}  // namespace kvloupe
