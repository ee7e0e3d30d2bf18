// Probe, novelty, lanes and what a run says of its basis: written, read back, cut short, damaged.
#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "tests/trace/damaged_file.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvloupe::trace::testing {
namespace {

ReferenceTrace full_reference(DType dtype) {
  ReferenceTrace reference = make_reference(dtype);
  add_probe_and_lanes(reference);
  return reference;
}

// The chunks that are there hold what was written.
void expect_probe_and_lanes(const TraceReader& reader, const ReferenceTrace& reference) {
  const TraceInfo& info = reader.info();
  EXPECT_EQ(info.probe_text, reference.header.probe_text);
  EXPECT_EQ(info.probe_len, 5);
  const auto tokens = static_cast<std::ptrdiff_t>(info.num_tokens);
  EXPECT_EQ(reader.read<float>(Field::Nll),
            std::vector<float>(reference.novelty.begin(), reference.novelty.begin() + tokens));
  for (std::size_t index = 0; index < reference.layers.size(); ++index) {
    const int layer = reference.header.layers[index];
    std::vector<std::int32_t> lanes[2];
    for (std::size_t c = 0; c < info.chunks.size(); ++c) {
      const auto probe = reader.read_probe(layer, static_cast<int>(c));
      ASSERT_EQ(probe.has_value(), info.chunks[c].phase == Phase::Prefill);
      if (probe) {
        EXPECT_EQ(*probe, reference.layers[index].probe_q[c]);
      }
      for (const int i : {0, 1}) {
        const auto& counts = reference.runs[2 + i][index][c].record.lane_counts;
        lanes[i].insert(lanes[i].end(), counts.begin(), counts.end());
      }
    }
    EXPECT_TRUE(reader.read_run_layer(0, layer).lane_counts.empty());
    EXPECT_EQ(reader.read_run_layer(2, layer).lane_counts, lanes[0]);
    EXPECT_EQ(reader.read_run_layer(3, layer).lane_counts, lanes[1]);
    EXPECT_EQ(reader.read_run_layer(3, layer).evict_chunk,
              reader.read_run_layer(1, layer).evict_chunk);
    EXPECT_TRUE(reader.read_run_layer(2, layer).positions.empty());
  }
}

class ProbeAndLanesTest : public ::testing::TestWithParam<DType> {};

TEST_P(ProbeAndLanesTest, EverythingIsReadBack) {
  const TemporaryFolder folder;
  const auto reference = full_reference(GetParam());
  write_trace(folder / "t.h5", reference);
  const TraceReader reader(folder / "t.h5");
  EXPECT_TRUE(reader.info().warnings.empty()) << reader.info().warnings.front();
  expect_probe_and_lanes(reader, reference);
  const auto& runs = reader.info().runs;
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_FALSE(runs[0].decode_dense);
  EXPECT_TRUE(runs[0].basis_source.empty());
  EXPECT_TRUE(runs[2].decode_dense);
  EXPECT_EQ(runs[2].granularity, Granularity::Lane);
  EXPECT_EQ(runs[2].basis_source, "persuasion");
  EXPECT_EQ(runs[2].basis_hash, std::string(64, 'b'));
  EXPECT_FALSE(runs[2].basis_leakage);
  EXPECT_TRUE(runs[3].basis_leakage);
  const Validation found = check_trace(folder / "t.h5");
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
}

INSTANTIATE_TEST_SUITE_P(DTypes, ProbeAndLanesTest, ::testing::Values(DType::F16, DType::F32));

TEST(ProbeTest, ATraceWithoutOneHasNone) {
  const TemporaryFolder folder;
  write_trace(folder / "t.h5", make_reference(DType::F16));
  const TraceReader reader(folder / "t.h5");
  EXPECT_EQ(reader.info().probe_len, 0);
  EXPECT_TRUE(reader.read<float>(Field::Nll).empty());
  EXPECT_FALSE(reader.read_probe(0, 0).has_value());
  const h5::Lock lock;
  const h5::Handle file = h5::open_file_for_reading((folder / "t.h5").string());
  EXPECT_FALSE(h5::has_object(file.get(), "/probe"));
  EXPECT_FALSE(h5::has_object(file.get(), "/tokens/nll"));
  EXPECT_FALSE(h5::has_object(file.get(), "/runs/0/layers/0/lane_counts"));
}

// Ended in the middle of chunk 3, in order or by the end of the program.
TEST(ProbeTest, WhatWasCutShortIsReadUpToItsLastChunk) {
  const auto reference = full_reference(DType::F16);
  for (const bool finished : {true, false}) {
    const TemporaryFolder folder;
    {
      TraceWriter writer(folder / "t.h5", reference.header, false);
      write_chunks(writer, reference, 3);
      write_layer_of(writer, reference, 3, 0);
      write_probe_of(writer, reference, 3, 0);
      writer.write_run(reference.chunks[3], reference.runs[2][0][3]);
      writer.write<float>(Field::Nll, reference.chunks[3],
                          std::span(reference.novelty).subspan(48, 5));
      if (finished) writer.finish({}, false);
    }
    const fs::path path = folder / (finished ? "t.h5" : "t.h5.part");
    const TraceReader reader(path);
    ASSERT_EQ(reader.info().chunks.size(), 3u);
    EXPECT_TRUE(reader.info().warnings.empty());
    expect_probe_and_lanes(reader, reference);
    EXPECT_TRUE(validate_trace(path).empty());
    if (!finished) continue;
    const h5::Lock lock;
    const h5::Handle file = h5::open_file_for_reading(path.string());
    const auto probe = h5::Dataset::open(file.get(), "/layers/0/probe_q", h5::ValueClass::Float, 4);
    EXPECT_EQ(probe.dims().front(), 3u);
  }
}

TEST(ProbeTest, ASidecarHoldsLanesToo) {
  const TemporaryFolder folder;
  const auto reference = full_reference(DType::F16);
  write_trace(folder / "t.h5", reference);
  const std::vector<int> layers = {0, 2};
  for (const int run : {2, 3}) {
    std::vector<LayerRecord> data;
    std::vector<RunLayer> own;
    RunInfo info;
    {
      const TraceReader reader(folder / "t.h5");
      info = reader.info().runs[run];
      for (const int layer : layers) {
        own.push_back(reader.read_run_layer(run, layer));
        data.push_back(reader.read_run(run, layer));
      }
    }
    const int id = append_sidecar_run(folder / "t.h5", info, layers, data);
    const TraceReader reader(folder / "t.h5");
    const RunInfo& saved = reader.info().runs.at(id);
    EXPECT_TRUE(saved.from_sidecar);
    EXPECT_EQ(saved.basis_source, info.basis_source);
    EXPECT_EQ(saved.basis_leakage, info.basis_leakage);
    EXPECT_EQ(saved.decode_dense, info.decode_dense);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const RunLayer found = reader.read_run_layer(id, layers[i]);
      EXPECT_EQ(found.lane_counts, own[i].lane_counts);
      EXPECT_EQ(found.evict_chunk, own[i].evict_chunk);
      EXPECT_EQ(found.flags, own[i].flags);
    }
    data[1].cells[0].lane_counts.pop_back();
    EXPECT_THROW(append_sidecar_run(folder / "t.h5", info, layers, data), Error);
  }
  EXPECT_TRUE(validate_trace(folder / "t.h5").empty());
}

class DamagedProbeTest : public DamagedFileTest {
 protected:
  DamagedProbeTest() : DamagedFileTest(full_reference(DType::F16)) {}
};

TEST_F(DamagedProbeTest, Probe) {
  const char* queries = "/layers/2/probe_q";
  expect_defect("text of /probe",
                [](hid_t f) { H5Adelete_by_name(f, "/probe", "text", H5P_DEFAULT); });
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 40}) {
    expect_defect("num_tokens of /probe",
                  [&](hid_t f) { set_attribute(f, "/probe", "num_tokens", count); });
  }
  expect_defect("has shape", [](hid_t f) { set_attribute(f, "/probe", "num_tokens", 6); });
  expect_defect("has shape", [&](hid_t f) { claim(f, queries, H5T_IEEE_F32LE, {3, 4, 5, 8}); });
  expect_defect("dimensions", [&](hid_t f) { claim(f, queries, H5T_IEEE_F32LE, {4, 4, 5}); });
  expect_defect("float16 nor float32", [&](hid_t f) {
    claim(f, queries, H5T_IEEE_F64LE, {4, 4, 5, 8});
  });
  expect_defect("holds only", [&](hid_t f) {
    claim(f, queries, H5T_IEEE_F32LE, {1ull << 40, 4, 5, 8});
  });
}

TEST_F(DamagedProbeTest, Novelty) {
  const char* nll = "/tokens/nll";
  expect_defect("entries", [&](hid_t f) { claim(f, nll, H5T_IEEE_F32LE, {54}); });
  expect_defect("floating-point", [&](hid_t f) { claim(f, nll, H5T_STD_I32LE, {55}); });
  expect_defect("holds only", [&](hid_t f) { claim(f, nll, H5T_IEEE_F32LE, {1ull << 50}); });
  expect_defect("first token", [&](hid_t f) { set_value(f, nll, {0}, 1.0f); });
  expect_defect("above 1", [&](hid_t f) { set_value(f, nll, {7}, -0.5f); });
}

TEST_F(DamagedProbeTest, ValuesThatAreNotFiniteAreNotes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Validation found = check_trace(edited([&](hid_t f) {
    set_value(f, "/tokens/nll", {9}, nan);
    set_value(f, "/layers/2/probe_q", {1, 3, 4, 7}, nan);
  }));
  EXPECT_TRUE(found.defects.empty()) << found.defects.front();
  ASSERT_EQ(found.notes.size(), 2u);
  EXPECT_EQ(found.notes[0], "1 tokens have a novelty that is not finite");
  EXPECT_EQ(found.notes[1],
            "the probe queries of layer 2 hold values that are not finite in 1 chunks");
}

TEST_F(DamagedProbeTest, Lanes) {
  const char* lanes = "/runs/2/layers/0/lane_counts";
  expect_defect("which has 16 rows", [&](hid_t f) { set_value(f, lanes, {1, 2, 3}, 17); });
  expect_defect("its lane_counts has -1", [&](hid_t f) { set_value(f, lanes, {0, 0, 0}, -1); });
  expect_defect("lanes together", [&](hid_t f) {
    for (hsize_t lane = 0; lane < 8; ++lane) set_value(f, lanes, {2, 1, lane}, 1);
  });
  expect_defect("/lane_counts has shape", [&](hid_t f) {
    claim(f, lanes, H5T_STD_I32LE, {6, 4, 7});
  });
  expect_defect("/lane_counts has shape", [&](hid_t f) {
    claim(f, lanes, H5T_STD_I32LE, {5, 4, 8});
  });
  expect_defect("holds only", [&](hid_t f) { claim(f, lanes, H5T_STD_I32LE, {1ull << 40, 4, 8}); });
  expect_defect("missing", [&](hid_t f) { H5Ldelete(f, lanes, H5P_DEFAULT); });
  expect_defect("missing", [](hid_t f) { H5Ldelete(f, "/runs/2/layers/0/flags", H5P_DEFAULT); });
  expect_defect("missing", [](hid_t f) {
    for (const char* name : {"offsets", "positions", "flags"}) {
      H5Ldelete(f, (std::string("/runs/3/layers/0/") + name).c_str(), H5P_DEFAULT);
    }
  });
}

TEST_F(DamagedProbeTest, LaneRunsMayLackTheirSets) {
  const fs::path path = edited([](hid_t f) {
    for (const char* name : {"offsets", "positions", "flags"}) {
      H5Ldelete(f, (std::string("/runs/2/layers/0/") + name).c_str(), H5P_DEFAULT);
    }
  });
  EXPECT_TRUE(validate_trace(path).empty());
  const RunLayer without = TraceReader(path).read_run_layer(2, 0);
  const RunLayer with = TraceReader(sound_).read_run_layer(2, 0);
  EXPECT_EQ(without.flags, with.flags);
  EXPECT_EQ(without.offsets, with.offsets);
  EXPECT_EQ(without.lane_counts, with.lane_counts);
}

TEST_F(DamagedProbeTest, RunAttributes) {
  expect_defect("run 2 cannot be read",
                [](hid_t f) { set_attribute(f, "/runs/2", "decode", "sometimes"); });
  expect_defect("run 3 cannot be read",
                [](hid_t f) { set_attribute(f, "/runs/3", "basis_source", 3); });
  expect_defect("run 3 cannot be read",
                [](hid_t f) { set_attribute(f, "/runs/3", "basis_leakage", "yes"); });
}

}  // namespace
}  // namespace kvloupe::trace::testing
