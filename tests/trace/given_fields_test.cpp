// What is stored where somebody writes it: /chunks/seconds.
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"
#include "tests/trace/trace_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::NanSensitiveFloatEq;

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// Nothing but tokens and chunks of three.
TraceHeader small_header() {
  TraceHeader header = make_reference(DType::F16).header;
  header.layers = {0};
  header.runs.clear();
  header.spans.clear();
  header.store = {};
  header.max_chunks = 4;
  header.max_tokens = 12;
  return header;
}

class GivenFields : public ::testing::Test {
 protected:
  void write(TraceWriter& writer, int first, int end, float seconds) {
    for (int c = first; c < end; ++c) {
      const ChunkInfo chunk{.begin = 3 * c, .length = 3};
      writer.write_layer(chunk, {.layer = 0});
      const float value = seconds + static_cast<float>(c);
      if (seconds > 0) writer.write<float>(Field::ChunkSeconds, chunk, {&value, 1});
      writer.end_chunk(chunk, std::vector<std::int32_t>{1, 2, 3}, {"a", "b", "c"});
    }
  }

  static std::vector<float> seconds_of(const fs::path& path) {
    return TraceReader(path).read<float>(Field::ChunkSeconds);
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_ / "t.h5";
};

TEST_F(GivenFields, AreReadBackWhereTheyWereWritten) {
  TraceWriter writer(path_, small_header(), false);
  write(writer, 0, 4, 0.5F);
  writer.finish({}, true);
  EXPECT_THAT(seconds_of(path_), ElementsAre(0.5F, 1.5F, 2.5F, 3.5F));
  EXPECT_THAT(validate_trace(path_), IsEmpty());
}

TEST_F(GivenFields, AreAbsentWhereNobodyWroteThem) {
  TraceWriter writer(path_, small_header(), false);
  write(writer, 0, 4, 0);
  writer.finish({}, true);
  EXPECT_THAT(seconds_of(path_), IsEmpty());
  EXPECT_THAT(TraceReader(path_).info().warnings, IsEmpty());
  EXPECT_THAT(validate_trace(path_), IsEmpty());
}

TEST_F(GivenFields, OfACaptureThatWasCutShortEndWithItsLastChunk) {
  {
    TraceWriter writer(path_, small_header(), false);
    write(writer, 0, 2, 0.5F);
  }
  EXPECT_THAT(seconds_of(folder_ / "t.h5.part"), ElementsAre(0.5F, 1.5F));
}

TEST_F(GivenFields, AreKeptByAResumedCapture) {
  {
    TraceWriter writer(path_, small_header(), false);
    write(writer, 0, 2, 0.5F);
  }
  TraceWriter writer(path_, small_header(), false, Begin::Resumed);
  write(writer, 2, 4, 10);
  writer.finish({}, true);
  EXPECT_THAT(seconds_of(path_), ElementsAre(0.5F, 1.5F, 12.0F, 13.0F));
}

// The part that was left is of an older version.
TEST_F(GivenFields, AreUnknownForChunksBeforeTheFirstThatHasThem) {
  {
    TraceWriter writer(path_, small_header(), false);
    write(writer, 0, 2, 0);
  }
  TraceWriter writer(path_, small_header(), false, Begin::Resumed);
  write(writer, 2, 4, 10);
  writer.finish({}, true);
  EXPECT_THAT(seconds_of(path_), ElementsAre(NanSensitiveFloatEq(kUnknown),
                                             NanSensitiveFloatEq(kUnknown), 12.0F, 13.0F));
}

TEST_F(GivenFields, ThatAreDamagedAreLeftOutWithAWarning) {
  {
    TraceWriter writer(path_, small_header(), false);
    write(writer, 0, 4, 0.5F);
    writer.finish({}, true);
  }
  {
    const h5::Lock lock;
    const h5::Handle file =
        h5::checked(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open the file");
    const h5::Handle set =
        h5::checked(H5Dopen2(file.get(), "/chunks/seconds", H5P_DEFAULT), "open the dataset");
    const hsize_t three = 3;
    h5::checked_status(H5Dset_extent(set.get(), &three), "cut it");
  }
  const TraceReader reader(path_);
  EXPECT_THAT(reader.read<float>(Field::ChunkSeconds), IsEmpty());
  ASSERT_EQ(reader.info().warnings.size(), 1U);
  EXPECT_THAT(reader.info().warnings.front(),
              HasSubstr("/chunks/seconds has 3 entries where 4 are needed"));
}

}  // namespace
}  // namespace kvloupe::trace::testing
