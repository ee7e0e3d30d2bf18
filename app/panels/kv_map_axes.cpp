#include "app/panels/kv_map_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

void scroll_to(ImPlotRange& range, double begin, double end, double limit) {
  if (begin >= range.Min && end <= range.Max) return;
  const double half = std::max(range.Size(), (end - begin) * 1.2) / 2;
  const double middle = std::clamp((begin + end) / 2, half, std::max(half, limit - half));
  range = {std::max(0.0, middle - half), std::min(limit, middle + half)};
}

}  // namespace

void KvMapAxes::fit(std::size_t num_chunks, std::int32_t num_tokens, const state::Place& place) {
  const std::pair<double, double> shape{static_cast<double>(num_chunks), num_tokens};
  if (shape_ != shape) {
    shape_ = shape;
    x_ = {0, shape.second};
    y_ = {0, shape.first};
  }
  chunk_axis_ = state::chunk_axis(place.info());
  if (keys_ == place.keys) return;
  keys_ = place.keys;
  if (keys_.empty()) return;
  // One range comes into view as a whole; of keys here and there those that are in view will do.
  const trace::TokenRange& first = keys_.ranges().front();
  const bool scattered = keys_.ranges().size() > 1;
  if (!scattered || !keys_.meets(std::llround(x_.Min), std::llround(x_.Max)))
    scroll_to(x_, first.begin, first.end, shape.second);
}

MapPlotSpec KvMapAxes::spec(ImVec2 size, const Form& form) {
  MapPlotSpec spec;
  spec.id = "##kv map";
  if (form.x_axis) spec.x_label = "key (token position)";
  if (!form.small) spec.y_label = fitting(chunk_axis_.c_str(), "chunk or step", size.y);
  spec.rows = shape_.first;
  spec.cols = shape_.second;
  spec.size = size;
  spec.show_x_ticks = form.x_axis;
  spec.row_ticks = true;
  spec.zoom_rows = false;
  spec.x_range = &x_;
  spec.y_range = &y_;
  return spec;
}

void KvMapAxes::link(KvMapAxes& other, const state::AlignedTraces& aligned,
                     const state::Place& here, const state::Place& there) {
  keys_link_.follow(keys_of(aligned), x_, other.x_);
  chunks_link_.follow(chunks_of(aligned, here.info(), there.info()), y_, other.y_);
  const auto partner = [](const Pointed& at, std::int32_t key, int chunk) {
    std::optional<Pointed> found;
    if (key >= 0 && chunk >= 0)
      found = Pointed{at.map, chunk + at.chunk - std::floor(at.chunk),
                      key + at.key - std::floor(at.key)};
    return found;
  };
  if (pointed_)
    other.pointed_ =
        partner(*pointed_, aligned.keys().in_b(static_cast<std::int32_t>(pointed_->key)),
                aligned.chunk_in_b(static_cast<int>(pointed_->chunk)));
  else if (other.pointed_)
    pointed_ = partner(*other.pointed_,
                       aligned.keys().in_a(static_cast<std::int32_t>(other.pointed_->key)),
                       aligned.chunk_in_a(static_cast<int>(other.pointed_->chunk)));
}

void KvMapAxes::marks_ui(DrawContext& context, const state::Place& place, std::size_t map) const {
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  ImPlot::PushPlotClipRect();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const ImVec2 from = ImPlot::PlotToPixels(limits.X.Min, place.chunk);
  const ImVec2 to = ImPlot::PlotToPixels(limits.X.Max, place.chunk + 1);
  draw->AddRect(from, to, context.palette.text, 0, 0, std::max(1.0F, widgets::em(0.09F)));
  if (pointed_ && pointed_->map != map) {
    const float x = ImPlot::PlotToPixels(pointed_->key, 0).x;
    draw->AddLine({x, ImPlot::PlotToPixels(0, limits.Y.Min).y},
                  {x, ImPlot::PlotToPixels(0, limits.Y.Max).y},
                  widgets::with_alpha(context.palette.text, 0.55F));
    draw->AddCircle(ImPlot::PlotToPixels(pointed_->key, std::floor(pointed_->chunk) + 0.5),
                    widgets::em(0.4F), context.palette.text, 0, widgets::em(0.12F));
  }
  ImPlot::PopPlotClipRect();
  span_marks_ui(context, place, true);
}

void go_to_key(DrawContext& context, const MapPlotHit& hit) {
  context.workspace.cursor.change("", [&](state::Selection& s) {
    s.place.chunk = static_cast<int>(hit.row);
    const auto key = static_cast<std::int32_t>(hit.col);
    s.place.keys = {key, key + 1};
  });
}

std::vector<widgets::TooltipLine> key_and_chunk(DrawContext& context, const state::Place& place,
                                                const MapPlotHit& hit) {
  const auto key = static_cast<std::int32_t>(hit.col);
  state::Place there = place;
  there.chunk = static_cast<int>(hit.row);
  context.workspace.pointer.at(there, key);
  const trace::ChunkInfo& span = there.chunk_info();
  return {{fmt::format("key {}", token_line(place, key))},
          {fmt::format("{}, {}", chunk_name(there.info(), there.chunk),
                       state::range_words("token", "tokens", span.begin, span.end()))}};
}

}  // namespace kvloupe::panels
