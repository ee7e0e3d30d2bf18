// A place as words say it, "layer=3,q_head=5,chunk=12": all of its coordinates or some.
#pragma once

#include "core/trace/key_set.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kvloupe::state {

// span=none: no keys are watched, not even the trace's needle.
inline constexpr const char* kNoSpan = "none";

// Where --goto points: "layer=3,q_head=5,chunk=12,query=1536,key=40", a span of keys "key=40-52", keys here and
// there "key=40-52+60+71".
struct GotoTarget {
  std::optional<int> layer, q_head, kv_head, chunk, query, window;
  std::optional<trace::KeySet> queries;  // "queries=1536-1540+1551", picked together
  std::optional<trace::KeySet> keys;     // "key=40", "key=40-52", "key=40-52+60"
  std::optional<std::string> span;       // of the trace: its keys
  bool operator==(const GotoTarget&) const = default;
};
GotoTarget parse_goto(const std::string& text);  // throws Error{Usage}
// The text that is read so again.
std::string goto_text(const GotoTarget& target);

}  // namespace kvloupe::state
