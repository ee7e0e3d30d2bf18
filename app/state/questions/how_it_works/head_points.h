// Where the queries and keys of one head lie, and what attention they give and get: what the view
// query_geometry draws.
#pragma once

#include "app/state/answers.h"
#include "app/state/place.h"
#include "core/analysis/head_points.h"

#include <cstdint>
#include <string>

namespace kvloupe::state {

struct HeadPointsQuestion {
  static constexpr const char* kName = "head points";
  Place place;              // trace, layer, head, chunk
  bool all_chunks = false;  // the whole head, whatever the chunk
  int components = 2;
  bool apart = false;          // components of queries and of keys each for themselves
  bool before_rotary = false;  // before the rotary embedding
  using Answer = analysis::HeadPoints;

  std::string key() const;
  std::string title() const { return "Fitting the principal components"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// The largest attention that each query gives and each key gets, in the chunk or in all.
struct HeadAttentionQuestion {
  static constexpr const char* kName = "head attention";
  Place place;
  bool all_chunks = false;
  using Answer = analysis::HeadAttention;

  std::string key() const { return all_chunks ? place.head_key() : place.cell_key(); }
  std::string title() const { return "Recomputing the head's attention"; }
  std::string obstacle() const { return place.empty() ? "Open a trace" : ""; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return (answer.given.size() + answer.received.size()) * sizeof(float);
  }
};

}  // namespace kvloupe::state
