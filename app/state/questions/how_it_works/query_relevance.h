// The view query_relevance: S_q of each query against the largest attention that it gives, with medians
// along S_q.
#pragma once

#include "app/state/questions/how_it_works/query_geometry.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::state {

struct MedianPoint {
  double x = 0, y = 0;
  std::size_t count = 0;  // of points
};
// The points are sorted by x and cut into groups of one size (or one more); each group gives its medians of x and of y.
// Eight groups, or fewer of five points each; none where that makes less than three groups.
std::vector<MedianPoint> medians_along(const std::vector<float>& x, const std::vector<float>& y);

// The method may be none.
struct QueryRelevanceQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "query relevance";
  struct Answer {
    std::shared_ptr<const QueryGeometryQuestion::Answer> queries;
    std::vector<MedianPoint> medians;  // of the largest attention, along S_q
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
