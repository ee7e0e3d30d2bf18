// What a kill leaves: each state that the disk goes through is readable up to the last chunk done.
#include "core/base/error.h"
#include "core/trace/hdf5/disk_file.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"
#include "tests/base/temporary_folder.h"
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace kvloupe::trace::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPage = 4096;

// The system copies a write page by page, from the first to the last, and a kill ends between two of
// them: applies `change` to the file at `path` in the same way and calls `look` before each page.
void apply_by_pages(const DiskChange& change, const fs::path& path,
                    const std::function<void()>& look) {
  look();
  for (std::uint64_t done = 0; done < change.bytes.size();) {
    const std::uint64_t at = change.offset + done;
    const std::uint64_t count = std::min(kPage - at % kPage, change.bytes.size() - done);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(change.bytes.data() + done),
               static_cast<std::streamsize>(count));
    file.close();
    done += count;
    if (done < change.bytes.size()) look();
  }
}

// Keeps a copy of the file that is written, and all states of it that `check` refuses.
class States {
 public:
  using Check = std::function<void(const TraceReader&)>;

  States(fs::path copy, Check check) : copy_(std::move(copy)), check_(std::move(check)) {
    set_disk_hook([this](const DiskChange& change) {
      fs::copy_file(change.file.path(), copy_, fs::copy_options::overwrite_existing);
      apply_by_pages(change, copy_, [this] { look(); });
      return 0;
    });
  }
  ~States() { set_disk_hook({}); }

  std::size_t chunks() const { return chunks_; }
  int seen() const { return seen_; }
  const std::vector<std::string>& unreadable() const { return unreadable_; }

 private:
  void look() {
    ++seen_;
    try {
      const TraceReader reader(copy_);
      const TraceInfo& info = reader.info();
      if (info.chunks.size() < chunks_ || !info.warnings.empty())
        throw input_error(std::to_string(info.chunks.size()), "chunks are left",
                          info.warnings.empty() ? "" : info.warnings.front());
      chunks_ = info.chunks.size();
      check_(reader);
    } catch (const Error& error) {
      unreadable_.push_back(std::to_string(seen_) + ": " + error.what());
    }
  }

  fs::path copy_;
  Check check_;
  std::size_t chunks_ = 0;
  int seen_ = 0;
  std::vector<std::string> unreadable_;
};

TEST(WriteOrder, EveryStateOfAFileIsReadable) {
  const TemporaryFolder folder;
  ReferenceTrace reference = make_reference(DType::F16);
  add_probe_and_lanes(reference);
  TraceWriter writer(folder / "t.h5", reference.header, false);
  States states(folder / "copy.h5", [](const TraceReader& reader) {
    for (const RunInfo& run : reader.info().runs)
      for (const int layer : reader.info().layers) reader.read_run(run.id, layer);
  });
  write_chunks(writer, reference, static_cast<int>(reference.chunks.size()));
  writer.finish(reference.generated, true);
  EXPECT_EQ(states.chunks(), reference.chunks.size());
  EXPECT_GT(states.seen(), 100);
  EXPECT_EQ(states.unreadable(), std::vector<std::string>{});
}

// The probe's queries are one storage chunk a head and chunk: their tree is of several nodes soon,
// each longer than some page has room for.
TEST(WriteOrder, TreesThatGrowAreReadableInEveryState) {
  const TemporaryFolder folder;
  ReferenceTrace reference = make_reference(DType::F32);
  TraceHeader header = reference.header;
  header.layers = {0};
  header.runs.clear();
  header.spans.clear();
  header.store = {Part::Probe, Part::Loss};
  header.probe_text = "?";
  header.probe_len = 1;
  header.probe_ids = {1};
  header.max_tokens = header.max_chunks = 60;
  TraceWriter writer(folder / "t.h5", header, false);
  const std::size_t values = std::size_t(header.model.num_q_heads) * header.model.head_dim;
  States states(folder / "copy.h5", [&](const TraceReader& reader) {
    for (std::size_t c = 0; c < reader.info().chunks.size(); ++c) {
      if (reader.read_probe(0, static_cast<int>(c)) != std::vector<float>(values, c + 1.0f))
        throw input_error("queries of chunk " + std::to_string(c), "are others", "");
    }
  });
  for (int c = 0; c < header.max_chunks; ++c) {
    const ChunkInfo chunk{.begin = c, .length = 1, .phase = Phase::Prefill};
    const std::vector<float> probe(values, c + 1.0f);
    const float novelty = 1;
    writer.write_layer(chunk, {.layer = 0});
    writer.write_probe(chunk, {.layer = 0, .q = probe.data()});
    writer.write<float>(Field::Nll, chunk, {&novelty, 1});
    writer.write<float>(Field::ChunkSeconds, chunk, {&novelty, 1});
    writer.end_chunk(chunk, std::vector<std::int32_t>{1}, {"a"});
  }
  writer.finish({}, true);
  EXPECT_EQ(states.chunks(), 60u);
  EXPECT_EQ(states.unreadable(), std::vector<std::string>{});
}

}  // namespace
}  // namespace kvloupe::trace::testing
