// Places of output files: what is refused before the work, and that a file appears whole or not at all.
#include "core/base/output_file.h"
#include "core/base/error.h"
#include "core/base/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFile : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all("outputs");
    fs::create_directories("outputs/folder");
    std::ofstream("outputs/old") << "old";
  }
  void TearDown() override { fs::remove_all("outputs"); }

  static std::string refusal(const fs::path& path, bool force) {
    try {
      check_output_file(path, "a trace", "a capture", force);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return error.what();
    }
    return "";
  }
  static std::string content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::ptrdiff_t num_entries() {
    return std::distance(fs::directory_iterator("outputs"), fs::directory_iterator());
  }
};

TEST_F(OutputFile, RefusesWhatCannotOrMayNotBeWritten) {
  EXPECT_EQ(refusal("outputs/new", false), "");
  EXPECT_EQ(refusal("new", false), "");
  EXPECT_EQ(refusal("outputs/old", true), "");
  EXPECT_THAT(refusal("outputs/old", false), HasSubstr("a capture does not overwrite a file"));
  EXPECT_THAT(refusal("outputs/folder", true), HasSubstr("is a folder; a trace is a file"));
  EXPECT_THAT(refusal("outputs/missing/new", true), HasSubstr("outputs/missing is not a folder"));
  EXPECT_THAT(refusal("outputs/old/new", true), HasSubstr("outputs/old is not a folder"));
}

TEST_F(OutputFile, WhatASpecNamesHasNoComma) {
  EXPECT_NO_THROW(check_calibration_file("outputs/gate", "a gate", false));
  EXPECT_THROW(check_calibration_file("outputs/old", "a gate", false), Error);
  try {
    check_calibration_file("outputs/a,b", "a gate", true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
  }
}

TEST_F(OutputFile, AWholeFileReplacesAndLeavesNothingBeside) {
  write_whole_file("outputs/old", "new");
  EXPECT_EQ(content("outputs/old"), "new");
  EXPECT_THROW(write_whole_file("outputs/folder", "x"), Error);
  EXPECT_THROW(write_whole_file("outputs/missing/new", "x"), Error);
  EXPECT_EQ(num_entries(), 2);
}

TEST_F(OutputFile, ATemporaryFileVanishesUnlessItIsCommitted) {
  {
    const TemporaryFile abandoned("outputs/old");
    std::ofstream(abandoned.path()) << "half";
  }
  EXPECT_EQ(content("outputs/old"), "old");
  {
    TemporaryFile kept("outputs/new");
    std::ofstream(kept.path()) << "whole";
    EXPECT_FALSE(fs::exists("outputs/new"));
    kept.commit();
  }
  EXPECT_EQ(content("outputs/new"), "whole");
  EXPECT_EQ(num_entries(), 3);
}

}  // namespace
}  // namespace kvloupe
