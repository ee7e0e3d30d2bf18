// What the window remembers, and how its commands are found.
#include "app/shell/saved/settings.h"
#include "app/shell/commands/command_list.h"
#include "core/base/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kvloupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Commands, EveryWordOfTheQueryMustBeThere) {
  EXPECT_LT(shell::match_score("xyz", "Next chunk"), 0);
  EXPECT_LT(shell::match_score("next", "An extract of text"), 0) << "letters in a row are no word";
  EXPECT_LT(shell::match_score("next layer", "Next chunk"), 0);
  EXPECT_GE(shell::match_score("CHUNK next", "Next chunk"), 0) << "in any order and case";
  EXPECT_GT(shell::match_score("next", "Next chunk"), shell::match_score("ext", "Next chunk"));
  EXPECT_GE(shell::match_score("", "anything"), 0);
}

TEST(Commands, ATitleComesBeforeAnId) {
  const auto nothing = [] {};
  const std::vector<shell::Command> commands{
      {"scale.reset", "View", "Normal size", {}, nothing, {}, false},
      {"export.kv_map.png", "", "Export KV map as png", {}, nothing, {}, false},
      {"layout.reset", "View", "Reset the layout", {}, nothing, {}, false},
      {"reload", "File", "Reset and reload", {}, nothing, [] { return false; }, false}};
  EXPECT_THAT(shell::matching("reset", commands), ElementsAre(2, 0))
      << "what can run, titles first";
  EXPECT_THAT(shell::matching("svg", commands), IsEmpty());
  EXPECT_THAT(shell::matching("png export", commands), ElementsAre(1));
  EXPECT_THAT(shell::matching("", commands), SizeIs(3));
}

class Settings : public ::testing::Test {
 protected:
  Settings() {
    const auto folder = std::filesystem::current_path() / "config";
    std::filesystem::remove_all(folder);
    paths::set_config_dir(folder);
  }
};

TEST_F(Settings, AreReadAsTheyWereWritten) {
  shell::Settings settings;
  settings.theme = widgets::ThemeChoice::Light;
  settings.user_scale = 1.5F;
  settings.window_width = 1280;
  settings.window_height = 800;
  settings.last_folder = "/somewhere";
  settings.closed_panels = {"latency"};
  settings.opened_panels = {"Memory"};
  shell::save_settings(shell::text_of(settings));
  const shell::Settings read = shell::load_settings();
  EXPECT_EQ(read.theme, widgets::ThemeChoice::Light);
  EXPECT_FLOAT_EQ(read.user_scale, 1.5F);
  EXPECT_EQ(read.window_width, 1280);
  EXPECT_EQ(read.window_height, 800);
  EXPECT_EQ(read.last_folder, "/somewhere");
  EXPECT_EQ(read.closed_panels, settings.closed_panels);
  EXPECT_EQ(read.opened_panels, settings.opened_panels);
}

TEST_F(Settings, SurviveDamage) {
  for (const char* damaged :
       {"{", "[]", "{\"scale\": \"big\", \"theme\": 3}", "{\"scale\": 1e30}"}) {
    std::filesystem::create_directories(paths::config_dir());
    std::ofstream(paths::config_dir() / "settings.json") << damaged;
    EXPECT_LE(shell::load_settings().user_scale, shell::kMostScale) << damaged;
  }
}

TEST_F(Settings, RecentFilesAreListedOnceNewestFirst) {
  for (int i = 0; i < 12; ++i) shell::add_recent_file("/t" + std::to_string(i) + ".h5");
  shell::add_recent_file("/t8.h5");
  const auto recent = shell::load_recent_files();
  ASSERT_GE(recent.size(), 2U);
  EXPECT_EQ(recent.size(), 9U);
  EXPECT_EQ(recent[0], "/t8.h5");
  EXPECT_EQ(recent[1], "/t11.h5");
}

TEST_F(Settings, TheLayoutIsReadAsItWasWritten) {
  EXPECT_EQ(shell::load_layout(), "");
  shell::save_layout("[Docking]\n");
  EXPECT_EQ(shell::load_layout(), "[Docking]\n");
}

}  // namespace
}  // namespace kvloupe
