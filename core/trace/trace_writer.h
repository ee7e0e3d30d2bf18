// Writes a trace chunk by chunk. The file grows as "T.h5.part" and is flushed after each chunk, so
// a killed capture leaves all chunks done; finish() renames it to its final name.
#pragma once

#include "core/base/cancel.h"
#include "core/trace/capture_request.h"
#include "core/trace/fields/fields.h"
#include "core/trace/next_tokens.h"
#include "core/trace/runs/selection_record.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::trace {

struct TraceHeader {
  ModelInfo model;
  LoopMode mode = LoopMode::OpenLoop;
  DType dtype = DType::F16;
  std::vector<int> layers;      // to be captured, ascending
  std::int32_t max_tokens = 0;  // prompt + new tokens: datasets are allocated for these
  std::int32_t max_chunks = 0;
  StoredParts store = {Part::Qkv, Part::Lse};
  std::string probe_text;  // with Part::Probe, of probe_len tokens
  int probe_len = 0;
  std::vector<std::int32_t> probe_ids;  // [probe_len], or empty where they are not known
  // As in TraceInfo, with Part::SomeQueries: what is copied alone can have it.
  std::vector<std::int64_t> query_offsets;
  std::vector<RunInfo> runs;  // in the order given; a closed-loop run first
  std::vector<TokenSpan> spans;
  CaptureRequest request;  // without a prompt: none is kept, and the capture cannot be resumed
};

// What one layer adds for one chunk. Arrays are borrowed for the call. q, k, v in the trace's
// dtype: `const std::uint16_t*` IEEE half bits for F16, `const float*` for F32, always row-major
// and contiguous: q [num_q_heads, length, head_dim], k and v [num_kv_heads, length, head_dim].
struct LayerChunk {
  int layer = 0;
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const float* lse = nullptr;       // [num_q_heads, length]
  const float* key_mass = nullptr;  // [num_kv_heads, begin+length]; prefill chunks only
};

// One run's selections of one layer for one chunk.
struct RunChunk {
  int run = 0;
  int layer = 0;
  CellRecord record;
  // Eviction: per row the positions that died after this chunk.
  std::vector<std::vector<std::int32_t>> evicted;
};

// What infinipot needs beside q and k: probe queries of one layer after a prefill chunk.
struct ProbeChunk {
  int layer = 0;
  const void* q = nullptr;  // [num_q_heads, probe_len, head_dim] in the trace's dtype
};

// The beginning of a trace, of which a new one is made: the layers that the new one's header names,
// the first chunks, and some runs, one for each of the header's.
struct TraceSlice {
  std::filesystem::path trace;
  int num_chunks = 0;
  std::vector<int> runs;  // by the numbers in info().runs, those of a sidecar too
};

// From nothing, or from the chunks done in the .part that a capture with the same header left.
enum class Begin { Anew, Resumed };

class TraceWriter {
 public:
  // Refuses (Error{Input}) when `path` exists and not `overwrite`. A resumed file is written anew: for
  // a moment the chunks done take their room twice.
  TraceWriter(const std::filesystem::path& path, const TraceHeader& header, bool overwrite,
              Begin begin = Begin::Anew);
  ~TraceWriter();  // without finish(): leaves the .part file with the chunks done

  // Before the first chunk: these have then been written. An id below 0 becomes 0.
  void copy(const TraceSlice& from, const WorkContext& context = {});

  // Call order for chunk c: write_layer, write_run and what else the header asks for (write_probe in
  // prefill chunks alone) in any order, then end_chunk. Tokens are those of the chunk; texts are their
  // raw bytes. end_chunk flushes and raises chunks_done.
  void write_layer(const ChunkInfo& chunk, const LayerChunk& data);
  void write_run(const ChunkInfo& chunk, const RunChunk& data);
  void write_probe(const ChunkInfo& chunk, const ProbeChunk& data);
  // What stands alone (FieldInfo), for each token of the chunk or for the chunk. T is the field's element: float,
  // std::int32_t.
  template <typename T>
  void write(Field field, const ChunkInfo& chunk, std::span<const T> values);
  void write_top(const ChunkInfo& chunk, const TopTokens& top);
  void write_drift(const ChunkInfo& chunk, const DriftChunk& drift);
  // What the dense model samples when it is left alone; before finish().
  void write_dense_answer(std::span<const std::int32_t> ids, std::span<const std::string> texts);
  void end_chunk(const ChunkInfo& chunk, std::span<const std::int32_t> ids,
                 const std::vector<std::string>& texts);
  // A trace with a request alone; before finish().
  void write_speed(const CaptureSpeed& speed);
  // Trims the datasets to what was written, sets `complete` last and renames the file, once it is
  // proved to be whole and ours.
  void finish(std::span<const std::int32_t> generated, bool complete);
  // Whether all is in the .part, and what finish() failed at was its name alone.
  bool lacks_name_alone() const;

 private:
  void abandon();

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends one open-loop run to the sidecar "T.h5.runs.h5" of the trace (layout of /runs plus the
// trace's hash); layers ascending, each with all chunks. Returns the run's number as info().runs will
// show it.
int append_sidecar_run(const std::filesystem::path& trace_path, const RunInfo& run,
                       const std::vector<int>& layers, const std::vector<LayerRecord>& data);

}  // namespace kvloupe::trace
