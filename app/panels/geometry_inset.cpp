#include "app/panels/geometry_inset.h"

#include "app/state/labels.h"
#include "app/widgets/figure.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace kvloupe::panels {
namespace {

// An inset that shows the queries hardly larger than they are is not worth its corner.
constexpr double kLeastLarger = 1.6;

float gap() { return widgets::em(0.4F); }

struct Rect {
  ImVec2 low, high;
  bool holds(ImVec2 at) const {
    return at.x >= low.x && at.x <= high.x && at.y >= low.y && at.y <= high.y;
  }
  bool meets(const Rect& other) const {
    return other.low.x < high.x && other.high.x > low.x && other.low.y < high.y &&
           other.high.y > low.y;
  }
};

// Of a plot that shows the frame and whose upper left is 0.
class Canvas {
 public:
  Canvas(const GeometryFrame& frame, ImVec2 inside) : frame_(frame), inside_(inside) {}
  ImVec2 at(double x, double y) const {
    return {static_cast<float>((x - frame_.x.Min) / frame_.x.Size()) * inside_.x,
            inside_.y - static_cast<float>((y - frame_.y.Min) / frame_.y.Size()) * inside_.y};
  }

 private:
  GeometryFrame frame_;
  ImVec2 inside_;
};

// Hiding a query or a watched key is never worth it.
bool hides_what_matters(const Geometry& result, const Canvas& canvas, const Rect& rect) {
  const analysis::HeadPoints& points = *result->points;
  const auto held = [&](const std::array<float, 3>& point) {
    return rect.holds(canvas.at(double{point[0]}, double{point[1]}));
  };
  if (std::any_of(points.queries.begin(), points.queries.end(), held)) return true;
  const auto span = state::watched_span(result.question.place);
  if (!span) return false;
  const auto last = static_cast<std::int32_t>(points.every_key.size());
  for (std::int32_t key = span->begin; key < std::min(span->end, last); ++key)
    if (held(points.every_key[static_cast<std::size_t>(key)])) return true;
  return false;
}

std::size_t keys_under(const Geometry& result, const Canvas& canvas, const Rect& rect) {
  const auto& keys = result->points->keys;
  return static_cast<std::size_t>(
      std::count_if(keys.begin(), keys.end(), [&](const std::array<float, 3>& key) {
        return rect.holds(canvas.at(double{key[0]}, double{key[1]}));
      }));
}

// An inset, what it shows, and the pixels of one unit in it.
struct Candidate {
  GeometryInset inset;
  GeometryFrame shown;
  double scale = 0;
};

std::vector<Candidate> candidates_of(const Geometry& result, ImVec2 inside) {
  constexpr std::array kShares{0.75F, 0.65F, 0.55F, 0.45F};
  std::vector<Candidate> candidates;
  for (const float wide : kShares)
    for (const float high : kShares) {
      const ImVec2 size(std::max(inside.x * wide, widgets::em(9)),
                        std::max(inside.y * high, widgets::em(8)));
      const GeometryFrame shown = frame_of(result->query_box, double{size.x / size.y});
      for (const bool right : {true, false})
        for (const bool lower : {false, true})
          candidates.push_back(
              {{right, lower, size, true}, shown, double{size.x} / shown.x.Size()});
    }
  return candidates;
}

}  // namespace

GeometryFrame frame_of(const state::GeometryQuestion::Box& box, double aspect, bool low_left) {
  const double width = 1.14 * box.length(0) + 1e-6;
  const double height = 1.14 * box.length(1) + 1e-6;
  const double wide = std::max(width, height * aspect), high = std::max(height, width / aspect);
  const double left = box.center(0) - (low_left ? width : wide) / 2;
  const double low = box.center(1) - (low_left ? height : high) / 2;
  return {{left, left + wide}, {low, low + high}};
}

ImVec2 GeometryInset::at(ImVec2 low, ImVec2 high) const {
  return {right ? high.x - gap() - size.x : low.x + gap(),
          lower ? high.y - gap() - size.y : low.y + gap()};
}

GeometryInset inset_of(const Geometry& result, ImVec2 inside) {
  const GeometryFrame whole = frame_of(result->box, double{inside.x / inside.y}, true);
  const Canvas canvas(whole, inside);
  std::vector<Candidate> candidates = candidates_of(result, inside);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.scale > b.scale; });
  const double scale = double{inside.x} / whole.x.Size();
  for (const Candidate& candidate : candidates) {
    if (candidate.scale < kLeastLarger * scale) break;
    const GeometryInset& inset = candidate.inset;
    const ImVec2 at = inset.at({0, 0}, inside);
    const Rect rect{at, {at.x + inset.size.x, at.y + inset.size.y}};
    const ImVec2 from = canvas.at(candidate.shown.x.Min, candidate.shown.y.Max),
                 to = canvas.at(candidate.shown.x.Max, candidate.shown.y.Min);
    if (rect.meets({from, to}) || hides_what_matters(result, canvas, rect)) continue;
    if (keys_under(result, canvas, rect) <= result->points->keys.size() / 100) return inset;
  }
  return {};
}

}  // namespace kvloupe::panels
