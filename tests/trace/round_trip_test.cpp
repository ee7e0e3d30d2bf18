// What is written is read back, bit for bit; what is unfinished is read up to its last chunk.
#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "tests/trace/damaged_file.h"
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace kvloupe::trace::testing {
namespace {

void expect_rows(const TraceReader& reader, const ReferenceTrace& reference) {
  const auto& model = reader.info().model;
  const auto dim = static_cast<std::size_t>(model.head_dim);
  const std::int32_t tokens = reader.info().num_tokens;
  const auto check = [&](Stored what, const std::vector<float>& expected, int layer, int heads) {
    std::vector<float> rows(static_cast<std::size_t>(tokens) * dim);
    for (int head = 0; head < heads; ++head) {
      reader.read_rows(what, layer, head, 0, tokens, rows.data());
      const auto begin = expected.begin() + std::ptrdiff_t(head * reference.num_tokens() * dim);
      ASSERT_TRUE(std::equal(rows.begin(), rows.end(), begin))
          << "layer " << layer << " head " << head;
    }
  };
  for (std::size_t index = 0; index < reference.layers.size(); ++index) {
    const int layer = reference.header.layers[index];
    const auto& expected = reference.layers[index];
    check(Stored::Q, expected.q, layer, model.num_q_heads);
    check(Stored::K, expected.k, layer, model.num_kv_heads);
    check(Stored::V, expected.v, layer, model.num_kv_heads);
    std::vector<float> lse(tokens);
    for (int head = 0; head < model.num_q_heads; ++head) {
      reader.read_lse(layer, head, 0, tokens, lse.data());
      const auto begin = expected.lse.begin() + std::ptrdiff_t{head} * reference.num_tokens();
      ASSERT_TRUE(std::equal(lse.begin(), lse.end(), begin));
    }
    for (std::size_t chunk = 0; chunk < reader.info().chunks.size(); ++chunk) {
      const auto mass = reader.read_key_mass(layer, static_cast<int>(chunk));
      ASSERT_EQ(mass.has_value(), reader.info().chunks[chunk].phase == Phase::Prefill);
      if (mass) {
        ASSERT_EQ(*mass, expected.key_mass[chunk]);
      }
    }
  }
}

void expect_runs(const TraceReader& reader, const ReferenceTrace& reference) {
  const auto chunks = reader.info().chunks.size();
  for (std::size_t run = 0; run < reference.runs.size(); ++run) {
    for (std::size_t index = 0; index < reference.layers.size(); ++index) {
      const RunLayer layer =
          reader.read_run_layer(static_cast<int>(run), reference.header.layers[index]);
      ASSERT_EQ(layer.num_rows, 2);
      ASSERT_EQ(layer.flags.size(), chunks * 2);
      ASSERT_EQ(layer.offsets.size(), chunks * 2 + 1);
      const LayerRecord record =
          reader.read_run(static_cast<int>(run), reference.header.layers[index]);
      std::vector<std::uint16_t> evict(std::size_t(reader.info().num_tokens) * 2, kAlive);
      for (std::size_t c = 0; c < chunks; ++c) {
        const RunChunk& expected = reference.runs[run][index][c];
        EXPECT_EQ(record.cells[c].rows, expected.record.rows);
        EXPECT_EQ(record.cells[c].dense_reason, expected.record.dense_reason);
        EXPECT_EQ(record.cells[c].num_candidates, expected.record.num_candidates);
        for (std::size_t row = 0; row < 2; ++row) {
          const std::size_t cell = c * 2 + row;
          EXPECT_EQ(layer.flags[cell], expected.record.dense_reason ? kCellDenseFallback : 0);
          EXPECT_EQ(std::vector<std::int32_t>(layer.positions.begin() + layer.offsets[cell],
                                              layer.positions.begin() + layer.offsets[cell + 1]),
                    expected.record.dense_reason ? std::vector<std::int32_t>{}
                                                 : expected.record.rows[row].positions);
          if (run == 1) {
            for (const auto dead : expected.evicted[row]) {
              evict[row * reader.info().num_tokens + dead] = static_cast<std::uint16_t>(c);
            }
          }
        }
      }
      EXPECT_EQ(layer.evict_chunk, run == 1 ? evict : std::vector<std::uint16_t>{});
    }
  }
}

class RoundTripTest : public ::testing::TestWithParam<DType> {};

TEST_P(RoundTripTest, EverythingIsReadBack) {
  const TemporaryFolder folder;
  const auto reference = make_reference(GetParam());
  write_trace(folder / "t.h5", reference);
  EXPECT_FALSE(fs::exists(folder / "t.h5.part"));

  const TraceReader reader(folder / "t.h5");
  const TraceInfo& info = reader.info();
  EXPECT_TRUE(info.warnings.empty()) << info.warnings.front();
  EXPECT_EQ(info.schema_version, "1.14");
  EXPECT_TRUE(info.complete);
  EXPECT_EQ(info.mode, LoopMode::OpenLoop);
  EXPECT_EQ(info.dtype, GetParam());
  EXPECT_EQ(info.num_tokens, 55);
  EXPECT_EQ(info.layers, (std::vector<int>{0, 2}));
  EXPECT_EQ(info.bytes, fs::file_size(folder / "t.h5"));
  EXPECT_EQ(info.model.name, "tiny");
  EXPECT_EQ(info.model.rope_pairing, RopePairing::Interleaved);
  EXPECT_EQ(info.model.softmax_scale, 0.35);
  EXPECT_EQ(info.model.compute, ComputeType::Bf16);
  EXPECT_EQ(info.model.layer_types.size(), 3u);
  ASSERT_EQ(info.chunks.size(), 6u);
  EXPECT_EQ(info.chunks[3].begin, 48);
  EXPECT_EQ(info.chunks[4].phase, Phase::Decode);
  ASSERT_EQ(info.spans.size(), 2u);
  EXPECT_EQ(info.spans[1].name, "question");
  EXPECT_EQ(info.spans[1].end, 53);
  EXPECT_EQ(info.generated, reference.generated);
  ASSERT_EQ(info.runs.size(), 2u);
  EXPECT_EQ(info.runs[1].method, reference.header.runs[1].method);
  EXPECT_EQ(info.runs[1].state_action, StateAction::Eviction);
  EXPECT_EQ(reader.token_ids(), reference.ids);
  EXPECT_EQ(reader.token_texts(), reference.texts);
  expect_rows(reader, reference);
  expect_runs(reader, reference);
}

INSTANTIATE_TEST_SUITE_P(DTypes, RoundTripTest, ::testing::Values(DType::F16, DType::F32));

TEST(TraceInfoTest, TokensFindTheirChunk) {
  const auto reference = make_reference(DType::F16);
  TraceInfo info;
  info.chunks = reference.chunks;
  EXPECT_EQ(info.chunk_of_token(0), 0);
  EXPECT_EQ(info.chunk_of_token(15), 0);
  EXPECT_EQ(info.chunk_of_token(16), 1);
  EXPECT_EQ(info.chunk_of_token(54), 5);
  EXPECT_EQ(info.chunk_of_token(55), -1);
  EXPECT_EQ(info.chunk_of_token(-1), -1);
}

// What h5web and silx follow from the root to a plot.
TEST(WriterTest, PlotsAreDescribedForOtherPrograms) {
  const TemporaryFolder folder;
  write_trace(folder / "t.h5", make_reference(DType::F16));
  const h5::Lock lock;
  const h5::Handle file = h5::open_file_for_reading((folder / "t.h5").string());
  const h5::Handle layers = h5::open_group(file.get(), "/layers");
  EXPECT_EQ(h5::string_attribute(file.get(), "default"), "layers");
  EXPECT_EQ(h5::string_attribute(layers.get(), "default"), "0");
  for (const std::string& plot : {std::string("/layers/0"), std::string("/runs/0")}) {
    const h5::Handle group = h5::open_group(file.get(), plot);
    EXPECT_EQ(h5::string_attribute(group.get(), "NX_class"), "NXdata");
    const auto signal = h5::string_attribute(group.get(), "signal");
    ASSERT_TRUE(signal.has_value());
    const auto data = h5::Dataset::open(group.get(), *signal, h5::ValueClass::Float, 2);
    EXPECT_TRUE(h5::string_attribute(data.id(), "units").has_value());
    const auto axes = h5::strings_attribute(group.get(), "axes");
    ASSERT_TRUE(axes.has_value());
    ASSERT_EQ(axes->size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      if ((*axes)[i] == ".") continue;
      const auto axis = h5::Dataset::open(group.get(), (*axes)[i], h5::ValueClass::Integer, 1);
      EXPECT_EQ(axis.dims()[0], data.dims()[i]);
    }
  }
  // The sliding window of run 0 keeps 8 keys once 8 are past.
  const auto kept = h5::Dataset::open(file.get(), "/runs/0/kept", h5::ValueClass::Float, 2);
  std::vector<float> column(6);
  kept.read(H5T_NATIVE_FLOAT, {0, 0}, {6, 1}, column.data());
  EXPECT_EQ(column, (std::vector<float>{0, 8, 8, 8, 8, 8}));
}

TEST(WriterTest, AnInterruptedCaptureLeavesItsChunks) {
  const TemporaryFolder folder;
  const auto reference = make_reference(DType::F16);
  {
    TraceWriter writer(folder / "t.h5", reference.header, false);
    write_chunks(writer, reference, 3);
    // The fourth chunk is under way.
    write_layer_of(writer, reference, 3, 0);
    writer.write_run(reference.chunks[3], reference.runs[1][0][3]);
    writer.finish({}, false);
  }
  const TraceReader reader(folder / "t.h5");
  EXPECT_FALSE(reader.info().complete);
  EXPECT_TRUE(reader.info().warnings.empty());
  EXPECT_EQ(reader.info().chunks.size(), 3u);
  EXPECT_EQ(reader.info().num_tokens, 48);
  EXPECT_EQ(reader.token_texts().size(), 48u);
  expect_rows(reader, reference);
  expect_runs(reader, reference);
}

// A child writes and kills itself: once between chunks, once in the middle of one.
TEST(WriterTest, AKilledCaptureLeavesItsChunksInThePartFile) {
  const auto reference = make_reference(DType::F16);
  for (const bool in_the_middle : {false, true}) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TraceWriter writer(folder / "t.h5", reference.header, false);
      write_chunks(writer, reference, 3);
      if (in_the_middle) {
        write_layer_of(writer, reference, 3, 0);
        writer.write_run(reference.chunks[3], reference.runs[0][0][3]);
        writer.write_run(reference.chunks[3], reference.runs[1][0][3]);
      }
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(fs::exists(folder / "t.h5"));

    const TraceReader reader(folder / "t.h5.part");
    EXPECT_FALSE(reader.info().complete);
    EXPECT_TRUE(reader.info().warnings.empty());
    EXPECT_EQ(reader.info().chunks.size(), 3u);
    EXPECT_EQ(reader.token_ids().size(), 48u);
    expect_rows(reader, reference);
    expect_runs(reader, reference);
  }
}

// Another process holds the file open and goes on writing.
TEST(WriterTest, AGrowingTraceCanBeLookedAt) {
  const TemporaryFolder folder;
  const auto reference = make_reference(DType::F16);
  int ready[2];
  int leave[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(leave), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    TraceWriter writer(folder / "t.h5", reference.header, false);
    write_chunks(writer, reference, 2);
    write_layer_of(writer, reference, 2, 0);
    const bool told = write(ready[1], &byte, 1) == 1 && read(leave[0], &byte, 1) == 1;
    _exit(told ? 0 : 1);
  }
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  {
    const TraceReader reader(folder / "t.h5.part");
    EXPECT_EQ(reader.info().chunks.size(), 2u);
    expect_rows(reader, reference);
    expect_runs(reader, reference);
  }
  ASSERT_EQ(write(leave[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int descriptor : {ready[0], ready[1], leave[0], leave[1]}) close(descriptor);
}

TEST(WriterTest, WithoutAChunkNothingIsLeft) {
  const TemporaryFolder folder;
  { const TraceWriter writer(folder / "t.h5", make_reference(DType::F16).header, false); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(WriterTest, DoesNotOverwriteUnasked) {
  const TemporaryFolder folder;
  const auto reference = make_reference(DType::F16);
  write_trace(folder / "t.h5", reference);
  EXPECT_THROW(TraceWriter(folder / "t.h5", reference.header, false), Error);
  EXPECT_TRUE(TraceReader(folder / "t.h5").info().complete);
  EXPECT_NO_THROW(write_trace(folder / "t.h5", reference, true));
  // What a killed capture left is not dropped unasked either.
  std::ofstream(folder / "u.h5.part") << "x";
  EXPECT_THROW(TraceWriter(folder / "u.h5", reference.header, false), Error);
  EXPECT_TRUE(fs::exists(folder / "u.h5.part"));
}

TEST(WriterTest, SpeedsAreReadBackAndWhatIsNoneIsLeftOut) {
  const TemporaryFolder folder;
  ReferenceTrace reference = make_reference(DType::F16);
  write_trace(folder / "without.h5", reference);
  EXPECT_FALSE(TraceReader(folder / "without.h5").info().speed);

  reference.header.request = {"smollm2", 16, 2, "cuda:0", {Part::Qkv}, {}, {1, 2, 3}};
  {
    TraceWriter writer(folder / "t.h5", reference.header, false);
    write_chunks(writer, reference, static_cast<int>(reference.chunks.size()));
    writer.write_speed({{1250.5, 812.25, 40}, ModelSpeed{1000, 1024, 0}});
    writer.finish({}, true);
  }
  EXPECT_EQ(TraceReader(folder / "t.h5").capture_request(), reference.header.request);
  const TraceInfo info = TraceReader(folder / "t.h5").info();
  EXPECT_EQ(info.warnings, std::vector<std::string>{});
  ASSERT_TRUE(info.speed && info.speed->dense);
  EXPECT_EQ(info.speed->model.ttft_ms, 1250.5);
  EXPECT_EQ(info.speed->model.prefill_tokens_per_s, 812.25);
  EXPECT_EQ(info.speed->model.decode_tokens_per_s, 40);
  EXPECT_EQ(info.speed->dense->ttft_ms, 1000);
  EXPECT_EQ(info.speed->dense->prefill_tokens_per_s, 1024);
  EXPECT_EQ(text_of(info.speed->model),
            "time to first token 1.3 s, prefill 812.2 tokens/s, decode 40.0 tokens/s");
  EXPECT_EQ(text_of(*info.speed->dense), "time to first token 1.0 s, prefill 1024.0 tokens/s");

  const hid_t file = H5Fopen((folder / "t.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  set_attribute(file, "/capture", "prefill_tokens_per_s", -1.0);
  H5Fclose(file);
  const TraceInfo damaged = TraceReader(folder / "t.h5").info();
  EXPECT_FALSE(damaged.speed);
  ASSERT_EQ(damaged.warnings.size(), 1u);
  EXPECT_NE(damaged.warnings[0].find("prefill_tokens_per_s"), std::string::npos);
}

TEST(WriterTest, TwoCapturesDoNotWriteOneFile) {
  const TemporaryFolder folder;
  const auto reference = make_reference(DType::F16);
  TraceWriter first(folder / "t.h5", reference.header, false);
  EXPECT_THROW(TraceWriter(folder / "t.h5", reference.header, true), Error);
  write_chunks(first, reference, 6);
  first.finish({}, true);
  EXPECT_TRUE(TraceReader(folder / "t.h5").info().complete);
}

TEST(WriterTest, AnUnusableTargetIsASentenceAndLeavesNothing) {
  const TemporaryFolder folder;
  auto header = make_reference(DType::F16).header;
  EXPECT_THROW(TraceWriter(folder / "none/t.h5", header, false), Error);
  EXPECT_THROW(TraceWriter(folder.path(), header, true), Error);
  header.max_tokens = 1 << 30;
  header.model.head_dim = 1 << 14;
  try {
    const TraceWriter writer(folder / "t.h5", header, false);
    FAIL() << "a trace of 1 PiB fits the disk?";
  } catch (const Error& error) {
    EXPECT_NE(error.why().find("free"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// Files may not grow beyond a limit, as on a full disk.
TEST(WriterTest, AFullDiskIsASentenceAndLeavesTheChunksDone) {
  const TemporaryFolder folder;
  const auto reference = make_reference(DType::F16);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    int result = 1;
    {
      TraceWriter writer(folder / "t.h5", reference.header, false);
      write_chunks(writer, reference, 3);
      const rlimit none = {4096, 4096};
      setrlimit(RLIMIT_FSIZE, &none);
      try {
        write_layer_of(writer, reference, 3, 0);
      } catch (const Error& error) {
        result = error.why().find("too large") != std::string::npos ? 0 : 2;
      }
    }
    _exit(result);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const TraceReader reader(folder / "t.h5.part");
  EXPECT_EQ(reader.info().chunks.size(), 3u);
  expect_rows(reader, reference);
}

TEST(WriterTest, AFailedStartLeavesNothing) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little = {100000, 100000};
    setrlimit(RLIMIT_FSIZE, &little);
    try {
      const TraceWriter writer(folder / "t.h5", make_reference(DType::F16).header, false);
    } catch (const Error&) {
      _exit(0);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(WriterTest, PartsThatWereNotAskedForAreAbsent) {
  const TemporaryFolder folder;
  auto reference = make_reference(DType::F16);
  reference.header.store.set(Part::Lse, false);
  reference.header.store.set(Part::Mass, false);
  reference.header.runs.clear();
  reference.header.spans.clear();
  write_trace(folder / "t.h5", reference);
  const TraceReader reader(folder / "t.h5");
  EXPECT_TRUE(reader.info().warnings.empty());
  EXPECT_FALSE(reader.has_lse(0));
  EXPECT_FALSE(reader.read_key_mass(0, 0).has_value());
  EXPECT_TRUE(reader.info().runs.empty());
  EXPECT_TRUE(reader.info().spans.empty());
  float value = 0;
  EXPECT_THROW(reader.read_lse(0, 0, 0, 1, &value), Error);
  EXPECT_THROW(reader.read_run_layer(0, 0), Error);
}

TEST(ReaderTest, RefusesWhatIsNotThere) {
  const TemporaryFolder folder;
  write_trace(folder / "t.h5", make_reference(DType::F16));
  const TraceReader reader(folder / "t.h5");
  std::vector<float> out(8 * 64);
  EXPECT_THROW(reader.read_rows(Stored::Q, 1, 0, 0, 1, out.data()), Error);  // not captured
  EXPECT_THROW(reader.read_rows(Stored::Q, 0, 4, 0, 1, out.data()), Error);  // no such head
  EXPECT_THROW(reader.read_rows(Stored::K, 0, 2, 0, 1, out.data()), Error);
  EXPECT_THROW(reader.read_rows(Stored::K, 0, 0, 0, 56, out.data()), Error);  // beyond the end
  EXPECT_THROW(reader.read_rows(Stored::K, 0, 0, -1, 1, out.data()), Error);
  EXPECT_THROW(reader.read_rows(Stored::K, 0, 0, 3, 2, out.data()), Error);
  EXPECT_THROW(reader.read_key_mass(0, 6), Error);
  EXPECT_THROW(reader.read_run_layer(2, 0), Error);
  EXPECT_THROW(reader.read_run_layer(0, 1), Error);
  EXPECT_NO_THROW(reader.read_rows(Stored::V, 2, 1, 55, 55, out.data()));
}

}  // namespace
}  // namespace kvloupe::trace::testing
