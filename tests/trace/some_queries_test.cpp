// Traces that hold the queries of some chunks alone: /chunks/query_offsets.
#include "core/trace/check/repair.h"
#include "core/trace/write/slice.h"
#include "tests/trace/damaged_file.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace kvloupe::trace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Numbers = std::vector<std::int64_t>;

void write_offsets(hid_t file, const Numbers& offsets) {
  const hsize_t size = offsets.size();
  const h5::Handle space = h5::checked(H5Screate_simple(1, &size, nullptr), "space");
  const h5::Handle dataset =
      h5::checked(H5Dcreate2(file, "/chunks/query_offsets", H5T_STD_I64LE, space.get(), H5P_DEFAULT,
                             H5P_DEFAULT, H5P_DEFAULT),
                  "create");
  h5::write_box(dataset.get(), H5T_NATIVE_INT64, {0}, {size}, offsets.data());
}

class SomeQueries : public DamagedFileTest {
 protected:
  SomeQueries() : DamagedFileTest(make_reference(DType::F32)) {
    for (int chunk = 0; chunk < static_cast<int>(reference_.chunks.size()); ++chunk) {
      const bool stored = chunk == 1 || chunk == 3 || chunk == 4;
      offsets_.push_back(offsets_.back() +
                         (stored ? reference_.chunks[static_cast<std::size_t>(chunk)].length : 0));
    }
  }

  // Leaves the queries of chunks 1, 3 and 4 in q, and says where they are.
  void keep_some(hid_t file, const Numbers& said) const {
    const auto heads = static_cast<hsize_t>(reference_.header.model.num_q_heads),
               dim = static_cast<hsize_t>(reference_.header.model.head_dim);
    for (std::size_t i = 0; i < reference_.header.layers.size(); ++i) {
      const auto path = "/layers/" + std::to_string(reference_.header.layers[i]) + "/q";
      const h5::Handle q = h5::checked(H5Dopen2(file, path.c_str(), H5P_DEFAULT), "open");
      for (std::size_t c = 0; c < reference_.chunks.size(); ++c)
        if (const auto count = static_cast<hsize_t>(offsets_[c + 1] - offsets_[c]); count > 0)
          for (hsize_t head = 0; head < heads; ++head)
            h5::write_box(q.get(), H5T_NATIVE_FLOAT, {head, static_cast<hsize_t>(offsets_[c]), 0},
                          {1, count, dim}, query_of(i, static_cast<int>(head), c));
      const std::vector<hsize_t> left = {heads, static_cast<hsize_t>(offsets_.back()), dim};
      h5::checked_status(H5Dset_extent(q.get(), left.data()), "cut");
    }
    write_offsets(file, said);
  }
  fs::path some() const {
    return edited([&](hid_t file) { keep_some(file, offsets_); });
  }

  const float* query_of(std::size_t layer_idx, int head, std::size_t chunk) const {
    return reference_.layers[layer_idx].q.data() +
           (static_cast<std::size_t>(head) * static_cast<std::size_t>(reference_.num_tokens()) +
            static_cast<std::size_t>(reference_.chunks[chunk].begin)) *
               static_cast<std::size_t>(reference_.header.model.head_dim);
  }
  // The rows of the chunk are those of the whole trace, in every layer and head.
  void expect_rows(const TraceReader& reader, std::size_t chunk) const {
    const ChunkInfo& here = reference_.chunks[chunk];
    const auto dim = static_cast<std::size_t>(reference_.header.model.head_dim);
    std::vector<float> rows(static_cast<std::size_t>(here.length) * dim);
    for (std::size_t i = 0; i < reference_.header.layers.size(); ++i)
      for (int head = 0; head < reference_.header.model.num_q_heads; ++head) {
        reader.read_rows(Stored::Q, reference_.header.layers[i], head, here.begin, here.end(),
                         rows.data());
        const float* const whole = query_of(i, head, chunk);
        EXPECT_EQ(rows, std::vector<float>(whole, whole + rows.size())) << "chunk " << chunk;
      }
  }
  static std::string refusal(const TraceReader& reader, std::int32_t begin, std::int32_t end) {
    std::vector<float> rows(static_cast<std::size_t>(end - begin) *
                            static_cast<std::size_t>(reader.info().model.head_dim));
    try {
      reader.read_rows(Stored::Q, reader.info().layers.front(), 0, begin, end, rows.data());
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return error.what();
    }
    return "read";
  }

  const ReferenceTrace reference_ = make_reference(DType::F32);
  Numbers offsets_ = {0};
};

TEST_F(SomeQueries, AreThoseOfTheChunks) {
  const TraceReader reader(some());
  const TraceInfo& info = reader.info();
  EXPECT_EQ(info.query_offsets, offsets_);
  EXPECT_THAT(info.chunks_with_queries(), ElementsAre(1, 3, 4));
  for (const std::size_t chunk : {1, 3, 4}) expect_rows(reader, chunk);
  EXPECT_EQ(refusal(reader, info.chunks[3].begin, info.chunks[4].end()), "read");
  EXPECT_EQ(refusal(reader, info.chunks[2].begin, info.chunks[2].begin), "read");
  EXPECT_THAT(info.warnings, ElementsAre(HasSubstr("chunks 1, 3 to 4 alone, of 6")));
}

TEST_F(SomeQueries, AreRefusedWhereThereAreNone) {
  const TraceReader reader(some());
  const auto& chunks = reader.info().chunks;
  EXPECT_THAT(refusal(reader, chunks[2].begin, chunks[2].end()),
              HasSubstr("chunk 2 cannot be computed; its queries are not in the trace, which has "
                        "those of chunks 1, 3 to 4 alone; choose one"));
  EXPECT_THAT(refusal(reader, chunks[1].begin, chunks[3].end()), HasSubstr("chunk 2"));
  EXPECT_THAT(refusal(reader, chunks[1].end() - 1, chunks[1].end() + 1), HasSubstr("chunk 2"));
  EXPECT_THAT(refusal(reader, 0, reader.info().num_tokens), HasSubstr("chunk 0"));
}

TEST_F(SomeQueries, AreNoDefect) {
  const Validation found = check_trace(some());
  EXPECT_THAT(found.defects, IsEmpty());
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("queries are stored of chunks")));
}

TEST_F(SomeQueries, AreCheckedAgainstTheirLogSumExp) {
  const std::int32_t token = reference_.chunks[4].begin;  // the last query that is stored
  const auto name = "/layers/" + std::to_string(reference_.header.layers.front()) + "/lse";
  const fs::path path = edited([&](hid_t file) {
    keep_some(file, offsets_);
    set_value(file, name.c_str(), {0, static_cast<hsize_t>(token)}, 1000.0F);
  });
  EXPECT_THAT(validate_trace(path), ElementsAre(HasSubstr("token " + std::to_string(token))));
}

TEST_F(SomeQueries, WhoseOffsetsAreWrongAreRefused) {
  const auto refused = [&](const char* word, const auto& change) {
    Numbers wrong = offsets_;
    change(wrong);
    expect_refused(word, [&](hid_t file) { keep_some(file, wrong); });
  };
  refused("begins at 1", [](Numbers& at) { at.front() = 1; });
  refused("begins at -1", [](Numbers& at) { at.front() = -1; });
  refused("chunk 1", [](Numbers& at) { at[2] -= 1; });
  refused("chunk 2", [](Numbers& at) { at[3] += 1; });
  refused("chunk 2", [](Numbers& at) { at[3] = 0; });
  refused("chunk 5", [](Numbers& at) { at.back() = std::int64_t{1} << 62; });
  refused("chunk 0", [](Numbers& at) { at[1] = INT64_MIN; });
  refused("entries", [](Numbers& at) { at.pop_back(); });
}

TEST_F(SomeQueries, ThatQDoesNotHaveAreADefect) {
  Numbers more = offsets_;
  more.back() += reference_.chunks.back().length;
  expect_defect("shape", [&](hid_t file) { keep_some(file, more); });
}

TEST_F(SomeQueries, GoAlongInASlice) {
  const fs::path slice = folder_ / "slice.h5";
  for (const int last : {0, 2, 3, 5})
    for (const DType dtype : {DType::F32, DType::F16}) {
      SliceRequest request;
      request.until_chunk = last;
      request.dtype = dtype;
      slice_trace(some(), request, slice, true, {});
      const TraceReader reader(slice);
      EXPECT_EQ(reader.info().query_offsets,
                Numbers(offsets_.begin(), offsets_.begin() + last + 2));
      for (const int chunk : reader.info().chunks_with_queries())
        expect_rows(reader, static_cast<std::size_t>(chunk));
      EXPECT_THAT(validate_trace(slice), IsEmpty());
    }
}

TEST_F(SomeQueries, GoAlongInARepair) {
  const fs::path clean = folder_ / "clean.h5";
  repair_trace(some(), clean, false);
  const TraceReader reader(clean);
  EXPECT_EQ(reader.info().query_offsets, offsets_);
  for (const std::size_t chunk : {1, 3, 4}) expect_rows(reader, chunk);
  EXPECT_THAT(validate_trace(clean), IsEmpty());
}

}  // namespace
}  // namespace kvloupe::trace::testing
