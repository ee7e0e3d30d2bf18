// Small files that claim, pack or cross-refer to more than their size warrants, and paths that are no regular files.
#include "core/trace/hdf5/load_budget.h"

#include "core/base/error.h"
#include "core/trace/runs/sidecar.h"
#include "tests/base/matchers.h"
#include "tests/trace/damaged_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <fstream>

namespace kvloupe::trace::testing {
namespace {

TEST(LoadBudget, IsAMultipleOfTheFileAndThenSpent) {
  const std::uint64_t all = LoadBudget::kFreeBytes + 10 * LoadBudget::kBytesPerStoredByte;
  const LoadBudget budget(10);
  LoadBudget::require(all, "it");
  LoadBudget::spend(all - 1, "it");
  LoadBudget::spend(1, "it");
  EXPECT_THROW(LoadBudget::spend(1, "it"), h5::Defect);
}

TEST(LoadBudget, TheOutermostOfALoadCountsAndAWorkCountsThemAll) {
  const std::uint64_t part = LoadBudget::kFreeBytes * 3 / 4;
  {
    const LoadBudget load(0);
    LoadBudget::spend(part, "it");
    const LoadBudget inner(0);
    EXPECT_THROW(LoadBudget::spend(part, "it"), h5::Defect);
  }
  {
    const LoadBudget work(0, LoadBudget::Scope::Work);
    {
      const LoadBudget load(0);
      LoadBudget::spend(part, "it");
    }
    const LoadBudget load(0);
    EXPECT_THROW(LoadBudget::spend(part, "it"), h5::Defect);
  }
  LoadBudget::spend(2 * part, "nobody counts");
}

constexpr hsize_t kPackedChunkBytes = 64 << 20;

// Replaces a vector by one of zeros, packed to a thousandth: `size` numbers in chunks of 64 MiB.
void pack_zeros(hid_t file, const char* path, hid_t type, hsize_t size) {
  drop(file, path);
  const hsize_t piece = kPackedChunkBytes / H5Tget_size(type);
  const h5::Handle space = h5::checked(H5Screate_simple(1, &size, nullptr), "space");
  const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), "plist");
  H5Pset_chunk(plist.get(), 1, &piece);
  H5Pset_deflate(plist.get(), 1);
  const h5::Handle dataset = h5::checked(
      H5Dcreate2(file, path, type, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT), "create");
  const std::vector<Bytef> zeros(kPackedChunkBytes);
  std::vector<Bytef> packed(compressBound(zeros.size()));
  uLongf bytes = packed.size();
  ASSERT_EQ(compress2(packed.data(), &bytes, zeros.data(), zeros.size(), 1), Z_OK);
  for (hsize_t begin = 0; begin < size; begin += piece) {
    h5::checked_status(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, &begin, bytes, packed.data()),
                       "write a chunk");
  }
}

class BombTest : public DamagedFileTest {
 protected:
  BombTest() : DamagedFileTest(make_reference(DType::F16)) {}
};

TEST_F(BombTest, PackedArraysUnpackToNoMoreThanTheFileWarrants) {
  expect_defect("/tokens/generated takes 512.0 MiB of memory",
                [](hid_t f) { pack_zeros(f, "/tokens/generated", H5T_STD_I32LE, 1 << 27); });
  expect_refused("/chunks/begin takes 1.0 GiB of memory", [](hid_t f) {
    for (const char* path : {"/chunks/begin", "/chunks/length", "/chunks/phase"}) {
      pack_zeros(f, path, H5T_STD_U8LE, 1 << 27);
    }
    set_attribute(f, "/", "chunks_done", std::int64_t{1} << 27);
  });
  expect_refused("/tokens/ids takes 8.0 GiB of memory", [](hid_t f) {
    pack_zeros(f, "/tokens/ids", H5T_STD_U8LE, 1 << 26);
    set_value<std::int32_t>(f, "/chunks/length", {0}, 1 << 26);
    set_attribute(f, "/", "chunks_done", std::int64_t{1});
  });
}

// --- span names -------------------------------------------------------------------------------------------------------

struct StoredSpan {
  std::int32_t begin, end;
  std::uint32_t length;
  std::uint32_t address[2];
  std::uint32_t index;
};
static_assert(sizeof(StoredSpan) == 24);

constexpr std::uint64_t kNameBytes = 48;

// A heap collection whose objects are all names of 48 bytes, "1.", "2.", ... by their number.
std::string collection_of_names(int count) {
  const std::uint64_t bytes = 16 + count * (16 + kNameBytes);
  std::string collection(bytes, '\0');
  std::memcpy(collection.data(), "GCOL\1\0\0\0", 8);
  std::memcpy(collection.data() + 8, &bytes, 8);
  for (int i = 0; i < count; ++i) {
    char* object = collection.data() + 16 + i * (16 + kNameBytes);
    const std::uint64_t number = i + 1;
    std::memcpy(object, &number, 2);
    std::memcpy(object + 8, &kNameBytes, 8);
    std::string name = std::to_string(number) + ".";
    std::memcpy(object + 16, name.data(), name.size());
  }
  return collection;
}

class SpanNamesTest : public BombTest {
 protected:
  // Spans whose stored form is what `span(i)` says.
  template <typename Span>
  fs::path with_spans(hsize_t count, const std::string& appended, const Span& span) const {
    haddr_t values = 0;
    const fs::path path = edited([&](hid_t f) {
      drop(f, "/tokens/spans");
      // In memory a text is a pointer.
      const h5::Handle type = h5::checked(H5Tcreate(H5T_COMPOUND, 8 + sizeof(char*)), "type");
      H5Tinsert(type.get(), "begin", 0, H5T_STD_I32LE);
      H5Tinsert(type.get(), "end", 4, H5T_STD_I32LE);
      H5Tinsert(type.get(), "name", 8, h5::string_type());
      const h5::Handle space = h5::checked(H5Screate_simple(1, &count, nullptr), "space");
      const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), "plist");
      H5Pset_alloc_time(plist.get(), H5D_ALLOC_TIME_EARLY);
      const h5::Handle dataset = h5::checked(H5Dcreate2(f, "/tokens/spans", type.get(), space.get(),
                                                        H5P_DEFAULT, plist.get(), H5P_DEFAULT),
                                             "create");
      values = H5Dget_offset(dataset.get());
    });
    const std::uint64_t end = fs::file_size(path);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(end));
    file << appended;
    file.seekp(static_cast<std::streamoff>(values));
    for (hsize_t i = 0; i < count; ++i) {
      const StoredSpan stored = span(i, end);
      file.write(reinterpret_cast<const char*>(&stored), sizeof(stored));
    }
    return path;
  }
};

StoredSpan stored_span(std::uint64_t address, std::uint32_t length, std::uint32_t index) {
  StoredSpan span{0, 1, length, {}, index};
  std::memcpy(span.address, &address, sizeof(address));
  return span;
}

// Two collections in turn, the last of their names first: a walk for each name would be billions of
// steps, a load for each change 260 GB.
TEST_F(SpanNamesTest, EachCollectionIsReadAndWalkedOnce) {
  constexpr int kNames = 65535;
  const std::string collection = collection_of_names(kNames);
  const fs::path path =
      with_spans(65536, collection + collection, [&](hsize_t i, std::uint64_t end) {
        return stored_span(end + (i % 2) * collection.size(), kNameBytes,
                           static_cast<std::uint32_t>(kNames - i / 2));
      });
  const TraceReader reader(path);
  const auto& spans = reader.info().spans;
  ASSERT_EQ(spans.size(), 65536u);
  for (const std::size_t i : {0, 1, 2, 3, 65534, 65535}) {
    EXPECT_EQ(spans[i].name, std::to_string(kNames - i / 2) + ".") << i;
  }
}

// 65,536 spans that share one text of 1 MiB.
TEST_F(SpanNamesTest, OneTextManyTimesIsNotCopiedForEver) {
  const std::uint64_t text = 1 << 20, bytes = 16 + 16 + text;
  std::string collection(bytes, 'x');
  const std::array<std::uint64_t, 2> object = {1, text};
  std::memcpy(collection.data(), "GCOL\1\0\0\0", 8);
  std::memcpy(collection.data() + 8, &bytes, 8);
  std::memcpy(collection.data() + 16, object.data(), 16);
  const fs::path path = with_spans(
      65536, collection, [&](hsize_t, std::uint64_t end) { return stored_span(end, 1 << 20, 1); });
  const TraceReader reader(path);
  EXPECT_TRUE(reader.info().spans.empty());
  ASSERT_FALSE(reader.info().warnings.empty());
  EXPECT_THAT(reader.info().warnings.front(), HasSubstr("a text takes 1.0 MiB of memory"));
}

// --- no regular files -------------------------------------------------------------------------------------------------

TEST_F(BombTest, OnlyRegularFilesAreOpened) {
  const fs::path fifo = folder_ / "fifo.h5";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const fs::path& path : {fifo, fs::path("/dev/zero")}) {
    try {
      const TraceReader reader(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("it is no regular file"));
    }
    EXPECT_THAT(validate_trace(path).front(), HasSubstr("it is no regular file"));
  }
}

TEST_F(BombTest, AFifoInTheSidecarsPlaceIsLeftOut) {
  ASSERT_EQ(mkfifo(sidecar_path(sound_).c_str(), 0600), 0);
  const TraceReader reader(sound_);
  ASSERT_EQ(reader.info().warnings.size(), 1u);
  EXPECT_THAT(reader.info().warnings.front(), HasSubstr("it is no regular file"));
}

}  // namespace
}  // namespace kvloupe::trace::testing
