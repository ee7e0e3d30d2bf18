// Where the user looks: which trace, layer, head, chunk, query and keys. Questions hold a place and
// say by its parts what they depend on.
#pragma once

#include "app/state/open_trace.h"
#include "core/device/default_device.h"
#include "core/trace/key_set.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

// Parts of a place: what an answer depends on, and what a view follows.
struct At {
  enum Part : unsigned {
    Trace = 0,
    Layer = 1,
    KvHead = 2,
    QHead = 4,
    Chunk = 8,
    Query = 16,
    Window = 32,
    Keys = 64,  // those watched
    Head = Layer | QHead,
    Cell = Head | Chunk,
  };
};
using PlaceParts = unsigned;

struct Place {
  TracePtr trace;  // null: nothing is open
  int layer = 0;
  int q_head = 0;
  int chunk = 0;
  std::int32_t query = -1;  // absolute position, -1: all queries of the chunk
  // Several that were picked together, `query` among them; empty: that one alone.
  trace::KeySet queries = {};
  int window = 0;           // queries up to the chunk's end that rank keys, 0: the chunk
  trace::KeySet keys = {};  // chosen to be watched
  bool watches_nothing =
      false;  // no keys are chosen, and the trace's needle is not followed either
  std::string device = device::kDefault;  // where it is computed

  bool operator==(const Place&) const = default;
  bool empty() const { return trace == nullptr; }
  const trace::TraceInfo& info() const { return trace->info(); }
  const trace::ChunkInfo& chunk_info() const {
    return info().chunks[static_cast<std::size_t>(chunk)];
  }
  int kv_head() const { return q_head / info().model.gqa_group_size(); }
  bool has_keys() const { return !keys.empty(); }
  bool has_key(std::int32_t key) const { return keys.is(key, key + 1); }  // and no other
  // Those of the chunk that are looked at, counted from its begin: the picked ones, else the one.
  std::vector<std::int32_t> looked_at() const;
  // The queries that `window` means: half-open, ending with the chunk.
  std::pair<std::int32_t, std::int32_t> query_window() const {
    const trace::ChunkInfo& here = chunk_info();
    return {window == 0 ? here.begin : std::max(0, here.end() - window), here.end()};
  }

  // These parts of it and the trace, for keys: "t3|L11|h5|c12", on another device "t3|@sim|L11|h5|c12".
  std::string key(PlaceParts parts) const;
  std::string trace_key() const { return key(At::Trace); }
  std::string layer_key() const { return key(At::Layer); }
  std::string head_key() const { return key(At::Head); }
  std::string cell_key() const { return key(At::Cell); }
};

// As --goto names them: "layer", "q_head", "kv_head" (where one counts the other does), "chunk", "query" (and with it
// "queries"), "window", "key".
std::vector<std::string> coordinates_of(PlaceParts parts);

// "chunk", "decode step"
const char* step_word(trace::Phase phase);
// "chunk 12", "decode step 17"
std::string chunk_name(const trace::TraceInfo& info, int chunk);
// What an axis of all chunks counts: "chunk", "chunk, decode step from 16 on"
std::string chunk_axis(const trace::TraceInfo& info);
// Of a half-open range: "key 1,173", "keys 1,173 to 1,180"
std::string range_words(const char* one, const char* several, std::int64_t begin, std::int64_t end);
// "key 1,173", "keys 1,173 to 1,180", "12 picked keys" where they are not one range
std::string keys_words(const trace::KeySet& keys);
inline constexpr const char* kPickedKeys = " picked keys";

// The keys to follow: those chosen, else the trace's needle itself before its parts ("needle_key" and the
// like), else nothing. They have the name that the trace gives to just these keys, else their positions.
std::optional<trace::NamedKeys> watched_keys(const Place& place);
// Whether the token belongs to a span of the trace that is called "question".
bool in_question(const Place& place, std::int32_t position);
// The name in quotes; keys that have none by their positions: "key 1,173".
std::string watched_words(const Place& place);

}  // namespace kvloupe::state
