// The datasets of foretold.h in a file that is written.
#pragma once

#include "core/trace/foretold.h"
#include "core/trace/hdf5.h"
#include "core/trace/trace_writer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::trace {

class ForetoldStorage {
 public:
  ForetoldStorage() = default;
  // Those that the header asks for; after /tokens and /chunks were made.
  ForetoldStorage(hid_t file, const TraceHeader& header);

  void write_top(int chunk_idx, const TopTokens& top);
  void write_drift(int chunk_idx, const ChunkInfo& chunk, const DriftChunk& drift);
  void write_dense_answer(std::span<const std::int32_t> ids, std::span<const std::string> texts);
  // Whether all that the header asks for was written of the chunk under way, which ends.
  bool end_chunk();

  // Every dataset with the shape that the chunks done need.
  template <typename Visit>
  void for_each_dataset(std::int32_t num_tokens, int num_chunks, const Visit& visit) const {
    using enum h5::ValueClass;
    const auto tokens = static_cast<hsize_t>(num_tokens), chunks = static_cast<hsize_t>(num_chunks);
    visit(top_.ids, Integer, {chunks, kTopTokens});
    visit(top_.log_probs, Float, {chunks, kTopTokens});
    visit(nll_, Float, {tokens});
    visit(kl_, Float, {tokens});
    visit(agrees_, Integer, {tokens});
    visit(q_, Float, {chunks, num_layers_});
    visit(k_, Float, {chunks, num_layers_});
    visit(dense_top_.ids, Integer, {chunks, kTopTokens});
    visit(dense_top_.log_probs, Float, {chunks, kTopTokens});
  }

 private:
  struct TopDatasets {
    h5::Handle ids, log_probs;  // [C, kTopTokens]
    void create(hid_t at, hsize_t chunks, const char* whose);
    void write(hsize_t chunk, const TopTokens& top) const;
  };

  hsize_t num_layers_ = 0;
  TopDatasets top_, dense_top_;
  h5::Handle nll_, kl_, agrees_;                      // [T]
  h5::Handle q_, k_;                                  // [C, recorded layers]
  h5::Handle answer_, answer_text_, answer_offsets_;  // [n], [bytes], [n+1]
  bool top_now_ = false, drift_now_ = false;
};

}  // namespace kvloupe::trace
