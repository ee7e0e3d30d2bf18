// Basis files: what is written is read, and damaged or crafted ones are refused with a sentence.
#include "core/trace/basis_file.h"

#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "tests/trace/hdf5_edits.h"
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;
using Edit = std::function<void(hid_t)>;

// Two KV heads of three channels, in layers 1 and 4; rotations about the third axis.
Basis some_basis() {
  Basis basis;
  basis.kind = BasisKind::Aqua;
  basis.model_name = "tiny";
  basis.model_hash = std::string(64, '7');
  basis.num_kv_heads = 2;
  basis.head_dim = 3;
  basis.source = "persuasion";
  basis.source_hash = "abc";
  basis.num_tokens = 1234;
  for (const int layer : {1, 4}) {
    LayerBasis data;
    for (const double angle : {0.1 * layer, 0.3 * layer}) {
      const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
      data.vectors.insert(data.vectors.end(), {c, -s, 0, s, c, 0, 0, 0, 1});
      data.values.insert(data.values.end(), {3.5, 1.25, 0.0});
    }
    basis.layers.emplace(layer, data);
  }
  std::vector<std::int32_t> ids(60);
  std::iota(ids.begin(), ids.end(), 100);
  basis.shingles = shingles_of(ids);
  return basis;
}

class BasisFile : public ::testing::Test {
 protected:
  fs::path path() const { return folder_ / "b.h5"; }

  // Reading throws a sentence that has `word` in it.
  void expect_refused(const char* word, const Edit& edit) const {
    write_basis(path(), some_basis());
    {
      const h5::Lock lock;
      const h5::Handle file =
          h5::checked(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open for editing");
      edit(file.get());
    }
    try {
      read_basis(path());
      ADD_FAILURE() << "read in spite of: " << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }

  TemporaryFolder folder_;
};

void set_text(hid_t file, const char* name, const char* value) {
  H5Adelete(file, name);
  h5::write_attribute(file, name, value);
}

void drop_attribute(hid_t file, const char* name) {
  h5::checked_status(H5Adelete(file, name), "drop");
}

void set_vector(hid_t file, float value) {
  const h5::Handle dataset = h5::checked(H5Dopen2(file, "/layers/4/vectors", H5P_DEFAULT), "open");
  h5::write_box(dataset.get(), H5T_NATIVE_FLOAT, {1, 2, 2}, {1, 1, 1}, &value);
}

TEST_F(BasisFile, WhatIsWrittenIsRead) {
  const Basis wrote = some_basis();
  write_basis(path(), wrote);
  const Basis read = read_basis(path());
  EXPECT_EQ(read.kind, wrote.kind);
  EXPECT_EQ(read.model_name, wrote.model_name);
  EXPECT_EQ(read.model_hash, wrote.model_hash);
  EXPECT_EQ(read.num_kv_heads, 2);
  EXPECT_EQ(read.head_dim, 3);
  EXPECT_EQ(read.source, wrote.source);
  EXPECT_EQ(read.source_hash, wrote.source_hash);
  EXPECT_EQ(read.num_tokens, 1234);
  EXPECT_EQ(read.shingles, wrote.shingles);
  ASSERT_EQ(read.layers.size(), 2u);
  for (const int layer : {1, 4}) {
    EXPECT_EQ(read.layers.at(layer).vectors, wrote.layers.at(layer).vectors);
    EXPECT_EQ(read.layers.at(layer).values, wrote.layers.at(layer).values);
    EXPECT_TRUE(read.layers.at(layer).value_vectors.empty());
  }
  // Nothing else lies beside it, also after an overwrite.
  write_basis(path(), wrote);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(BasisFile, DirectionsOfValues) {
  Basis wrote = some_basis();
  for (auto& [layer, data] : wrote.layers) {
    data.value_vectors = data.vectors;
    std::swap_ranges(data.value_vectors.begin(), data.value_vectors.begin() + 9,
                     data.value_vectors.begin() + 9);
  }
  write_basis(path(), wrote);
  for (const auto& [layer, data] : read_basis(path()).layers)
    EXPECT_EQ(data.value_vectors, wrote.layers.at(layer).value_vectors);
  wrote.layers.at(4).value_vectors[0] = 2;
  write_basis(path(), wrote);
  EXPECT_THROW(read_basis(path()), Error);
}

TEST_F(BasisFile, FilesThatAreNoBases) {
  EXPECT_THROW(read_basis(folder_ / "missing.h5"), Error);
  EXPECT_THROW(read_basis(folder_.path()), Error);
  std::ofstream(path()) << "not HDF5";
  EXPECT_THROW(read_basis(path()), Error);
  write_trace(folder_ / "trace.h5", make_reference(DType::F16));
  EXPECT_THROW(read_basis(folder_ / "trace.h5"), Error);
  EXPECT_THROW(write_basis(folder_ / "no such folder" / "b.h5", some_basis()), Error);
}

TEST_F(BasisFile, Attributes) {
  expect_refused("format", [](hid_t f) { drop_attribute(f, "format"); });
  expect_refused("newer", [](hid_t f) { set_text(f, "schema_version", "2.0"); });
  expect_refused("no version", [](hid_t f) { set_text(f, "schema_version", "one"); });
  expect_refused("neither loki nor aqua", [](hid_t f) { set_text(f, "kind", "sparq"); });
  for (const char* name : {"kind", "model_name", "model_hash", "num_kv_heads", "head_dim", "source",
                           "source_hash", "num_tokens"})
    expect_refused(name, [&](hid_t f) { drop_attribute(f, name); });
  expect_refused("head_dim", [](hid_t f) { h5::write_attribute(f, "head_dim", 1 << 20); });
  expect_refused("num_tokens", [](hid_t f) { h5::write_attribute(f, "num_tokens", 0); });
  expect_refused("not a text", [](hid_t f) {
    drop_attribute(f, "source");
    h5::write_attribute(f, "source", 1);
  });
}

TEST_F(BasisFile, ShapesAndValues) {
  expect_refused("missing", [](hid_t f) { drop(f, "/layers"); });
  expect_refused("missing", [](hid_t f) { drop(f, "/layers/4/values"); });
  expect_refused("no layer", [](hid_t f) {
    drop(f, "/layers/1");
    drop(f, "/layers/4");
  });
  expect_refused("shape", [](hid_t f) { h5::write_attribute(f, "num_kv_heads", 3); });
  expect_refused("shape", [](hid_t f) {
    claim(f, "/layers/1/vectors", H5T_IEEE_F32LE, {2, 3, 4});
  });
  expect_refused("dimensions",
                 [](hid_t f) { claim(f, "/layers/1/vectors", H5T_IEEE_F32LE, {18}); });
  expect_refused("floating-point", [](hid_t f) {
    claim(f, "/layers/1/values", H5T_STD_I32LE, {2, 3});
  });
  expect_refused("NaN", [](hid_t f) { set_vector(f, std::numeric_limits<float>::quiet_NaN()); });
  expect_refused("NaN", [](hid_t f) { set_vector(f, std::numeric_limits<float>::infinity()); });
  expect_refused("not orthonormal", [](hid_t f) { set_vector(f, 1.001F); });
  expect_refused("KV head 1", [](hid_t f) { set_vector(f, 0.0F); });
}

TEST_F(BasisFile, ClaimedExtentsAreNotBelieved) {
  expect_refused("holds only", [](hid_t f) {
    h5::write_attribute(f, "num_kv_heads", 65536);
    h5::write_attribute(f, "head_dim", 1024);
    claim(f, "/layers/1/vectors", H5T_IEEE_F32LE, {65536, 1024, 1024});
  });
  expect_refused("holds only", [](hid_t f) { claim(f, "/shingles", H5T_STD_U64LE, {1ull << 27}); });
  expect_refused("too many", [](hid_t f) { claim(f, "/shingles", H5T_STD_U64LE, {1ull << 60}); });
}

TEST_F(BasisFile, ShinglesMustAscend) {
  expect_refused("ascend", [](hid_t f) {
    const h5::Handle dataset = h5::checked(H5Dopen2(f, "/shingles", H5P_DEFAULT), "open");
    const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
    h5::write_box(dataset.get(), H5T_NATIVE_UINT64, {0}, {1}, &largest);
  });
}

TEST(Shingles, ARunOfSharedTokensIsFound) {
  const Basis basis = some_basis();  // tokens 100 to 159
  EXPECT_EQ(basis.shingles.size(), 60u - kShingleTokens + 1);
  const auto tokens = [](int shared) {
    std::vector<std::int32_t> ids(50, 7);
    for (int i = 0; i < shared; ++i) ids.push_back(120 + i);
    ids.resize(ids.size() + 50, 9);
    return ids;
  };
  EXPECT_TRUE(shares_text(basis, tokens(kShingleTokens)));
  EXPECT_FALSE(shares_text(basis, tokens(kShingleTokens - 1)));
  EXPECT_FALSE(shares_text(basis, {100, 101, 102}));
  EXPECT_FALSE(shares_text(Basis{}, tokens(40)));
  // The same tokens in another order are another text.
  std::vector<std::int32_t> reversed = tokens(40);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_FALSE(shares_text(basis, reversed));
}

}  // namespace
}  // namespace kvloupe::trace::testing
