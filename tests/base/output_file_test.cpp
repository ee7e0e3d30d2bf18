// Places of output files: what is refused before the work, and that a file appears whole or not at all.
#include "core/base/output_file.h"
#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "tests/base/matchers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

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
      check_output_file(path, "a trace", "a capture", {}, force);
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
  EXPECT_NO_THROW(check_calibration_file("outputs/gate", "a gate", {}, false));
  EXPECT_THROW(check_calibration_file("outputs/old", "a gate", {}, false), Error);
  try {
    check_calibration_file("outputs/a,b", "a gate", {}, true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
  }
}

TEST_F(OutputFile, AnInputIsNeverAnOutput) {
  fs::create_symlink("old", "outputs/link");
  fs::create_hard_link("outputs/old", "outputs/twin");
  fs::create_symlink("missing/later", "outputs/dangling");
  const auto refused = [](const char* path, const InputFiles& inputs) {
    try {
      check_result_file(path, inputs, true);
      return false;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a file that this command reads"));
      return true;
    }
  };
  for (const char* path : {"outputs/old", "outputs/folder/../old", "outputs/link", "outputs/twin"})
    for (const char* input : {"outputs/old", "outputs/link", "outputs/twin", "outputs"})
      EXPECT_TRUE(refused(path, {"unused", input})) << path << " " << input;
  // One that is not there yet, by its place.
  EXPECT_TRUE(refused("outputs/folder/../new", {"outputs/new"}));
  EXPECT_FALSE(refused("outputs/new", {"outputs/old", "outputs/folder/new", "new", "", "-"}));
  EXPECT_FALSE(refused("-", {"-"}));
}

TEST_F(OutputFile, ATraceOrAModelIsReplacedByForceAlone) {
  using namespace std::string_literals;
  const std::string hdf5 = "\x89HDF\r\n\x1a\n";
  for (const std::string& bytes :
       {hdf5, std::string(1024, 'u') + hdf5, "GGUF\3\0\0\0"s, "\2\0\0\0\0\0\0\0{}"s}) {
    std::ofstream("outputs/data", std::ios::binary) << bytes;
    EXPECT_THROW(check_result_file("outputs/data", {}, false), Error) << bytes;
    EXPECT_NO_THROW(check_result_file("outputs/data", {}, true));
  }
  for (const std::string& bytes :
       {""s, "GGU"s, "{}"s, std::string(700, 'u') + hdf5, "\xff\xff\xff\xff\xff\xff\xff\xff{}"s}) {
    std::ofstream("outputs/data", std::ios::binary) << bytes;
    EXPECT_NO_THROW(check_result_file("outputs/data", {}, false)) << bytes;
  }
}

TEST_F(OutputFile, LinksStayAndModesStay) {
  fs::create_symlink("folder/target", "outputs/link");
  for (const char* text : {"first", "second"}) {
    write_whole_file("outputs/link", text);
    EXPECT_TRUE(fs::is_symlink("outputs/link"));
    EXPECT_EQ(content("outputs/folder/target"), text);
    EXPECT_EQ(num_entries(), 3);
    fs::permissions("outputs/folder/target", fs::perms(0640));
  }
  write_whole_file("outputs/link", "third");
  EXPECT_EQ(fs::status("outputs/folder/target").permissions(), fs::perms(0640));

  fs::create_symlink("circle", "outputs/circle");
  EXPECT_THROW(write_whole_file("outputs/circle", "x"), Error);
  EXPECT_THROW(check_result_file("outputs/circle", {}, true), Error);
}

TEST_F(OutputFile, AFifoIsWrittenThrough) {
  ASSERT_EQ(::mkfifo("outputs/fifo", 0600), 0);
  const int reader = ::open("outputs/fifo", O_RDWR);
  EXPECT_NO_THROW(check_result_file("outputs/fifo", {}, false));
  EXPECT_THROW(check_output_file("outputs/fifo", "a trace", "a capture", {}, true), Error);
  EXPECT_THROW(TemporaryFile("outputs/fifo"), Error);
  write_whole_file("outputs/fifo", "through");
  std::string got(7, '?');
  EXPECT_EQ(::read(reader, got.data(), got.size()), 7);
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo("outputs/fifo"));
  ::close(reader);
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
