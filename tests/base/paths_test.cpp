// XDG folders: the variables, their defaults, and what --config-dir overrides.
#include "core/base/paths.h"
#include "core/base/error.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvloupe::paths {
namespace {

namespace fs = std::filesystem;

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("kvloupe_paths_" + std::to_string(::getpid()));
    fs::create_directories(root_);
    setenv("HOME", (root_ / "home").c_str(), 1);
    for (const char* name : {"XDG_CONFIG_HOME", "XDG_STATE_HOME"}) unsetenv(name);
    set_config_dir({});
  }
  void TearDown() override {
    set_config_dir({});
    fs::remove_all(root_);
  }
  fs::path root_;
};

TEST_F(PathsTest, DefaultsLieBelowHomeAndAreCreated) {
  EXPECT_EQ(config_dir(), root_ / "home/.config/kvloupe");
  EXPECT_EQ(state_dir(), root_ / "home/.local/state/kvloupe");
  EXPECT_TRUE(fs::is_directory(config_dir()));
}

TEST_F(PathsTest, VariablesWinAndRelativeOnesAreIgnored) {
  setenv("XDG_CONFIG_HOME", (root_ / "config").c_str(), 1);
  setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(config_dir(), root_ / "config/kvloupe");
  EXPECT_EQ(state_dir(), root_ / "home/.local/state/kvloupe");
}

TEST_F(PathsTest, ConfigDirOptionMovesBoth) {
  set_config_dir(root_ / "mine");
  EXPECT_EQ(config_dir(), root_ / "mine");
  EXPECT_EQ(state_dir(), root_ / "mine/state");
}

TEST_F(PathsTest, AFolderThatCannotBeMadeIsASentence) {
  std::ofstream(root_ / "file") << "x";
  set_config_dir(root_ / "file/below");
  EXPECT_THROW(config_dir(), Error);
}

TEST_F(PathsTest, TheDataFolderCanBeOverridden) {
  setenv("KVLOUPE_DATA_DIR", "/some/data", 1);
  EXPECT_EQ(data_dir(), "/some/data");
  unsetenv("KVLOUPE_DATA_DIR");
  EXPECT_NE(data_dir(), "/some/data");
}

TEST_F(PathsTest, KnowsTheTracesInTheBox) {
  const auto traces = share_dir() / "traces";
  EXPECT_TRUE(comes_with_program(traces / "tour.h5"));
  EXPECT_TRUE(comes_with_program(std::filesystem::canonical(traces) / "tour.h5"));
  EXPECT_FALSE(comes_with_program(root_ / "tour.h5"));
  EXPECT_FALSE(comes_with_program(root_ / "no such folder" / "tour.h5"));
}

}  // namespace
}  // namespace kvloupe::paths
