// A small trace with known values, and plain loops for what is derived from them.
#pragma once

#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"
#include "tests/base/temporary_folder.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::trace::testing {

// Everything a trace of six chunks (four of prefill, two of decode) holds, kept in memory.
struct ReferenceTrace {
  TraceHeader header;
  std::vector<ChunkInfo> chunks;
  std::vector<std::int32_t> ids;
  std::vector<std::string> texts;
  std::vector<std::int32_t> generated;
  // Per captured layer, fp32 values that are exact in fp16: [heads, T, head_dim].
  struct Layer {
    std::vector<float> q, k, v;
    std::vector<float> lse;                    // [num_q_heads, T]
    std::vector<std::vector<float>> key_mass;  // per chunk, [num_kv_heads, end]; empty in decode
    std::vector<std::vector<float>> probe_q;   // per chunk, [num_q_heads, probe_len, head_dim]
  };
  std::vector<Layer> layers;
  std::vector<float> novelty;  // [T], with a probe
  // [run][layer index][chunk]
  std::vector<std::vector<std::vector<RunChunk>>> runs;

  std::int32_t num_tokens() const { return chunks.back().end(); }
};

ReferenceTrace make_reference(DType dtype);
// Adds a probe of five tokens and two lane methods: run 2 drops no key, run 3 evicts as run 1 does.
void add_probe_and_lanes(ReferenceTrace& reference);
// Adds two runs of a block method after those there are: blocks of 6 tokens, masks by a rule of
// thumb, the second with tables and rows of single query heads.
void add_blocks(ReferenceTrace& reference);
// Whether query head `head` keeps the key block in the masks of add_blocks.
bool keeps_block(const ChunkInfo& chunk, int layer, int head, int query_block, int block);
// All masks of a chunk as a trace has them, without the help of what packs them.
std::vector<std::uint8_t> packed_by_hand(const ChunkInfo& chunk, int layer);
// Writes the first `num_chunks` chunks without finishing.
void write_chunks(TraceWriter& writer, const ReferenceTrace& reference, int num_chunks);
void write_layer_of(TraceWriter& writer, const ReferenceTrace& reference, int chunk, int index);
void write_probe_of(TraceWriter& writer, const ReferenceTrace& reference, int chunk, int index);
void write_trace(const std::filesystem::path& path, const ReferenceTrace& reference,
                 bool overwrite = false);

// Asks for every part of a file. Errors are answers here but for our own bugs; anything else escapes.
void read_everything(const std::filesystem::path& path);

}  // namespace kvloupe::trace::testing
