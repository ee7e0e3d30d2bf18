// Files cut short while they are mapped: zeros and a sentence, no signal.
#include "core/base/mapped_file.h"

#include "core/base/error.h"
#include "tests/base/temporary_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest() { std::ofstream(path_) << std::string(kSize, 'x'); }

  static constexpr std::size_t kSize = 1 << 16;
  const TemporaryFolder folder_;
  const fs::path path_ = folder_ / "file";
};

TEST_F(MappedFileTest, GivesTheBytes) {
  const MappedFile file(path_, "the file");
  ASSERT_EQ(file.bytes().size(), kSize);
  EXPECT_TRUE(std::all_of(file.bytes().begin(), file.bytes().end(),
                          [](std::byte byte) { return byte == std::byte{'x'}; }));
  EXPECT_NO_THROW(file.require_whole());
}

TEST_F(MappedFileTest, AFileThatShrinksReadsAsZerosAndIsTold) {
  const MappedFile file(path_, "the file");
  const MappedFile same(path_, "the file");
  fs::resize_file(path_, kSize / 2);
  EXPECT_EQ(file.bytes()[kSize / 2 - 1], std::byte{'x'});
  for (std::size_t i = kSize / 2; i < kSize; ++i) ASSERT_EQ(file.bytes()[i], std::byte{0});
  EXPECT_EQ(same.bytes()[kSize - 1], std::byte{0});
  EXPECT_THROW(file.require_whole(), Error);
  // Growing again does not bring back what was read.
  fs::resize_file(path_, kSize);
  EXPECT_THROW(file.require_whole(), Error);
}

TEST_F(MappedFileTest, AShorterFileIsToldThoughNothingOfTheEndWasRead) {
  const MappedFile file(path_, "the file");
  fs::resize_file(path_, kSize - 1);
  EXPECT_THROW(file.require_whole(), Error);
}

TEST_F(MappedFileTest, OthersBusErrorsStillEndTheProgram) {
  // By the signal, or as a sanitizer ends it.
  EXPECT_DEATH(
      {
        { const MappedFile file(path_, "the file"); }
        ::raise(SIGBUS);
        ::raise(SIGBUS);
      },
      "");
}

TEST_F(MappedFileTest, OnlyRegularFilesWithContents) {
  EXPECT_THROW(MappedFile(folder_ / "none", "the file"), Error);
  EXPECT_THROW(MappedFile(folder_.path(), "the file"), Error);
  EXPECT_THROW(MappedFile("/dev/zero", "the file"), Error);
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(MappedFile(fifo, "the file"), Error);
  std::ofstream(folder_ / "empty").close();
  EXPECT_THROW(MappedFile(folder_ / "empty", "the file"), Error);
}

TEST_F(MappedFileTest, PlacesInTheTableAreUsedAgain) {
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(MappedFile(path_, "the file").bytes().size(), kSize);
}

}  // namespace
}  // namespace kvloupe
