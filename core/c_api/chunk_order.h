// In which order a selector may be given chunks: each layer all of them, one after the other, and no layer before an earlier one
// that takes part. So both a live model (all layers of a chunk) and a replay (all chunks of a layer) may call.
#pragma once

#include "core/trace/trace_types.h"

#include <cstdint>
#include <map>
#include <vector>

namespace kvloupe::c_api {

class ChunkOrder {
 public:
  explicit ChunkOrder(std::int64_t past = 0, std::int64_t first_chunk = 0)
      : begin_(past), first_chunk_(first_chunk) {}

  struct Chunk {
    std::int64_t past = 0, length = 0;
    trace::Phase phase = trace::Phase::Prefill;
  };
  // Throws Error{Usage} where it is not this chunk's turn in this layer.
  void check(int layer, const Chunk& chunk) const;
  // Notes a chunk that check() let pass.
  void note(int layer, const Chunk& chunk);

  // The number of the layer's next chunk.
  std::int64_t next_chunk(int layer) const { return first_chunk_ + num_done(layer); }
  bool begins(int layer) const { return num_done(layer) == 0; }
  // Whether `other`, whose set `layer` reuses, has not yet taken the chunk that is next in `layer`.
  bool lacks(int other, int layer) const { return num_done(other) <= num_done(layer); }

 private:
  std::int64_t num_done(int layer) const {
    const auto found = done_.find(layer);
    return found == done_.end() ? 0 : found->second;
  }
  std::int64_t begin_, first_chunk_;
  std::vector<Chunk> chunks_;         // of the layer that is furthest
  std::map<int, std::int64_t> done_;  // by layer: how many it has taken
};

}  // namespace kvloupe::c_api
