// Where the queries and keys of one head lie, and what attention they give and get: what the view
// query_geometry draws.
#pragma once

#include "app/state/question_at.h"
#include "core/analysis/head_points.h"

#include <cstdint>
#include <string>

namespace kvloupe::state {

struct HeadPointsQuestion : OfPlace<At::Head> {
  static constexpr const char* kName = "head points";
  bool all_chunks = false;  // the whole head, whatever the chunk
  int components = 2;
  bool apart = false;          // components of queries and of keys each for themselves
  bool before_rotary = false;  // before the rotary embedding
  using Answer = analysis::HeadPoints;

  std::string key() const {
    return OfPlace::key(all_chunks ? -1 : place.chunk, components, apart, before_rotary);
  }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// The largest attention that each query gives and each key gets, in the chunk or in all.
struct HeadAttentionQuestion : OfPlace<At::Head> {
  static constexpr const char* kName = "head attention";
  bool all_chunks = false;
  using Answer = analysis::HeadAttention;

  std::string key() const { return OfPlace::key(all_chunks ? -1 : place.chunk); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.given, answer.received);
  }
};

}  // namespace kvloupe::state
