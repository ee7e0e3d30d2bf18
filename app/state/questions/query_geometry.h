// The view query_geometry: the chunk's queries and the keys of one head in two principal components,
// with S_q of each query and those that the method scores keys with. query_relevance draws the same
// answer.
#pragma once

#include "app/state/answers.h"
#include "app/state/method_choice.h"
#include "app/state/place.h"
#include "core/analysis/query_geometry.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

struct QueryGeometryQuestion {
  static constexpr const char* kName = "query geometry";
  Place place;          // trace, layer, head, chunk
  MethodChoice method;  // may be none
  struct Answer {
    analysis::QueryGeometry geometry;
    // The method whose queries geometry.chosen marks, where it singles any out; empty: none, or one
    // that this version does not know.
    std::string chosen_by;
    std::int64_t num_chosen = 0;
    double least_relevance = -1, most_relevance = 1;  // S_q that occur, least < most
    double most_attention = 0;                        // the largest of max_attention
    double left = 0, right = 1, bottom = 0, top = 1;  // of all points, in principal components

    std::size_t num_queries() const { return geometry.queries.size(); }
    bool is_chosen(std::size_t query) const { return geometry.is_chosen(query); }
  };

  std::string key() const { return place.cell_key() + "|" + method.key(); }
  std::string title() const { return "Fitting the principal components"; }
  std::string obstacle() const { return place.empty() ? "Open a trace" : ""; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// How much each of these queries attends to the keys chosen.
struct KeyWantedQuestion {
  static constexpr const char* kName = "wanted key";
  Place place;  // trace, layer, head, chunk, keys
  struct Answer {
    std::vector<float> attention;  // [m] p of the query, summed over the keys
    float most = 0;
    std::size_t most_of = 0;  // the query that gives most, counted from the chunk's begin

    // 0 to 1, against the query that gives most.
    double part(std::size_t query) const {
      return most > 0 ? static_cast<double>(attention[query] / most) : 0;
    }
  };

  std::string key() const;
  std::string title() const { return "Asking the queries for the key"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return sizeof(answer) + answer.attention.size() * sizeof(float);
  }
};

// Whether the token belongs to a span of the trace that is called "question".
bool in_question(const Place& place, std::int32_t position);
// Whether any query of the place's chunk does.
bool asks_question(const Place& place);

}  // namespace kvloupe::state
