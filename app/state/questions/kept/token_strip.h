// The view token_strip: the text, coloured by what the KV map and the verdicts of the current chunk
// say of each key, and where a word stands in it.
#pragma once

#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/token_text.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

struct TextSearchQuestion : OfPlace<At::Trace> {
  static constexpr const char* kName = "text search";
  static constexpr Lane kLane = Lane::TraceIo;
  std::string needle;
  using Answer = std::vector<TokenRange>;

  std::string key() const { return OfPlace::key(needle); }
  std::string title() const { return "Searching the text"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer); }
};

// What one token is drawn as. Future: the chunk does not see it. Plain: not known, or dropped.
enum class TokenLook {
  Plain,
  Future,
  Kept,
  Sink,
  Recent,
  Dense,
  Current,
  Missed,
  MissedEvicted,  // missed, and gone for good
  Evicted
};

// `map` and `verdicts` are of the place's cell and one method; null: not known yet. A key that
// should have been kept is missed; one that was evicted cannot come back.
TokenLook look_of(const KvMapQuestion::Answer* map, const SelectedVsTrueQuestion::Answer* verdicts,
                  const Place& place, std::int32_t token);

}  // namespace kvloupe::state
