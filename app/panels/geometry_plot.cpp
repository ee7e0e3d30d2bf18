// See geometry_plot.h.
#include "app/panels/geometry_plot.h"

#include "app/panels/box_outline.h"
#include "app/panels/mean_queries.h"
#include "app/state/labels.h"

#include <fmt/format.h>
#include <implot3d/implot3d.h>
#include <implot3d/implot3d_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace kvloupe::panels {
namespace {

using state::GeometryForm;

// In full where the axis is as long as that.
std::string axis_name(const analysis::Pca& pca, std::size_t component, float length) {
  const std::string name = fmt::format("PC {}", component + 1);
  if (component >= pca.explained.size()) return name;
  const std::string full =
      fmt::format("{} ({:.1f} % of variance)", name, 100 * pca.explained[component]);
  return ImGui::CalcTextSize(full.c_str()).x <= length ? full : name;
}

const analysis::Pca& pca_of(const Geometry& result, const GeometryPlot::Spec& spec) {
  return spec.queries ? result->points->query_pca : result->points->key_pca;
}

const state::GeometryQuestion::Box& box_of(const Geometry& result, const GeometryPlot::Spec& spec) {
  if (spec.queries && spec.keys) return result->box;
  if (spec.without_sink) return result->key_box_without_sink;
  return spec.queries ? result->query_box : result->key_box;
}

// Of the plot that comes.
ImVec2 room_of(const GeometryPlot::Spec& spec) {
  const ImVec2 avail = ImGui::GetContentRegionAvail();
  return {spec.size.x > 0 ? spec.size.x : avail.x, spec.size.y > 0 ? spec.size.y : avail.y};
}

// ImPlot3D labels thirds of its steps, too. A number such as "6.66667" is left out.
int round_tick(double value, char* buffer, int size, void* /*user_data*/) {
  const std::string text = fmt::format("{:.5g}", value);
  const bool exact = std::abs(std::strtod(text.c_str(), nullptr) - value) <= 1e-6 * std::abs(value);
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%s", exact ? text.c_str() : "");
}

// All of a box and the dots at its edge, one unit as long on both axes of a plot of this size.
GeometryPlot::Frame frame_of(const state::GeometryQuestion::Box& box, ImVec2 inside) {
  const auto with_dots = [](double length, double pixels) {
    const double dot = 2 * widgets::em(0.9F);
    return std::max(1.1, pixels / std::max(pixels - dot, pixels / 2)) * length + 1e-6;
  };
  const double width = with_dots(box.length(0), inside.x);
  const double height = with_dots(box.length(1), inside.y);
  const double aspect = inside.x / inside.y;
  const double half_x = std::max(width, height * aspect) / 2;
  const double half_y = std::max(height, width / aspect) / 2;
  return {{box.center(0) - half_x, box.center(0) + half_x},
          {box.center(1) - half_y, box.center(1) + half_y}};
}

// What the axes are fitted to anew when it changes.
std::string content_of(const Geometry& result) {
  const GeometryForm& form = result.question.form;
  const state::Place& place = result.question.place;
  return fmt::format("{}|{}|{}|{}", form.all_chunks ? place.head_key() : place.cell_key(),
                     static_cast<int>(form.fit), form.before_rotary, form.dimensions);
}

// From the back to the front; as they stand where there is no depth.
std::vector<std::size_t> in_order(std::size_t count, const std::vector<float>& depth) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (!depth.empty())
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return depth[a] < depth[b]; });
  return order;
}

// The same of keys: where nothing is nearer, the rarer fates lie on top.
std::vector<std::size_t> keys_in_order(const Geometry& result, const std::vector<float>& depth) {
  std::vector<std::size_t> order = in_order(result->points->keys.size(), depth);
  if (!depth.empty() || result->fates.empty()) return order;
  const auto prominence = [&](std::size_t key) {
    return prominence_of(fate_of(result, result->points->key_positions[key]));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return prominence(a) < prominence(b); });
  return order;
}

// What is near is a little larger.
float size_at(const std::vector<float>& depth, std::size_t index) {
  return depth.empty() ? 1.0F : 0.75F + 0.5F * depth[index];
}

bool is_on_screen(ImVec2 at) { return std::isfinite(at.x) && std::isfinite(at.y); }

// Not round, as the rings of chosen queries are, and large enough for the colour of a fate.
void watched_key_ui(ImDrawList* draw, const widgets::Palette& palette, ImVec2 at, float out,
                    ImU32 color) {
  draw->AddRectFilled({at.x - out, at.y - out}, {at.x + out, at.y + out}, color);
  draw->AddRect({at.x - out, at.y - out}, {at.x + out, at.y + out}, palette.text, 0, 0,
                widgets::em(0.08F));
}

void keys_ui(ImDrawList* draw, const widgets::Palette& palette, const Geometry& result,
             const std::vector<ImVec2>& at, const std::vector<float>& depth) {
  const analysis::HeadPoints& points = *result->points;
  const auto span = state::watched_keys(result.question.place);
  const std::vector<std::size_t> order = keys_in_order(result, depth);
  for (const bool watched : {false, true})  // the watched ones on top
    for (const std::size_t i : order) {
      const std::int32_t key = points.key_positions[i];
      if ((span && span->keys.contains(key)) != watched) continue;
      const float size = key == 0 ? 0.3F : watched ? 0.22F : 0.19F;
      const float r = std::max(1.2F, widgets::em(size) * size_at(depth, i));
      const float out = r + widgets::em(0.1F);
      const ImU32 color = color_of_key(palette, result, i);
      if (!watched) draw->AddCircleFilled(at[i], r, color);
      if (!result->fates.empty() && !watched)
        draw->AddCircle(at[i], r, widgets::with_alpha(palette.faint, 0.6F));
      if (key == 0) draw->AddCircle(at[i], out, palette.warning, 0, widgets::em(0.12F));
      if (watched) watched_key_ui(draw, palette, at[i], out, color);
    }
}

std::string key_words(const Geometry& result, std::size_t key) {
  const std::int32_t position = result->points->key_positions[key];
  std::string words = "key " + token_line(result.question.place, position);
  if (!result->fates.empty()) words += fmt::format("\n{}", label_of(fate_of(result, position)));
  if (result->attention)
    words += fmt::format("\nlargest attention received {:.3g} %", 100 * result->received(key));
  return words;
}

// Where another plot of the same components looks closer.
void frame_ui(ImDrawList* draw, const widgets::Palette& palette, const GeometryPlot::Frame& frame) {
  if (frame.x.Size() <= 0) return;  // nothing was drawn there yet
  ImPlot::PushPlotClipRect();
  draw->AddRect(ImPlot::PlotToPixels(frame.x.Min, frame.y.Max),
                ImPlot::PlotToPixels(frame.x.Max, frame.y.Min), palette.muted, 0, 0,
                widgets::em(0.08F));
  ImPlot::PopPlotClipRect();
}

// What the mouse points at is told; a click goes there.
template <typename Canvas>
void point_at(DrawContext& context, const Geometry& result, const Wanted& wanted,
              const Canvas& canvas, bool clicked) {
  const analysis::HeadPoints& points = *result->points;
  const state::Place& place = result.question.place;
  float near = widgets::em(0.7F);
  const int query = nearest_to_mouse(
      canvas.queries.size(), [&](std::size_t i) { return canvas.queries[i]; }, near);
  const int key = nearest_to_mouse(
      canvas.keys.size(), [&](std::size_t i) { return canvas.keys[i]; }, near);
  if (key >= 0) {
    const auto index = static_cast<std::size_t>(key);
    widgets::tooltip("%s", key_words(result, index).c_str());
    const std::int32_t position = points.key_positions[index];
    context.workspace.pointer.at(place, position);
    if (clicked) context.workspace.cursor.set_keys(position, position + 1);
  } else if (query >= 0) {
    const auto index = static_cast<std::size_t>(query);
    const std::int32_t position = points.query_positions[index];
    if (const auto row = result->row_of(place, index))
      query_tooltip(place, *result->queries, wanted, *row);
    else
      widgets::tooltip("query %s\nS_q %.4f in its chunk", token_line(place, position).c_str(),
                       double{points.relevance[index]});
    point_at_query(context, place, position);
    if (clicked) choose_query(context, place, position);
  }
}

}  // namespace

// Of the watched keys those that the thinned ones lack.
std::vector<std::int32_t> watched_beside(const Geometry& result) {
  const auto span = state::watched_keys(result.question.place);
  const analysis::HeadPoints& points = *result->points;
  std::vector<std::int32_t> keys;
  if (span)
    for (const std::int32_t key : span->keys.positions_in(0, std::ssize(points.every_key)))
      if (!std::binary_search(points.key_positions.begin(), points.key_positions.end(), key))
        keys.push_back(key);
  return keys;
}

// Key 0 where it lies outside, at the edge towards it.
void GeometryPlot::sink_at_edge_ui(ImDrawList* draw, const widgets::Palette& palette,
                                   const Geometry& result, const Canvas& canvas) {
  const auto& positions = result->points->key_positions;
  if (positions.empty() || positions.front() != 0) return;
  const ImVec2 at = canvas.keys.front();
  if (at.x >= canvas.low.x && at.x <= canvas.high.x && at.y >= canvas.low.y &&
      at.y <= canvas.high.y)
    return;
  const float pad = widgets::em(0.5F);
  const ImVec2 edge(std::clamp(at.x, canvas.low.x + pad, canvas.high.x - pad),
                    std::clamp(at.y, canvas.low.y + pad, canvas.high.y - pad));
  draw->AddCircleFilled(edge, widgets::em(0.3F), color_of_key(palette, result, 0));
  draw->AddCircle(edge, widgets::em(0.4F), palette.warning, 0, widgets::em(0.12F));
  const widgets::FontScope small(widgets::Type::Caption);
  const char* words = at.x > canvas.high.x ? "key 0 \u2192" : "key 0";
  const ImVec2 size = ImGui::CalcTextSize(words);
  draw->AddText({std::clamp(edge.x - size.x / 2, canvas.low.x, canvas.high.x - size.x - pad / 2),
                 edge.y + widgets::em(0.5F)},
                palette.muted, words);
}

template <typename At>
void GeometryPlot::place(const Geometry& result, const Spec& spec, const At& at, Canvas& canvas) {
  const analysis::HeadPoints& points = *result->points;
  if (spec.queries) {
    for (const auto& query : points.queries) canvas.queries.push_back(at(query));
    for (const auto& mean : points.mean_queries) canvas.means.push_back(at(mean));
  }
  if (!spec.keys) return;
  for (const auto& key : points.keys) canvas.keys.push_back(at(key));
  for (const std::int32_t key : watched_beside(result))
    canvas.watched.emplace_back(key, at(points.every_key[static_cast<std::size_t>(key)]));
  if (spec.lasso && ImGui::IsMouseReleased(ImGuiMouseButton_Left))  // it may be closed now
    for (const auto& key : points.every_key) canvas.every_key.push_back(at(key));
}

Picked GeometryPlot::dots_ui(DrawContext& context, const Geometry& result, const Wanted& wanted,
                             const Spec& spec, const Canvas& canvas) {
  const analysis::HeadPoints& points = *result->points;
  const state::Place& place = result.question.place;
  const widgets::Palette& palette = context.palette;
  canvas.draw->PushClipRect(canvas.low, canvas.high, true);
  if (spec.keys) keys_ui(canvas.draw, palette, result, canvas.keys, canvas.key_depth);
  for (const auto& [key, at] : canvas.watched)
    watched_key_ui(canvas.draw, palette, at, widgets::em(0.32F),
                   result->fates.empty() ? 0 : color_of(palette, fate_of(result, key)));
  if (spec.without_sink) sink_at_edge_ui(canvas.draw, palette, result, canvas);
  // In a small plot large dots would hide each other, and in one of three components most lie behind others.
  const bool solid = !canvas.query_depth.empty();
  const float small = (solid ? 0.55F : 1.0F) *
                      std::clamp((canvas.high.x - canvas.low.x) / widgets::em(24), 0.6F, 1.0F);
  std::vector<std::size_t> looked;
  std::optional<std::size_t> most;
  const auto order = in_order(canvas.queries.size(), canvas.query_depth);
  for (const bool chosen : {false, true})
    for (const std::size_t i : order) {
      const auto row = result->row_of(place, i);
      const bool by_this = row && result->queries->is_chosen(*row);
      const bool by_other =
          row && spec.beside != nullptr && (*spec.beside)->queries->is_chosen(*row);
      if ((by_this || by_other) != chosen) continue;
      const float radius = small * (row ? query_radius(wanted, *row, chosen) : widgets::em(0.2F));
      const ImU32 color = color_of_query(palette, result, i);
      // Beside another method what neither asks is the ground; so are other chunks.
      const float shade = spec.beside != nullptr && !chosen ? 0.35F : row ? 1 : 0.6F;
      QueryDot dot{canvas.queries[i], radius * size_at(canvas.query_depth, i),
                   widgets::with_alpha(color, shade), by_this,
                   state::in_question(place, points.query_positions[i])};
      if (spec.beside != nullptr) {
        dot.ring = widgets::color_of_slot(palette, state::Slot::A);
        dot.outer_ring = by_other ? widgets::color_of_slot(palette, state::Slot::B) : 0;
      }
      query_dot_ui(canvas.draw, palette, dot);
      if (is_looked_at(place, points.query_positions[i])) looked.push_back(i);
      if (row && wanted && *row == wanted->most_of) most = i;
    }
  for (const std::size_t i : looked)
    looked_at_ui(canvas.draw, palette, canvas.queries[i], points.query_positions[i] == place.query);
  if (most && spec.names) {
    std::vector<Circle> dots;
    for (std::size_t i = 0; i < canvas.queries.size(); ++i) {
      const auto row = result->row_of(place, i);
      dots.push_back({canvas.queries[i],
                      small * (row ? query_radius(wanted, *row, true) : widgets::em(0.2F))});
    }
    for (const ImVec2& key : canvas.keys) dots.push_back({key, widgets::em(0.2F)});
    const float titles = solid ? widgets::em(3.5F) : 0;  // of the axes, at both sides
    most_wanted_ui(canvas.draw, palette, place, wanted, dots, canvas.queries[*most],
                   {canvas.low.x + titles, canvas.low.y}, {canvas.high.x - titles, canvas.high.y},
                   canvas.titles);
  }
  mean_queries_ui(canvas.draw, palette, result, canvas.means);

  Picked taken;
  if (!context.figure && lasso_.update(canvas.draw, palette, spec.lasso && canvas.hovered)) {
    taken.closed = true;
    const auto is_held = [&](ImVec2 at) { return is_on_screen(at) && lasso_.holds(at); };
    for (std::size_t i = 0; i < canvas.queries.size(); ++i)
      if (is_held(canvas.queries[i])) taken.queries.push_back(points.query_positions[i]);
    // Of the keys those, too, that are left out where not all of them can be drawn.
    for (std::size_t key = 0; key < canvas.every_key.size(); ++key)
      if (is_held(canvas.every_key[key])) taken.keys.push_back(static_cast<std::int32_t>(key));
  }
  canvas.draw->PopClipRect();
  return taken;
}

Picked GeometryPlot::draw(DrawContext& context, const Geometry& result, const Wanted& wanted,
                          const Spec& asked) {
  Spec spec = asked;
  spec.lasso |= lasso_.is_drawn();  // also when Shift is let go of before the button
  return result.question.form.dimensions == 3 ? draw_solid(context, result, wanted, spec)
                                              : draw_flat(context, result, wanted, spec);
}

ImVec2 GeometryPlot::inside_of(ImVec2 size) {
  return {std::max(size.x - widgets::em(4.5F), 1.0F), std::max(size.y - widgets::em(3.4F), 1.0F)};
}

Picked GeometryPlot::draw_flat(DrawContext& context, const Geometry& result, const Wanted& wanted,
                               const Spec& spec) {
  const ImVec2 room = room_of(spec);
  // As the last frame had it; what stands at the axes is not known before.
  const bool known = room.x == room_.x && room.y == room_.y;
  const ImVec2 inside = known ? inside_ : inside_of(room);
  room_ = room;
  if (!ImPlot::BeginPlot(spec.id, spec.size, kScatterFlags | ImPlotFlags_Equal)) return {};
  const ImPlotAxisFlags flags =
      ImPlotAxisFlags_NoHighlight | (spec.lasso ? ImPlotAxisFlags_Lock : ImPlotAxisFlags_None);
  const analysis::Pca& pca = pca_of(result, spec);
  ImPlot::SetupAxes(axis_name(pca, 0, inside.x).c_str(), axis_name(pca, 1, inside.y).c_str(), flags,
                    flags);
  fit(result, spec, inside);
  ImPlot::SetupFinish();
  inside_ = ImPlot::GetPlotSize();
  Canvas canvas;
  canvas.draw = ImPlot::GetPlotDrawList();
  canvas.low = ImPlot::GetPlotPos();
  canvas.high = {canvas.low.x + ImPlot::GetPlotSize().x, canvas.low.y + ImPlot::GetPlotSize().y};
  canvas.hovered = ImPlot::IsPlotHovered();
  place(
      result, spec,
      [](const std::array<float, 3>& point) {
        return ImPlot::PlotToPixels(double{point[0]}, double{point[1]});
      },
      canvas);
  if (spec.frame != nullptr) frame_ui(canvas.draw, context.palette, *spec.frame);
  const Picked taken = dots_ui(context, result, wanted, spec, canvas);
  if (canvas.hovered && !context.figure && !spec.lasso)
    point_at(context, result, wanted, canvas, plot_clicked() && !result.stale);
  if (canvas.hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) fit_.again();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  shown_ = {limits.X, limits.Y};
  ImPlot::EndPlot();
  return taken;
}

// Other points are framed anew; afterwards pan and zoom belong to the user.
void GeometryPlot::fit(const Geometry& result, const Spec& spec, ImVec2 inside) {
  const auto [x, y] = frame_of(box_of(result, spec), inside);
  // In a plot of another shape the limits would cut some of it.
  const ImPlotCond condition = fit_.condition(
      fmt::format("{}|{}", content_of(result), std::lround(4 * inside.x / inside.y)));
  if (spec.view == nullptr) {
    ImPlot::SetupAxesLimits(x.Min, x.Max, y.Min, y.Max, condition);
    return;
  }
  if (condition == ImPlotCond_Always) {
    spec.view->x = x;
    spec.view->y = y;
  }
  ImPlot::SetupAxisLinks(ImAxis_X1, &spec.view->x.Min, &spec.view->x.Max);
  ImPlot::SetupAxisLinks(ImAxis_Y1, &spec.view->y.Min, &spec.view->y.Max);
}

// Before the plot takes the mouse, and after it.
void GeometryPlot::take_view(const GeometryView& view) {
  if (!view.is_turned) return;
  ImPlot3DPlot& plot = *ImPlot3D::GetCurrentPlot();
  plot.Rotation = view.rotation;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    plot.Axes[axis].Range.Min = view.box[axis].Min;
    plot.Axes[axis].Range.Max = view.box[axis].Max;
  }
}

void GeometryPlot::give_view(GeometryView& view) {
  const ImPlot3DPlot& plot = *ImPlot3D::GetCurrentPlot();
  view.rotation = plot.Rotation;
  for (std::size_t axis = 0; axis < 3; ++axis)
    view.box[axis] = {plot.Axes[axis].Range.Min, plot.Axes[axis].Range.Max};
  view.is_turned = true;
}

namespace {

// What makes a box of this shape, turned as it is, fill a plot of this size but for the room of its labels.
double box_scale(const std::array<double, 3>& length, ImVec2 extent) {
  constexpr double kPixelsPerUnit = 1 / 1.8;  // ImPlot3DPlot::GetViewScale(), of the shorter side
  const ImPlot3DPlot& plot = *ImPlot3D::GetCurrentPlot();
  const ImPlot3DQuat turn = plot.Initialized ? plot.Rotation : plot.InitialRotation;
  double across = 0, up = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const auto side = [&](int axis) {
      return (corner >> axis & 1) != 0 ? length[axis] : -length[axis];
    };
    const ImPlot3DPoint turned = turn * ImPlot3DPoint(side(0), side(1), side(2));
    across = std::max(across, std::abs(turned.x));
    up = std::max(up, std::abs(turned.y));
  }
  const double wide = std::max<double>(extent.x - widgets::em(7), extent.x / 3);
  const double high = std::max<double>(extent.y - widgets::em(5), extent.y / 3);
  return std::min(wide / across, high / up) / (kPixelsPerUnit * std::min(extent.x, extent.y));
}

// Of the plot's box, on the screen.
std::vector<ImVec2> corners_of_box() {
  const ImPlot3DPlot& plot = *ImPlot3D::GetCurrentPlot();
  std::vector<ImVec2> corners;
  for (int corner = 0; corner < 8; ++corner) {
    std::array<double, 3> at{};
    for (int axis = 0; axis < 3; ++axis) {
      const ImPlot3DRange& range = plot.Axes[axis].Range;
      at[axis] = (corner >> axis & 1) != 0 ? range.Max : range.Min;
    }
    corners.push_back(ImPlot3D::PlotToPixels(at[0], at[1], at[2]));
  }
  return corners;
}

}  // namespace

Picked GeometryPlot::draw_solid(DrawContext& context, const Geometry& result, const Wanted& wanted,
                                const Spec& spec) {
  constexpr ImPlot3DFlags kFlags = ImPlot3DFlags_CanvasOnly | ImPlot3DFlags_NoMenus;
  const ImPlot3DFlags hands =
      spec.lasso ? ImPlot3DFlags_NoPan | ImPlot3DFlags_NoZoom | ImPlot3DFlags_NoRotate : 0;
  const ImVec2 extent = room_of(spec);
  if (!ImPlot3D::BeginPlot(spec.id, spec.size, kFlags | hands)) return {};
  const analysis::Pca& pca = pca_of(result, spec);
  const float edge = std::min(extent.x, extent.y) / 2;
  ImPlot3D::SetupAxes(axis_name(pca, 0, edge).c_str(), axis_name(pca, 1, edge).c_str(),
                      axis_name(pca, 2, edge).c_str());
  for (const ImAxis3D axis : {ImAxis3D_X, ImAxis3D_Y, ImAxis3D_Z})
    ImPlot3D::SetupAxisFormat(axis, round_tick);
  // One unit is as long on all axes: the box has the shape of the points.
  const auto& box = box_of(result, spec);
  std::array<double, 3> length{};
  for (int axis = 0; axis < 3; ++axis) length[axis] = 1.06 * box.length(axis) + 1e-6;
  const double longest = *std::max_element(length.begin(), length.end());
  for (double& side : length) side = std::max(side, 0.3 * longest);
  const double scale = box_scale(length, extent);
  ImPlot3D::SetupBoxScale(length[0] * scale, length[1] * scale, length[2] * scale);
  const ImPlotCond once = fit_.condition(content_of(result));
  for (int axis = 0; axis < 3; ++axis)
    ImPlot3D::SetupAxisLimits(axis, box.center(axis) - length[axis] / 2,
                              box.center(axis) + length[axis] / 2,
                              once == ImPlotCond_Always ? ImPlot3DCond_Always : ImPlot3DCond_Once);
  if (spec.view != nullptr && once != ImPlotCond_Always) take_view(*spec.view);
  Canvas canvas;
  canvas.draw = ImPlot3D::GetPlotDrawList();
  canvas.low = ImPlot3D::GetPlotRectPos();
  canvas.high = {canvas.low.x + ImPlot3D::GetPlotRectSize().x,
                 canvas.low.y + ImPlot3D::GetPlotRectSize().y};
  canvas.hovered = ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem) &&
                   ImGui::IsMouseHoveringRect(canvas.low, canvas.high);
  place(
      result, spec,
      [](const std::array<float, 3>& point) {
        return ImPlot3D::PlotToPixels(double{point[0]}, double{point[1]}, double{point[2]});
      },
      canvas);
  const auto ray = ImPlot3D::PixelsToPlotRay(canvas.low);
  const auto depths = [&](const std::vector<std::array<float, 3>>& points) {
    std::vector<float> depth;
    for (const auto& point : points)
      depth.push_back(-static_cast<float>(point[0] * ray.Direction.x + point[1] * ray.Direction.y +
                                          point[2] * ray.Direction.z));
    if (depth.empty()) return depth;
    const auto [low, high] = std::minmax_element(depth.begin(), depth.end());
    const float least = *low, span = std::max(*high - *low, 1e-6F);
    for (float& value : depth) value = (value - least) / span;
    return depth;
  };
  canvas.titles = beside_outline(corners_of_box());
  if (spec.queries) canvas.query_depth = depths(result->points->queries);
  if (spec.keys) canvas.key_depth = depths(result->points->keys);
  const Picked taken = dots_ui(context, result, wanted, spec, canvas);
  const bool clicked = canvas.hovered && ImGui::IsMouseReleased(ImGuiMouseButton_Left) &&
                       ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F).x == 0 &&
                       ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F).y == 0;
  if (canvas.hovered && !context.figure && !spec.lasso)
    point_at(context, result, wanted, canvas, clicked && !result.stale);
  if (spec.view != nullptr) give_view(*spec.view);
  ImPlot3D::EndPlot();
  return taken;
}

}  // namespace kvloupe::panels
