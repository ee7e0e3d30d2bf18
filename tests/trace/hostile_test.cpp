// Damaged and crafted files: every one gives a sentence or a defect, none a crash or a wrong
// answer.
#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/write/slice.h"
#include "tests/trace/damaged_file.h"
#include "tests/trace/hdf5_edits.h"
#include "tests/trace/trace_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>

namespace kvloupe::trace::testing {
namespace {

void set_int(hid_t file, const char* object, const char* name, std::int64_t value) {
  const h5::Handle at = h5::checked(H5Oopen(file, object, H5P_DEFAULT), "open");
  h5::write_attribute(at.get(), name, value);
}

void drop_attribute(hid_t file, const char* object, const char* name) {
  h5::checked_status(H5Adelete_by_name(file, object, name, H5P_DEFAULT), "drop");
}

void set_text(hid_t file, const char* object, const char* name, const char* value) {
  H5Adelete_by_name(file, object, name, H5P_DEFAULT);
  const h5::Handle at = h5::checked(H5Oopen(file, object, H5P_DEFAULT), "open");
  h5::write_attribute(at.get(), name, value);
}

void set_double(hid_t file, const char* object, const char* name, double value) {
  H5Adelete_by_name(file, object, name, H5P_DEFAULT);
  const h5::Handle at = h5::checked(H5Oopen(file, object, H5P_DEFAULT), "open");
  h5::write_attribute(at.get(), name, value);
}

// The same logit for so many heads of layer 0.
void set_sinks(hid_t file, std::size_t heads, float logit = 2) {
  const h5::Handle at = h5::checked(H5Oopen(file, "/layers/0", H5P_DEFAULT), "open");
  h5::write_attribute(at.get(), "sink_logit", std::vector<float>(heads, logit));
}

template <typename T>
void set_value(hid_t file, const char* path, hsize_t index, T value) {
  const h5::Handle dataset = h5::checked(H5Dopen2(file, path, H5P_DEFAULT), "open");
  h5::write_box(dataset.get(), h5::native_type(T()), {index}, {1}, &value);
}

void resize(hid_t file, const char* path, const std::vector<hsize_t>& dims) {
  const h5::Handle dataset = h5::checked(H5Dopen2(file, path, H5P_DEFAULT), "open");
  h5::checked_status(H5Dset_extent(dataset.get(), dims.data()), "resize");
}

class HostileTest : public DamagedFileTest {
 protected:
  HostileTest() : DamagedFileTest(make_reference(DType::F16)) {}

  // Run 0 of layer 2 is refused by who reads it, too.
  void expect_unread(const char* word, const Edit& edit) const {
    expect_defect(word, edit);
    const TraceReader reader(edited(edit));
    EXPECT_THROW(reader.read_run_layer(0, 2), Error) << word;
  }
};

TEST_F(HostileTest, TheUneditedFileIsSound) {
  const Validation found = check_trace(edited([](hid_t) {}));
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
}

TEST_F(HostileTest, FilesThatAreNoTraces) {
  const auto refused = [&](const fs::path& path) {
    EXPECT_THROW(TraceReader{path}, Error);
    EXPECT_FALSE(validate_trace(path).empty());
  };
  refused(folder_ / "missing.h5");
  refused(folder_.path());
  std::ofstream(folder_ / "text.h5") << "not HDF5";
  refused(folder_ / "text.h5");
  std::ofstream(folder_ / "empty.h5").close();
  refused(folder_ / "empty.h5");
  try {
    const TraceReader reader("https://example.org/a.h5");
    ADD_FAILURE() << "read over the network";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("kvloupe slice"));
  }
}

// Traces of other writers, too, are files as HDF5 makes them by itself.
TEST_F(HostileTest, AddressesOfFourBytes) {
  const fs::path path = folder_ / "addresses.h5", sound = edited([](hid_t) {});
  {
    const h5::Lock lock;
    const h5::Handle plist = h5::checked(H5Pcreate(H5P_FILE_CREATE), "plist");
    h5::checked_status(H5Pset_sizes(plist.get(), 4, 4), "sizes");
    const h5::Handle file =
        h5::checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, plist.get(), H5P_DEFAULT), "create");
    const h5::Handle from = h5::open_file_for_reading(sound.string());
    for (const char* name : {"model", "chunks", "layers"})
      h5::checked_status(H5Ocopy(from.get(), name, file.get(), name, H5P_DEFAULT, H5P_DEFAULT),
                         "copy");
  }
  try {
    const TraceReader reader(path);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("addresses and lengths are of 4 and 4 bytes"));
  }
}

TEST_F(HostileTest, RootAttributes) {
  expect_refused("format", [](hid_t f) { drop_attribute(f, "/", "format"); });
  expect_refused("format", [](hid_t f) { set_text(f, "/", "format", "something"); });
  expect_refused("not a text", [](hid_t f) {
    drop_attribute(f, "/", "format");
    set_int(f, "/", "format", 1);
  });
  expect_refused("newer", [](hid_t f) { set_text(f, "/", "schema_version", "2.0"); });
  expect_refused("newer", [](hid_t f) { set_text(f, "/", "schema_version", "10"); });
  expect_refused("no version", [](hid_t f) { set_text(f, "/", "schema_version", "x.1"); });
  expect_refused("no version", [](hid_t f) { drop_attribute(f, "/", "schema_version"); });
  expect_refused("chunks_done", [](hid_t f) { drop_attribute(f, "/", "chunks_done"); });
  expect_refused("chunks_done", [](hid_t f) { set_int(f, "/", "chunks_done", -1); });
  expect_refused("entries", [](hid_t f) { set_int(f, "/", "chunks_done", 7); });
  expect_refused("chunks_done", [](hid_t f) {
    set_int(f, "/", "chunks_done", std::numeric_limits<std::int64_t>::max());
  });
  expect_refused("one integer", [](hid_t f) { set_text(f, "/", "chunks_done", "six"); });
  expect_defect("complete", [](hid_t f) { set_int(f, "/", "complete", 7); });
  expect_defect("unknown word", [](hid_t f) { set_text(f, "/", "mode", "sideways"); });
}

TEST_F(HostileTest, AnOlderMinorVersionAndUnknownPartsAreFine) {
  const fs::path path = edited([](hid_t f) {
    set_text(f, "/", "schema_version", "1.93");
    h5::write_attribute(f, "novelty", 3.0);
    h5::create_group(f, "/novelties");
  });
  EXPECT_TRUE(validate_trace(path).empty());
}

TEST_F(HostileTest, Model) {
  expect_refused("missing", [](hid_t f) { drop(f, "/model"); });
  expect_refused("num_kv_heads", [](hid_t f) { set_int(f, "/model", "num_kv_heads", 0); });
  expect_refused("shared", [](hid_t f) { set_int(f, "/model", "num_kv_heads", 3); });
  expect_refused("head_dim", [](hid_t f) { set_int(f, "/model", "head_dim", -8); });
  expect_refused("num_layers", [](hid_t f) { set_int(f, "/model", "num_layers", 1 << 30); });
  expect_refused("one integer", [](hid_t f) { set_text(f, "/model", "num_q_heads", "4"); });
  for (const char* heads : {"heads", "1,0", "0,0", "-1", ""})
    expect_defect("kv_heads", [&](hid_t f) { set_text(f, "/model", "kv_heads", heads); });
  expect_defect("softmax_scale", [](hid_t f) {
    set_double(f, "/model", "softmax_scale", std::numeric_limits<double>::quiet_NaN());
  });
  expect_defect("rope_pairing", [](hid_t f) { set_text(f, "/model", "rope_pairing", "odd"); });
  expect_defect("layer_types", [](hid_t f) { set_text(f, "/model", "layer_types", "full"); });
  expect_defect("shape", [](hid_t f) { set_int(f, "/model", "head_dim", 65536); });
  expect_defect("no layer", [](hid_t f) { set_int(f, "/model", "num_layers", 2); });
}

TEST_F(HostileTest, Chunks) {
  expect_refused("missing", [](hid_t f) { drop(f, "/chunks/phase"); });
  expect_refused("begins", [](hid_t f) { set_value<std::int32_t>(f, "/chunks/begin", 2, 33); });
  expect_refused("begins", [](hid_t f) { set_value<std::int32_t>(f, "/chunks/begin", 0, -1); });
  expect_refused("length", [](hid_t f) { set_value<std::int32_t>(f, "/chunks/length", 5, 0); });
  expect_refused("tokens", [](hid_t f) {
    set_value<std::int32_t>(f, "/chunks/length", 5, std::numeric_limits<std::int32_t>::max() - 99);
  });
  expect_refused("phase", [](hid_t f) { set_value<std::uint8_t>(f, "/chunks/phase", 1, 9); });
  expect_refused("integers", [](hid_t f) { claim(f, "/chunks/begin", H5T_IEEE_F32LE, {6}); });
  expect_refused("dimensions", [](hid_t f) { claim(f, "/chunks/begin", H5T_STD_I32LE, {6, 1}); });
  expect_defect("mass_offsets",
                [](hid_t f) { set_value<std::int64_t>(f, "/chunks/mass_offsets", 2, -5); });
}

TEST_F(HostileTest, Tokens) {
  expect_refused("missing", [](hid_t f) { drop(f, "/tokens/ids"); });
  expect_refused("entries", [](hid_t f) { resize(f, "/tokens/ids", {54}); });
  expect_defect("id", [](hid_t f) { set_value<std::int32_t>(f, "/tokens/ids", 4, -4); });
  expect_defect("falls",
                [](hid_t f) { set_value<std::uint64_t>(f, "/tokens/text_offsets", 9, 1u << 20); });
  expect_defect("offsets end", [](hid_t f) {
    set_value<std::uint64_t>(f, "/tokens/text_offsets", 55,
                             std::numeric_limits<std::uint64_t>::max());
  });
  expect_defect("bytes", [](hid_t f) {
    const hsize_t size = 900;
    resize(f, "/tokens/text", {size});
  });
  expect_defect("records", [](hid_t f) { claim(f, "/tokens/spans", H5T_STD_I32LE, {3}); });
}

TEST_F(HostileTest, Layers) {
  expect_defect("missing", [](hid_t f) { drop(f, "/layers"); });
  expect_defect("only 2 of", [](hid_t f) { drop(f, "/layers/0/k"); });
  expect_defect("shape", [](hid_t f) { resize(f, "/layers/0/q", {4, 54, 8}); });
  expect_defect("dimensions", [](hid_t f) { claim(f, "/layers/2/v", H5T_IEEE_F32LE, {2, 55}); });
  expect_defect("float16 nor float32", [](hid_t f) {
    claim(f, "/layers/2/v", H5T_IEEE_F64LE, {2, 55, 8});
  });
  expect_defect("floating-point", [](hid_t f) {
    claim(f, "/layers/2/lse", H5T_STD_I32LE, {4, 55});
  });
  expect_defect("one type", [](hid_t f) {
    drop(f, "/layers/2/k");
    claim(f, "/layers/2/v", H5T_IEEE_F32LE, {2, 55, 8});
    h5::checked_status(H5Lcreate_hard(f, "/layers/2/v", f, "/layers/2/k", H5P_DEFAULT, H5P_DEFAULT),
                       "link");
  });
  expect_defect("lse of layer 0", [](hid_t f) {
    const h5::Handle lse = h5::checked(H5Dopen2(f, "/layers/0/lse", H5P_DEFAULT), "open");
    const float wrong = 3.5f;
    h5::write_box(lse.get(), H5T_NATIVE_FLOAT, {2, 54}, {1, 1}, &wrong);
  });
  expect_defect("key_mass of layer 2",
                [](hid_t f) { set_value<float>(f, "/layers/2/key_mass", 40, 9.0f); });
  expect_defect("entries", [](hid_t f) { resize(f, "/layers/2/key_mass", {10}); });
  expect_defect("without /chunks/mass_offsets", [](hid_t f) { drop(f, "/chunks/mass_offsets"); });
}

// Extents that nobody wrote: nothing of that size may be allocated.
TEST_F(HostileTest, ClaimedExtentsAreNotBelieved) {
  expect_defect("holds only", [](hid_t f) {
    claim(f, "/layers/0/q", h5::half_type(), {4, 1ull << 40, 8});
  });
  expect_refused("holds only", [](hid_t f) {
    claim(f, "/chunks/begin", H5T_STD_I32LE, {1ull << 31});
    claim(f, "/chunks/length", H5T_STD_I32LE, {1ull << 31});
    claim(f, "/chunks/phase", H5T_STD_I32LE, {1ull << 31});
    set_int(f, "/", "chunks_done", (1ll << 31) - 1);
  });
  expect_defect("holds only",
                [](hid_t f) { claim(f, "/tokens/generated", H5T_STD_I32LE, {1ull << 60}); });
  expect_defect("holds only", [](hid_t f) {
    claim(f, "/runs/0/layers/0/positions", H5T_STD_I32LE, {1ull << 60});
    set_value<std::int64_t>(f, "/runs/0/layers/0/offsets", 12, 1ll << 59);
  });
}

TEST_F(HostileTest, NothingOutsideTheFileIsReached) {
  expect_defect("only 2 of", [this](hid_t f) {
    drop(f, "/layers/0/k");
    h5::checked_status(H5Lcreate_external((folder_ / "sound.h5").c_str(), "/layers/0/k", f,
                                          "/layers/0/k", H5P_DEFAULT, H5P_DEFAULT),
                       "link");
  });
  expect_refused("missing", [](hid_t f) {
    drop(f, "/model");
    h5::checked_status(H5Lcreate_soft("/model", f, "/model", H5P_DEFAULT, H5P_DEFAULT), "link");
  });
  expect_defect("other files", [](hid_t f) {
    drop(f, "/layers/0/k");
    const hsize_t dims[3] = {2, 55, 8};
    const h5::Handle space = h5::checked(H5Screate_simple(3, dims, nullptr), "space");
    const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), "plist");
    H5Pset_external(plist.get(), "/etc/passwd", 0, H5F_UNLIMITED);
    h5::checked(H5Dcreate2(f, "/layers/0/k", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, plist.get(),
                           H5P_DEFAULT),
                "create");
  });
}

// What a library without plug-ins, or another reader, cannot unpack.
TEST_F(HostileTest, UnknownCompression) {
  const auto scaled = [](hid_t f, const char* path, hid_t type, const std::vector<hsize_t>& dims) {
    drop(f, path);
    const int rank = static_cast<int>(dims.size());
    const h5::Handle space = h5::checked(H5Screate_simple(rank, dims.data(), nullptr), "space");
    const h5::Handle plist = h5::checked(H5Pcreate(H5P_DATASET_CREATE), "plist");
    H5Pset_chunk(plist.get(), rank, dims.data());
    H5Pset_scaleoffset(plist.get(), H5Z_SO_INT, 0);
    h5::checked(H5Dcreate2(f, path, type, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT),
                "create");
  };
  expect_refused("/tokens/ids is compressed by scaleoffset, which traces do not use",
                 [&](hid_t f) { scaled(f, "/tokens/ids", H5T_STD_I32LE, {55}); });
  expect_defect("is compressed by scaleoffset",
                [&](hid_t f) { scaled(f, "/runs/0/layers/2/flags", H5T_STD_U8LE, {12}); });
}

// A group that is its own member, and a dataset where a group is expected.
TEST_F(HostileTest, OddTrees) {
  const fs::path looped = edited([](hid_t f) {
    h5::checked_status(H5Lcreate_hard(f, "/layers", f, "/layers/1", H5P_DEFAULT, H5P_DEFAULT),
                       "link");
    h5::checked_status(H5Lcreate_hard(f, "/", f, "/runs/2", H5P_DEFAULT, H5P_DEFAULT), "link");
  });
  read_everything(looped);
  EXPECT_FALSE(validate_trace(looped).empty());
  expect_refused("group", [](hid_t f) {
    drop(f, "/model");
    h5::checked_status(H5Lcreate_hard(f, "/tokens/ids", f, "/model", H5P_DEFAULT, H5P_DEFAULT),
                       "link");
  });
  expect_defect("group", [](hid_t f) {
    drop(f, "/runs");
    h5::checked_status(H5Lcreate_hard(f, "/tokens/ids", f, "/runs", H5P_DEFAULT, H5P_DEFAULT),
                       "link");
  });
}

TEST_F(HostileTest, Runs) {
  const char* offsets = "/runs/0/layers/2/offsets";
  const char* positions = "/runs/0/layers/2/positions";
  const char* flags = "/runs/0/layers/2/flags";
  expect_defect("begin at 0", [&](hid_t f) { set_value<std::int64_t>(f, offsets, 0, 1); });
  expect_defect("fall", [&](hid_t f) { set_value<std::int64_t>(f, offsets, 5, -9); });
  expect_defect("end at", [&](hid_t f) { set_value<std::int64_t>(f, offsets, 12, 1 << 20); });
  expect_defect("must rise", [&](hid_t f) { set_value<std::int32_t>(f, positions, 1, 8); });
  // No reader may be led to a key that is no candidate: not before its window, not in its own chunk, not
  // where there is no past.
  for (const int stray : {16, 1 << 30})
    expect_unread("beyond its candidates [0, 16)",
                  [&](hid_t f) { set_value<std::int32_t>(f, positions, 7, stray); });
  expect_unread("beyond its candidates [0, 16)",
                [&](hid_t f) { set_value<std::int32_t>(f, positions, 0, -1); });
  expect_unread("beyond its candidates [0, 0)", [&](hid_t f) {
    set_value<std::uint8_t>(f, flags, 0, 0);
    set_value<std::int64_t>(f, offsets, 1, 1);
    set_value<std::int64_t>(f, offsets, 2, 1);
  });
  expect_defect("unknown flag", [&](hid_t f) { set_value<std::uint8_t>(f, flags, 4, 4); });
  expect_defect("dense by its flag", [&](hid_t f) { set_value<std::uint8_t>(f, flags, 4, 2); });
  expect_defect("no past", [&](hid_t f) { set_value<std::uint8_t>(f, flags, 0, 0); });
  expect_defect("method", [](hid_t f) { drop_attribute(f, "/runs/1", "method"); });
  expect_defect("unknown word", [](hid_t f) { set_text(f, "/runs/1", "granularity", "crumb"); });
  for (const char* name : {"budget_scope", "lowering"})
    expect_defect("unknown word", [&](hid_t f) { set_text(f, "/runs/1", name, "crumb"); });
  expect_defect("q_heads_per_row", [](hid_t f) { set_int(f, "/runs/1", "q_heads_per_row", 0); });
  expect_defect("q_heads_per_row", [](hid_t f) { set_int(f, "/runs/1", "q_heads_per_row", 4); });
  expect_defect("entries", [&](hid_t f) { resize(f, flags, {11}); });
  expect_defect("missing", [&](hid_t f) { drop(f, positions); });
}

// What is wrong with the trace that is sliced is not blamed on the disk.
TEST_F(HostileTest, ASliceNamesTheDamagedRun) {
  const fs::path whole =
      edited([](hid_t f) { set_value<std::int64_t>(f, "/runs/0/layers/2/offsets", 5, -9); });
  try {
    slice_trace(whole, {}, folder_ / "slice.h5", true, {});
    ADD_FAILURE() << "sliced";
  } catch (const Error& error) {
    EXPECT_EQ(error.what_failed(), "cannot read " + whole.string());
    EXPECT_EQ(error.why(), "run 0, layer 2: its offsets fall at cell 4");
  }
}

// Chunk 1 keeps eight keys a row: row 0 all by rule, row 1 all but the first. The bounds are 0, 8 and
// 1, 8; offsets of cells 2 and 3 begin at 0 and 2.
TEST_F(HostileTest, ForcedKeys) {
  const char* offsets = "/runs/0/layers/2/forced_offsets";
  const char* bounds = "/runs/0/layers/2/forced_bounds";
  expect_defect("forced_offsets do not begin at 0",
                [&](hid_t f) { set_value<std::int64_t>(f, offsets, 0, 1); });
  expect_defect("forced_offsets fall",
                [&](hid_t f) { set_value<std::int64_t>(f, offsets, 5, -9); });
  expect_defect("forced_offsets end at",
                [&](hid_t f) { set_value<std::int64_t>(f, offsets, 12, 1 << 20); });
  expect_defect("without an end", [&](hid_t f) { set_value<std::int64_t>(f, offsets, 3, 3); });
  const auto must_rise = "in forced_bounds; they must rise up to its";
  expect_defect(must_rise, [&](hid_t f) { set_value<std::int32_t>(f, bounds, 0, -1); });
  expect_defect(must_rise, [&](hid_t f) { set_value<std::int32_t>(f, bounds, 1, 0); });
  expect_defect(must_rise, [&](hid_t f) { set_value<std::int32_t>(f, bounds, 1, 9); });
  expect_defect(must_rise, [&](hid_t f) { set_value<std::int32_t>(f, bounds, 3, 1 << 30); });
  // A dense cell has no position that could be forced.
  expect_defect(must_rise, [&](hid_t f) {
    set_value<std::int64_t>(f, offsets, 1, 2);
    set_value<std::int64_t>(f, offsets, 2, 2);
  });
  expect_defect("entries", [&](hid_t f) { resize(f, offsets, {12}); });
  expect_defect("missing", [&](hid_t f) { drop(f, offsets); });
  expect_defect("missing", [&](hid_t f) { drop(f, bounds); });
  expect_defect("holds only", [&](hid_t f) {
    claim(f, bounds, H5T_STD_I32LE, {1ull << 60});
    set_value<std::int64_t>(f, offsets, 12, 1ll << 59);
  });
}

TEST_F(HostileTest, Evictions) {
  const char* evict = "/runs/1/layers/0/evict_chunk";
  const auto set = [&](hid_t f, hsize_t row, hsize_t token, std::uint16_t chunk) {
    const h5::Handle dataset = h5::checked(H5Dopen2(f, evict, H5P_DEFAULT), "open");
    h5::write_box(dataset.get(), H5T_NATIVE_UINT16, {row, token}, {1, 1}, &chunk);
  };
  expect_defect("dies after", [&](hid_t f) { set(f, 1, 40, 1); });
  expect_defect("evict_chunk says", [&](hid_t f) { set(f, 0, 3, kAlive); });
  // Chunk 1 is dense: it keeps key 3, which would be dead by then.
  expect_defect("evict_chunk says", [&](hid_t f) { set(f, 0, 3, 0); });
  expect_defect("missing", [&](hid_t f) { drop(f, evict); });
  expect_defect("shape", [&](hid_t f) { resize(f, evict, {2, 50}); });
}

TEST_F(HostileTest, DecodedTokensAreChunksOfLengthOne) {
  expect_defect("is a decoded token but has length",
                [](hid_t f) { set_value<std::uint8_t>(f, "/chunks/phase", 1, 1); });
}

TEST_F(HostileTest, GeneratedTokensThatWereNotFedAreANote) {
  const Validation found =
      check_trace(edited([](hid_t f) { set_value<std::int32_t>(f, "/tokens/generated", 1, 1); }));
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("token 54 was decoded"), std::string::npos) << found.notes[0];
}

// A value that is not finite excuses what follows from it, and no other head.
TEST_F(HostileTest, SumsOfOtherHeadsAreJudgedBesideValuesThatAreNotFinite) {
  const auto wrong_beside = [](const char* dataset, hsize_t head) {
    return [=](hid_t f) {
      const auto set = [f](const char* path, const std::vector<hsize_t>& at, float value) {
        const h5::Handle stored = h5::checked(H5Dopen2(f, path, H5P_DEFAULT), "open");
        h5::write_box(stored.get(), H5T_NATIVE_FLOAT, at, std::vector<hsize_t>(at.size(), 1),
                      &value);
      };
      set(dataset, {head, 5, 0}, std::numeric_limits<float>::quiet_NaN());
      set("/layers/0/lse", {2, 54}, 123);
    };
  };
  expect_defect("lse of layer 0", wrong_beside("/layers/0/v", 1));
  expect_defect("lse of layer 0", wrong_beside("/layers/0/q", 0));
  EXPECT_EQ(check_trace(edited(wrong_beside("/layers/0/q", 2))).defects,
            std::vector<std::string>{});
}

// An lse that leaves a window, a softcap or a sink of its layer out is wrong.
TEST_F(HostileTest, LogSumExpIsJudgedByTheLayersSoftmax) {
  const auto defects_with = [&](const Edit& edit) { return check_trace(edited(edit)).defects; };
  for (const auto& defects :
       {defects_with([](hid_t f) { set_double(f, "/layers/0", "softcap", 0.25); }),
        defects_with([](hid_t f) { set_int(f, "/layers/0", "window", 2); }),
        defects_with([](hid_t f) { set_sinks(f, 4); })}) {
    ASSERT_FALSE(defects.empty());
    EXPECT_NE(defects.front().find("lse of layer 0"), std::string::npos) << defects.front();
  }
  EXPECT_TRUE(defects_with([](hid_t f) { set_int(f, "/layers/0", "window", 1000); }).empty());
  EXPECT_TRUE(defects_with([](hid_t f) { set_double(f, "/layers/0", "softcap", 1e6); }).empty());
}

// Such a layer cannot be computed, so it is left out; a plain softmax in its place would be wrong.
TEST_F(HostileTest, LayersWhoseSoftmaxIsNoneAreLeftOut) {
  const std::vector<std::pair<const char*, Edit>> edits = {
      {"window of /layers/0 is 0", [](hid_t f) { set_int(f, "/layers/0", "window", 0); }},
      {"one integer", [](hid_t f) { set_double(f, "/layers/0", "window", 8); }},
      {"softcap of /layers/0 is -1", [](hid_t f) { set_double(f, "/layers/0", "softcap", -1); }},
      {"sink_logit has 1 values", [](hid_t f) { set_double(f, "/layers/0", "sink_logit", 9); }},
      {"sink_logit has 5 values", [](hid_t f) { set_sinks(f, 5); }},
      {"not finite", [](hid_t f) { set_sinks(f, 4, std::numeric_limits<float>::infinity()); }}};
  for (const auto& [sentence, edit] : edits) {
    const fs::path path = edited(edit);
    const auto defects = validate_trace(path);
    ASSERT_FALSE(defects.empty()) << sentence;
    EXPECT_NE(defects.front().find(sentence), std::string::npos) << defects.front();
    EXPECT_FALSE(TraceReader(path).info().has_layer(0)) << sentence;
  }
}

TEST_F(HostileTest, CellsThatAreNotFiniteAreANote) {
  const fs::path path = edited([](hid_t f) {
    const h5::Handle k = h5::checked(H5Dopen2(f, "/layers/2/k", H5P_DEFAULT), "open");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    h5::write_box(k.get(), H5T_NATIVE_FLOAT, {1, 7, 3}, {1, 1, 1}, &nan);
  });
  const Validation found = check_trace(path);
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("layer 2 has 1 "), std::string::npos) << found.notes[0];
}

TEST_F(HostileTest, AnIncompleteTraceIsSoundAndSaidToBe) {
  const Validation found = check_trace(edited([](hid_t f) {
    set_int(f, "/", "complete", 0);
    set_int(f, "/", "chunks_done", 4);
  }));
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_NE(found.notes[0].find("incomplete: 4 chunks"), std::string::npos);
}

}  // namespace
}  // namespace kvloupe::trace::testing
