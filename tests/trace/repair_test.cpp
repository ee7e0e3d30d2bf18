// The copy that `validate --repair` writes: all that is sound, bit for bit, and nothing else.
#include "core/trace/check/repair.h"

#include "core/base/error.h"
#include "tests/trace/half_bits.h"
#include "tests/trace/hdf5_edits.h"
#include "tests/trace/trace_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;
using testing::ReferenceTrace;

// Halves widened by the arithmetic of their definition.
float half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31)
    return fraction ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

TEST(HalfBits, AllHalvesComeBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_value(half);
    const std::uint16_t back = half_bits_of_exact(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_value(back))) << bits;
    } else {
      EXPECT_EQ(back, half);
    }
  }
}

class RepairTest : public ::testing::TestWithParam<DType> {
 protected:
  RepairTest() {
    add_probe_and_lanes(reference_);
    add_blocks(reference_);
    write_trace(damaged_, reference_);
  }

  void edit(const std::function<void(hid_t)>& change) const {
    const h5::Lock lock;
    const h5::Handle file =
        h5::checked(H5Fopen(damaged_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open for editing");
    change(file.get());
  }

  Repair repair() const {
    const Repair done = repair_trace(damaged_, clean_, false);
    const Validation found = check_trace(clean_);
    EXPECT_TRUE(found.defects.empty()) << found.defects.front();
    EXPECT_FALSE(fs::exists(clean_.string() + ".repaired"));
    return done;
  }

  // What both files hold of the layer is the same, to the bit.
  void expect_same_layer(const TraceReader& a, const TraceReader& b, int layer) const {
    const auto& model = a.info().model;
    for (const auto& [what, heads] :
         {std::pair(Stored::Q, model.num_q_heads), std::pair(Stored::K, model.num_kv_heads),
          std::pair(Stored::V, model.num_kv_heads)}) {
      for (int head = 0; head < heads; ++head) {
        EXPECT_EQ(rows(a, what, layer, head), rows(b, what, layer, head));
      }
    }
    for (int c = 0; c < static_cast<int>(b.info().chunks.size()); ++c) {
      EXPECT_EQ(a.read_probe(layer, c), b.read_probe(layer, c));
    }
  }

  static std::vector<std::uint32_t> rows(const TraceReader& reader, Stored what, int layer,
                                         int head) {
    std::vector<float> values(static_cast<std::size_t>(reader.info().num_tokens) *
                              reader.info().model.head_dim);
    reader.read_rows(what, layer, head, 0, reader.info().num_tokens, values.data());
    std::vector<std::uint32_t> bits;
    for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
    return bits;
  }

  static void expect_same_run(const TraceReader& a, int run_a, const TraceReader& b, int run_b,
                              int layer) {
    const RunLayer x = a.read_run_layer(run_a, layer), y = b.read_run_layer(run_b, layer);
    EXPECT_EQ(x.offsets, y.offsets);
    EXPECT_EQ(x.positions, y.positions);
    EXPECT_EQ(x.flags, y.flags);
    EXPECT_EQ(x.forced_offsets, y.forced_offsets);
    EXPECT_EQ(x.forced_bounds, y.forced_bounds);
    EXPECT_EQ(x.evict_chunk, y.evict_chunk);
    EXPECT_EQ(x.lane_counts, y.lane_counts);
    EXPECT_EQ(x.block_mask, y.block_mask);
    EXPECT_EQ(x.block_forced, y.block_forced);
    EXPECT_EQ(x.block_abstains, y.block_abstains);
    EXPECT_EQ(x.table_indices, y.table_indices);
  }

  static bool mentions(const Repair& repair, const std::string& words) {
    for (const auto& sentence : repair.left_out) {
      if (sentence.find(words) != std::string::npos) return true;
    }
    return false;
  }

  const TemporaryFolder folder_;
  ReferenceTrace reference_ = testing::make_reference(GetParam());
  const fs::path damaged_ = folder_ / "damaged.h5";
  const fs::path clean_ = folder_ / "clean.h5";
};

INSTANTIATE_TEST_SUITE_P(Types, RepairTest, ::testing::Values(DType::F16, DType::F32));

TEST_P(RepairTest, ASoundTraceIsCopiedWhole) {
  const Repair done = repair();
  EXPECT_TRUE(done.left_out.empty()) << done.left_out.front();
  const TraceReader a(damaged_), b(clean_);
  EXPECT_EQ(b.info().layers, a.info().layers);
  EXPECT_EQ(b.info().generated, a.info().generated);
  EXPECT_EQ(b.token_ids(), a.token_ids());
  EXPECT_EQ(b.token_texts(), a.token_texts());
  EXPECT_EQ(b.read<float>(Field::Nll).size(), a.read<float>(Field::Nll).size());
  EXPECT_TRUE(b.info().complete);
  ASSERT_EQ(b.info().runs.size(), a.info().runs.size());
  for (const int layer : a.info().layers) {
    expect_same_layer(a, b, layer);
    for (const auto& run : a.info().runs) expect_same_run(a, run.id, b, run.id, layer);
    for (int c = 0; c < static_cast<int>(a.info().chunks.size()); ++c) {
      EXPECT_EQ(a.read_key_mass(layer, c), b.read_key_mass(layer, c));
    }
  }
}

TEST_P(RepairTest, ALayerThatIsLostIsLeftOutAndNamed) {
  edit([](hid_t f) { testing::drop(f, "/layers/0/k"); });
  const Repair done = repair();
  EXPECT_TRUE(mentions(done, "layer 0"));
  const TraceReader a(damaged_), b(clean_);
  EXPECT_EQ(done.layers, std::vector<int>{2});
  EXPECT_EQ(b.info().layers, done.layers);
  expect_same_layer(a, b, 2);
  for (const auto& run : a.info().runs) expect_same_run(a, run.id, b, run.id, 2);
}

TEST_P(RepairTest, ADamagedRunIsLeftOutAndTheOthersMoveUp) {
  edit([](hid_t f) { testing::drop(f, "/runs/0/layers/2/positions"); });
  const std::size_t runs = TraceReader(damaged_).info().runs.size();
  const Repair done = repair();
  EXPECT_TRUE(mentions(done, "run 0"));
  const TraceReader a(damaged_), b(clean_);
  EXPECT_EQ(b.info().runs.size(), runs - 1);
  for (const int layer : a.info().layers) expect_same_run(a, 1, b, 0, layer);
}

TEST_P(RepairTest, TheMethodThatTheModelRanWithIsMissed) {
  edit([](hid_t f) {
    const auto close_loop = [&](const char* object) {
      const h5::Handle at = h5::checked(H5Oopen(f, object, H5P_DEFAULT), "open");
      H5Adelete(at.get(), "mode");
      h5::write_attribute(at.get(), "mode", "closed_loop");
    };
    close_loop("/");
    close_loop("/runs/0");
    testing::drop(f, "/runs/0/layers/2/positions");
  });
  EXPECT_EQ(TraceReader(damaged_).info().closed_loop_run()->id, 0);
  EXPECT_TRUE(mentions(repair(), "the model ran with this method"));
  EXPECT_EQ(TraceReader(clean_).info().closed_loop_run(), nullptr)
      << "no other run takes its place";
  EXPECT_THAT(check_trace(clean_).notes,
              ::testing::Contains("the run of the method that the model ran with is not there"));
}

TEST_P(RepairTest, WhatAnOlderVersionDidNotRecordIsNotPassedOffAsNone) {
  edit([](hid_t f) {
    for (const char* layer : {"0", "2"}) {
      const std::string at = std::string("/runs/0/layers/") + layer;
      testing::drop(f, (at + "/forced_offsets").c_str());
      testing::drop(f, (at + "/forced_bounds").c_str());
    }
  });
  const Repair done = repair();
  ASSERT_EQ(done.left_out.size(), 1u);
  EXPECT_TRUE(mentions(done, "kept by rule is not recorded"));
}

TEST_P(RepairTest, DamagedMassIsLeftToBeComputedAnew) {
  edit([](hid_t f) {
    const h5::Handle mass = h5::checked(H5Dopen2(f, "/layers/2/key_mass", H5P_DEFAULT), "open");
    const float wrong = 9.0f;
    h5::write_box(mass.get(), H5T_NATIVE_FLOAT, {40}, {1}, &wrong);
  });
  const Repair done = repair();
  EXPECT_TRUE(mentions(done, "key_mass"));
  const TraceReader a(damaged_), b(clean_);
  EXPECT_EQ(b.info().layers, a.info().layers);
  EXPECT_FALSE(b.read_key_mass(0, 0).has_value());
  for (const int layer : a.info().layers) expect_same_layer(a, b, layer);
}

TEST_P(RepairTest, WhatTheSidecarHoldsBecomesPartOfTheCopy) {
  RunInfo run;
  run.method = "h2o";
  run.q_heads_per_row = 2;
  std::vector<LayerRecord> layers;
  {
    const TraceReader reader(damaged_);
    for (const int layer : reader.info().layers) layers.push_back(reader.read_run(0, layer));
  }
  const int id = append_sidecar_run(damaged_, run, {0, 2}, layers);
  const Repair done = repair();
  EXPECT_TRUE(done.left_out.empty()) << done.left_out.front();
  const TraceReader a(damaged_), b(clean_);
  ASSERT_EQ(b.info().runs.size(), a.info().runs.size());
  EXPECT_FALSE(b.info().runs.back().from_sidecar);
  for (const int layer : a.info().layers) expect_same_run(a, id, b, b.info().runs.back().id, layer);
}

TEST_P(RepairTest, WithNothingSoundThereIsNoCopy) {
  edit([](hid_t f) {
    testing::drop(f, "/layers/0/k");
    testing::drop(f, "/layers/2/v");
  });
  EXPECT_THROW(repair_trace(damaged_, clean_, false), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_P(RepairTest, AnExistingFileStaysUnlessForced) {
  std::ofstream(clean_) << "mine";
  EXPECT_THROW(repair_trace(damaged_, clean_, false), Error);
  EXPECT_EQ(fs::file_size(clean_), 4u);
  repair_trace(damaged_, clean_, true);
  EXPECT_TRUE(validate_trace(clean_).empty());
}

}  // namespace
}  // namespace kvloupe::trace
