// The view query_relevance: S_q of each query against the largest attention that it gives, with the
// line of least squares.
#pragma once

#include "app/state/questions/how_it_works/query_geometry.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct Line {
  double slope = 0, intercept = 0;
  double at(double x) const { return intercept + slope * x; }
};
// Nothing where all x are equal.
std::optional<Line> least_squares(const std::vector<float>& x, const std::vector<float>& y);

// The method may be none.
struct QueryRelevanceQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "query relevance";
  struct Answer {
    std::shared_ptr<const QueryGeometryQuestion::Answer> queries;
    std::optional<Line> line;
    // Theorem 1 of QuoKA, of each query and the key that it attends to most; NaN without such a key.
    std::vector<float> bound;  // of cos(mean query, query)
    int num_premise = 0;       // cos(mean query, key) < 0 < cos(key, query), as the paper asks
    double least_slack = 0;    // bound less cosine
  };

  std::string title() const { return "Measuring the queries"; }
  std::string obstacle() const { return missing(place); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

class Workspace;
// Whether the view draws the theorem instead of the attention.
bool draws_theorem(const Workspace& workspace);

}  // namespace kvloupe::state
