#include "app/panels/geometry_inset.h"

#include "app/state/labels.h"
#include "app/widgets/figure.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

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

}  // namespace

GeometryFrame frame_of(const state::GeometryQuestion::Box& box, double aspect) {
  const double width = 1.14 * box.length(0) + 1e-6;
  const double height = 1.14 * box.length(1) + 1e-6;
  const double half_x = std::max(width, height * aspect) / 2;
  const double half_y = std::max(height, width / aspect) / 2;
  return {{box.center(0) - half_x, box.center(0) + half_x},
          {box.center(1) - half_y, box.center(1) + half_y}};
}

ImVec2 GeometryInset::at(ImVec2 low, ImVec2 high) const {
  return {right ? high.x - gap() - size.x : low.x + gap(),
          lower ? high.y - gap() - size.y : low.y + gap()};
}

GeometryInset inset_of(const Geometry& result, ImVec2 inside) {
  const GeometryFrame whole = frame_of(result->box, double{inside.x / inside.y});
  const Canvas canvas(whole, inside);
  const ImVec2 wanted(std::max(inside.x * 0.45F, widgets::em(9)),
                      std::max(inside.y * 0.42F, widgets::em(8)));
  const GeometryFrame closer = frame_of(result->query_box, double{wanted.x / wanted.y});
  const ImVec2 from = canvas.at(closer.x.Min, closer.y.Max),
               to = canvas.at(closer.x.Max, closer.y.Min);
  std::optional<std::size_t> least;
  GeometryInset best;
  for (const bool right : {true, false})
    for (const bool lower : {false, true}) {
      GeometryInset inset{right, lower, wanted, true};
      ImVec2 at = inset.at({0, 0}, inside);
      if (to.x >= at.x && from.x <= at.x + wanted.x)
        inset.size.y = std::min(wanted.y, (lower ? inside.y - to.y : from.y) - 2 * gap());
      if (inset.size.y < 0.7F * wanted.y) continue;  // flat
      const GeometryFrame shown = frame_of(result->query_box, double{inset.size.x / inset.size.y});
      const double larger = inset.size.x / shown.x.Size() / (double{inside.x} / whole.x.Size());
      if (larger < kLeastLarger) continue;
      at = inset.at({0, 0}, inside);
      const Rect rect{at, {at.x + inset.size.x, at.y + inset.size.y}};
      if (hides_what_matters(result, canvas, rect)) continue;
      const std::size_t hidden = keys_under(result, canvas, rect);
      if (hidden > result->points->keys.size() / 100 || (least && hidden >= *least)) continue;
      least = hidden;
      best = inset;
    }
  return best;
}

}  // namespace kvloupe::panels
