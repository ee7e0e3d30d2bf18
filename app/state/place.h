// Where the user looks: which trace, layer, head, chunk, query and keys. Questions hold a place and
// say by its parts what they depend on.
#pragma once

#include "app/state/open_trace.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace kvloupe::state {

struct Place {
  TracePtr trace;  // null: nothing is open
  int layer = 0;
  int q_head = 0;
  int chunk = 0;
  std::int32_t query = -1;      // absolute position, -1: all queries of the chunk
  int window = 0;               // queries up to the chunk's end that rank keys, 0: the chunk
  std::int32_t key_begin = -1;  // half-open key span, -1: none
  std::int32_t key_end = -1;
  bool watches_nothing =
      false;                   // no keys are chosen, and the trace's needle is not followed either
  std::string device = "cpu";  // where it is computed, as device::open_device() takes it

  bool operator==(const Place&) const = default;
  bool empty() const { return trace == nullptr; }
  const trace::TraceInfo& info() const { return trace->info(); }
  const trace::ChunkInfo& chunk_info() const {
    return info().chunks[static_cast<std::size_t>(chunk)];
  }
  int kv_head() const { return q_head / info().model.gqa_group_size(); }
  bool has_keys() const { return key_begin >= 0 && key_end > key_begin; }
  // The queries that `window` means: half-open, ending with the chunk.
  std::pair<std::int32_t, std::int32_t> query_window() const {
    const trace::ChunkInfo& here = chunk_info();
    return {window == 0 ? here.begin : std::max(0, here.end() - window), here.end()};
  }

  // Parts of keys, each with all before it: "t3|L11|h5|c12", on another device "t3|@sim|L11|h5|c12".
  std::string trace_key() const {
    return device == "cpu" ? trace->key() : trace->key() + "|@" + device;
  }
  std::string layer_key() const { return trace_key() + "|L" + std::to_string(layer); }
  std::string head_key() const { return layer_key() + "|h" + std::to_string(q_head); }
  std::string cell_key() const { return head_key() + "|c" + std::to_string(chunk); }
};

// "chunk", "decode step"
const char* step_word(trace::Phase phase);
// "chunk 12", "decode step 17"
std::string chunk_name(const trace::TraceInfo& info, int chunk);
// What an axis of all chunks counts: "chunk", "chunk, decode step from 16 on"
std::string chunk_axis(const trace::TraceInfo& info);
// Of a half-open range: "key 1,173", "keys 1,173 to 1,180"
std::string range_words(const char* one, const char* several, std::int64_t begin, std::int64_t end);

// The span to follow: the keys chosen, else the trace's needle itself before its parts
// ("needle_key" and the like), else nothing.
std::optional<trace::TokenSpan> watched_span(const Place& place);
// The same by the name that the trace has for just these keys, if it has one.
std::optional<trace::TokenSpan> named_watched_span(const Place& place);

}  // namespace kvloupe::state
