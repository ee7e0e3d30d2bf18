// What the window remembers, and how its commands are found.
#include "app/shell/saved/settings.h"
#include "app/shell/commands/key_choices.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"

#include <filesystem>
#include <fstream>

namespace kvloupe {
namespace {

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
  settings.keys = {{"open", "Ctrl+Shift+P"}, {"play", ""}};
  settings.text_line = settings.desktop_dialogs = false;
  shell::save_settings(shell::text_of(settings));
  const shell::Settings read = shell::load_settings();
  EXPECT_EQ(read.theme, widgets::ThemeChoice::Light);
  EXPECT_FLOAT_EQ(read.user_scale, 1.5F);
  EXPECT_EQ(read.window_width, 1280);
  EXPECT_EQ(read.window_height, 800);
  EXPECT_EQ(read.last_folder, "/somewhere");
  EXPECT_EQ(read.closed_panels, settings.closed_panels);
  EXPECT_EQ(read.opened_panels, settings.opened_panels);
  EXPECT_EQ(read.keys, settings.keys);
  EXPECT_FALSE(read.text_line);
  EXPECT_FALSE(read.desktop_dialogs);
  EXPECT_EQ(read.problem, "");
}

TEST_F(Settings, SurviveDamage) {
  for (const char* damaged :
       {"{", "[]", "{\"scale\": \"big\", \"theme\": 3}", "{\"scale\": 1e30}"}) {
    std::filesystem::create_directories(paths::config_dir());
    std::ofstream(paths::config_dir() / "settings.json") << damaged;
    EXPECT_LE(shell::load_settings().user_scale, shell::kMostScale) << damaged;
  }
}

// The part that is damaged has its defaults, and the user is told.
TEST_F(Settings, DamagedKeysGiveTheDefaultKeys) {
  std::filesystem::create_directories(paths::config_dir());
  std::ofstream(paths::config_dir() / "settings.json")
      << R"({"scale": 1.5, "keys": {"open": "Ctrl+Nonsense", "play": "P", "close": 3}})";
  const shell::Settings read = shell::load_settings();
  EXPECT_FLOAT_EQ(read.user_scale, 1.5F);
  EXPECT_THAT(read.keys, ElementsAre(std::pair<const std::string, std::string>("play", "P")));
  EXPECT_THAT(read.problem, HasSubstr("open, close"));
  std::ofstream(paths::config_dir() / "settings.json") << "{";
  EXPECT_THAT(shell::load_settings().problem, HasSubstr("default settings"));
}

TEST(Keys, AreReadAsTheyAreShown) {
  const auto nothing = [] {};
  std::vector<shell::Command> commands{
      {"a", "", "A", {}, nothing, {}, false, {ImGuiMod_Ctrl | ImGuiKey_O, ImGuiKey_F5}},
      {"b", "", "B", {}, nothing, {}, false, {ImGuiKey_X}}};
  for (const ImGuiKeyChord chord :
       {static_cast<ImGuiKeyChord>(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Equal),
        static_cast<ImGuiKeyChord>(ImGuiKey_LeftBracket), ImGuiMod_Alt | ImGuiKey_F4,
        ImGuiMod_Ctrl | ImGuiKey_KeypadAdd, static_cast<ImGuiKeyChord>(ImGuiKey_PageUp)})
    EXPECT_EQ(shell::chord_of(shell::text_of(chord)), chord) << shell::text_of(chord);
  EXPECT_EQ(shell::chord_of("Ctrl+"), std::nullopt);
  shell::apply_keys({}, commands);
  EXPECT_EQ(shell::shortcut_text(commands[0]), "Ctrl+O");
  EXPECT_EQ(shell::holder_of(ImGuiKey_F5, commands), &commands[0]);
  shell::apply_keys({{"a", "Shift+A"}, {"b", ""}}, commands);
  EXPECT_EQ(shell::shortcut_text(commands[0]), "Shift+A");
  EXPECT_THAT(commands[1].keys, IsEmpty());
  EXPECT_EQ(shell::holder_of(ImGuiKey_F5, commands), nullptr);
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
