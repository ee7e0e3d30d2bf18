// Files that others change while they are read: grown, cut short, opened twice.
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/hdf5/read_at.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe::trace::testing {
namespace {

constexpr hsize_t kRow = 4096;  // values: storage chunks of 16 KiB

// One dataset "/x" of rows; row i holds i + 1.
class ReadDriver : public ::testing::Test {
 protected:
  ReadDriver() {
    const h5::Lock lock;
    const h5::Handle file =
        h5::checked(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create");
    const hsize_t none[] = {0, kRow}, most[] = {H5S_UNLIMITED, kRow}, chunk[] = {1, kRow};
    const h5::Handle space = h5::checked(H5Screate_simple(2, none, most), "space");
    const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), "plist");
    H5Pset_chunk(plist.get(), 2, chunk);
    h5::checked(H5Dcreate2(file.get(), "x", H5T_NATIVE_INT32, space.get(), H5P_DEFAULT, plist.get(),
                           H5P_DEFAULT),
                "dataset");
  }

  // As another program would, with the library's own driver.
  void grow_to(hsize_t rows) {
    const h5::Lock lock;
    const h5::Handle file =
        h5::checked(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open for writing");
    const h5::Handle dataset = h5::checked(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    const hsize_t extent[] = {rows, kRow};
    for (hsize_t row = rows_of(file); row < rows; ++row) {
      const hsize_t now[] = {row + 1, kRow};
      H5Dset_extent(dataset.get(), now);
      const std::vector<std::int32_t> values(kRow, static_cast<std::int32_t>(row) + 1);
      h5::write_box(dataset.get(), H5T_NATIVE_INT32, {row, 0}, {1, kRow}, values.data());
    }
    h5::checked_status(H5Dset_extent(dataset.get(), extent), "grow");
  }
  static hsize_t rows_of(const h5::Handle& file) {
    const h5::Handle dataset = h5::checked(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    const h5::Handle space = h5::checked(H5Dget_space(dataset.get()), "shape");
    hsize_t extent[2] = {};
    H5Sget_simple_extent_dims(space.get(), extent, nullptr);
    return extent[0];
  }
  static std::vector<std::int32_t> row_of(const h5::Handle& file, hsize_t row) {
    const h5::Handle access = h5::checked(H5Pcreate(H5P_DATASET_ACCESS), "access");
    H5Pset_chunk_cache(access.get(), 1, 0, 0);
    const h5::Handle dataset = h5::checked(H5Dopen2(file.get(), "x", access.get()), "open");
    std::vector<std::int32_t> values(kRow);
    h5::read_box(dataset.get(), H5T_NATIVE_INT32, {row, 0}, {1, kRow}, values.data());
    return values;
  }
  h5::Handle opened() const { return h5::open_file_for_reading(path_); }

  const TemporaryFolder folder_;
  const std::string path_ = (folder_ / "grows.h5").string();
};

TEST_F(ReadDriver, AFileThatHasGrownIsReadAnewBesideWhatIsOpen) {
  grow_to(2);
  const h5::Lock lock;
  const h5::Handle before = opened();
  EXPECT_EQ(rows_of(before), 2U);
  EXPECT_THAT(row_of(before, 1), Each(2));
  grow_to(40);
  const h5::Handle after = opened();
  EXPECT_EQ(rows_of(after), 40U);
  EXPECT_THAT(row_of(after, 39), Each(40));
  EXPECT_EQ(rows_of(before), 2U) << "what was open stays as it was";
  EXPECT_THAT(row_of(before, 1), Each(2));
}

// Zeros would pass for values.
TEST_F(ReadDriver, WhatWasCutOffIsNoZero) {
  grow_to(8);
  const h5::Lock lock;
  const h5::Handle file = opened();
  EXPECT_THAT(row_of(file, 0), Each(1));
  std::filesystem::resize_file(path_, 4 * kRow * sizeof(std::int32_t));
  EXPECT_THAT(row_of(file, 1), Each(2)) << "what is left can be read";
  try {
    row_of(file, 7);
    FAIL() << "read beyond the end";
  } catch (const h5::Defect& defect) {
    EXPECT_THAT(defect.what(), HasSubstr("another program cut the file meanwhile"));
  }
}

TEST_F(ReadDriver, ASecondOpeningOfACutFileIsRefused) {
  grow_to(8);
  const h5::Lock lock;
  const h5::Handle before = opened();
  std::filesystem::resize_file(path_, 4 * kRow * sizeof(std::int32_t));
  EXPECT_THROW(opened(), h5::Defect);
}

// The system's own words, as from the library's driver.
TEST_F(ReadDriver, SaysWhyAFileCannotBeOpened) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  const h5::Lock lock;
  const rlimit none = {static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string said;
  try {
    opened();
  } catch (const h5::Defect& defect) {
    said = defect.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(said, HasSubstr("Too many open files"));
}

TEST_F(ReadDriver, IsForReadingAlone) {
  const h5::Lock lock;
  const h5::Handle file = opened();
  EXPECT_LT(H5Gcreate2(file.get(), "new", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
}

TEST_F(ReadDriver, TwoThreadsReadOneFile) {
  grow_to(4);
  const auto read_often = [&](bool& all_right) {
    for (hsize_t round = 0; round < 200 && all_right; ++round) {
      const h5::Lock lock;
      const h5::Handle file = opened();
      const std::vector<std::int32_t> values = row_of(file, round % 4);
      all_right =
          values == std::vector<std::int32_t>(kRow, static_cast<std::int32_t>(round % 4) + 1);
    }
  };
  std::array<bool, 2> right = {true, true};
  std::thread first([&] { read_often(right[0]); }), second([&] { read_often(right[1]); });
  first.join();
  second.join();
  EXPECT_TRUE(right[0]);
  EXPECT_TRUE(right[1]);
}

TEST(ReadAt, EndsWithTheFileAndRefusesWhatNoFileHas) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "ten";
  std::ofstream(path) << "0123456789";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  std::array<std::byte, 8> bytes = {};
  EXPECT_EQ(read_at(file, 0, bytes), 8U);
  EXPECT_EQ(read_at(file, 7, bytes), 3U);
  EXPECT_EQ(bytes[2], std::byte{'9'});
  EXPECT_EQ(read_at(file, 1000, bytes), 0U);
  EXPECT_EQ(read_at(file, std::uint64_t{1} << 63, bytes), std::nullopt);
  EXPECT_EQ(read_at(file, ~std::uint64_t{0} - 3, bytes), std::nullopt);
  EXPECT_EQ(read_at(file, ~std::uint64_t{0} >> 1, {}), 0U) << "nothing is asked for";
  ::close(file);
  EXPECT_EQ(read_at(file, 0, bytes), std::nullopt);
}

}  // namespace
}  // namespace kvloupe::trace::testing
