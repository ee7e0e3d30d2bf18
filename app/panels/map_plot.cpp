// See map_plot.h.
#include "app/panels/map_plot.h"

#include "app/state/labels.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvloupe::panels {

namespace {

// Things (chunks, layers), not a continuum: their names stand beside the middle of each. `most` of them
// have room, `named` always.
template <typename NameOf>
void middle_ticks(ImAxis axis, double begin, double end, double most, int named,
                  const NameOf& name_of) {
  int step = 1;
  for (const int candidate : {2, 5, 10, 20, 50, 100, 200, 500, 1000})
    if ((end - begin) / step > most) step = candidate;
  std::vector<double> at;
  std::vector<std::string> text;
  for (int i = static_cast<int>(begin) / step * step + named % step; i < end; i += step) {
    at.push_back(i + 0.5);
    text.push_back(name_of(i));
  }
  std::vector<const char*> labels;
  for (const std::string& label : text) labels.push_back(label.c_str());
  if (!at.empty())
    ImPlot::SetupAxisTicks(axis, at.data(), static_cast<int>(at.size()), labels.data());
}

void row_ticks(const MapPlotSpec& spec) {
  const double begin = spec.y_range != nullptr ? std::max(0.0, spec.y_range->Min) : 0;
  const double end = spec.y_range != nullptr ? std::min(spec.rows, spec.y_range->Max) : spec.rows;
  // As many as in a neighbour that has an axis of keys below it.
  const float axis = spec.show_x_ticks ? 0 : 2.9F * ImGui::GetFontSize();
  // Names belong to their rows alone; numbers can be counted on.
  const double lines = spec.row_names != nullptr ? 1.2 : 2.2;
  const double fit = std::max(2.0, (spec.size.y + axis) / (lines * ImGui::GetFontSize()));
  middle_ticks(ImAxis_Y1, begin, end, fit, spec.named_row, [&](int row) {
    const auto index = static_cast<std::size_t>(row);
    if (spec.row_names != nullptr) return (*spec.row_names)[index];
    return std::to_string(spec.row_numbers != nullptr ? (*spec.row_numbers)[index]
                                                      : spec.first_row + row);
  });
}

void col_ticks(const MapPlotSpec& spec) {
  const double fit = std::max(2.0, spec.size.x / (3.5 * ImGui::GetFontSize()));
  middle_ticks(ImAxis_X1, 0, spec.cols, fit, 0, [&](int column) {
    return std::to_string(spec.col_numbers != nullptr
                              ? (*spec.col_numbers)[static_cast<std::size_t>(column)]
                              : column);
  });
}

// Whether the map has another shape than in the frame before.
bool shape_changed(const MapPlotSpec& spec) {
  ImGuiStorage* storage = ImGui::GetStateStorage();
  const ImGuiID rows = ImGui::GetID((std::string(spec.id) + "rows").c_str());
  const ImGuiID cols = ImGui::GetID((std::string(spec.id) + "cols").c_str());
  const auto same = [&](ImGuiID id, double value) {
    const bool equal = storage->GetFloat(id) == static_cast<float>(value);
    storage->SetFloat(id, static_cast<float>(value));
    return equal;
  };
  const bool same_rows = same(rows, spec.rows), same_cols = same(cols, spec.cols);
  return !same_rows || !same_cols;
}

// In the next frame; own limits begin anew as if the shape had changed.
void show_all(const MapPlotSpec& spec) {
  if (spec.x_range != nullptr) *spec.x_range = {0, spec.cols};
  if (spec.y_range != nullptr) *spec.y_range = {0, spec.rows};
  ImGui::GetStateStorage()->SetFloat(ImGui::GetID((std::string(spec.id) + "rows").c_str()), -1);
}

void setup_axes(const MapPlotSpec& spec) {
  constexpr ImPlotAxisFlags kAxis = ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_NoHighlight;
  ImPlot::SetupAxes(
      spec.x_label.empty() ? nullptr : spec.x_label.c_str(),
      spec.y_label.empty() ? nullptr : spec.y_label.c_str(),
      kAxis | (spec.show_x_ticks ? 0 : ImPlotAxisFlags_NoTickLabels),
      kAxis | ImPlotAxisFlags_Invert | (spec.show_y_ticks ? 0 : ImPlotAxisFlags_NoTickLabels));
  // A little room past the last cell keeps its tick from being cut.
  ImPlot::SetupAxisLimitsConstraints(ImAxis_X1, 0, spec.cols);
  ImPlot::SetupAxisLimitsConstraints(ImAxis_Y1, 0, spec.rows);
  ImPlot::SetupAxisZoomConstraints(ImAxis_X1, std::min(8.0, spec.cols), spec.cols);
  if (spec.zoom_rows || spec.y_range == nullptr || ImGui::GetIO().KeyCtrl)
    ImPlot::SetupAxisZoomConstraints(ImAxis_Y1, std::min(2.0, spec.rows), spec.rows);
  else
    ImPlot::SetupAxisZoomConstraints(ImAxis_Y1, spec.y_range->Size(), spec.y_range->Size());
  ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
  ImPlot::SetupAxisFormat(ImAxis_Y1, format_token_tick);
  if (spec.x_range != nullptr)
    ImPlot::SetupAxisLinks(ImAxis_X1, &spec.x_range->Min, &spec.x_range->Max);
  if (spec.y_range != nullptr)
    ImPlot::SetupAxisLinks(ImAxis_Y1, &spec.y_range->Min, &spec.y_range->Max);
  if (spec.row_ticks) row_ticks(spec);
  if (spec.col_ticks) col_ticks(spec);
}

// Whole pixels of the screen, each drawn from one pixel of the texture: sampling may drop none.
void draw_pixels(DrawContext& context, const MapPlotSpec& spec, widgets::MapTexture& texture) {
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const ImVec2 at = ImPlot::GetPlotPos();
  const ImVec2 size = ImPlot::GetPlotSize();
  const ImVec2 density = ImGui::GetIO().DisplayFramebufferScale;
  const ImVec2 first(std::floor(at.x * density.x), std::floor(at.y * density.y));
  const ImVec2 last(std::ceil((at.x + size.x) * density.x), std::ceil((at.y + size.y) * density.y));
  const auto column = [&](float x) {
    return limits.X.Min + (x / density.x - at.x) / size.x * limits.X.Size();
  };
  const auto row = [&](float y) {
    return limits.Y.Min + (y / density.y - at.y) / size.y * limits.Y.Size();
  };
  const widgets::MapWindow window{row(first.y),
                                  row(last.y),
                                  column(first.x),
                                  column(last.x),
                                  static_cast<int>(last.x - first.x),
                                  static_cast<int>(last.y - first.y)};
  texture.update(context.workspace.memory,
                 fmt::format("{}|{}", spec.content_key, static_cast<int>(context.palette.kind)),
                 window, spec.fill);
  if (texture.empty()) return;
  ImPlot::PushPlotClipRect();
  ImPlot::GetPlotDrawList()->AddImage(texture.ref(), {first.x / density.x, first.y / density.y},
                                      {last.x / density.x, last.y / density.y});
  ImPlot::PopPlotClipRect();
}

}  // namespace

int format_token_tick(double value, char* buffer, int size, void*) {
  const double whole = std::round(value);
  if (std::abs(value - whole) > 1e-6)
    return std::snprintf(buffer, static_cast<std::size_t>(size), "%s", "");
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%s",
                       format_count(static_cast<std::int64_t>(whole)).c_str());
}

int percent_tick(double value, char* buffer, int size, void*) {
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%s",
                       state::share_tick_text(value).c_str());
}

const char* fitting(const char* name, const char* short_name, float plot_size) {
  // The other axis has its numbers and its name beside.
  return ImGui::CalcTextSize(name).x < plot_size - widgets::em(3.5F) ? name : short_name;
}

bool plot_clicked() {
  return ImPlot::IsPlotHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Left) &&
         ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F).x == 0 &&
         ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F).y == 0;
}

std::optional<MapPlotHit> map_plot_ui(DrawContext& context, const MapPlotSpec& spec,
                                      widgets::MapTexture& texture,
                                      const std::function<void()>& over) {
  std::optional<MapPlotHit> hit;
  bool all = false;
  constexpr ImPlotFlags kFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMenus |
                                 ImPlotFlags_NoMouseText | ImPlotFlags_NoBoxSelect;
  const ImPlotCond fit = shape_changed(spec) ? ImPlotCond_Always : ImPlotCond_Once;
  if (!ImPlot::BeginPlot(spec.id, spec.size, kFlags)) return hit;
  setup_axes(spec);
  if (spec.x_range == nullptr) ImPlot::SetupAxisLimits(ImAxis_X1, 0, spec.cols, fit);
  if (spec.y_range == nullptr) ImPlot::SetupAxisLimits(ImAxis_Y1, 0, spec.rows, fit);
  ImPlot::SetupFinish();
  draw_pixels(context, spec, texture);
  if (over) over();
  if (ImPlot::IsPlotHovered() && !context.figure) {
    const ImPlotPoint mouse = ImPlot::GetPlotMousePos();
    if (mouse.x >= 0 && mouse.x < spec.cols && mouse.y >= 0 && mouse.y < spec.rows)
      hit = MapPlotHit{mouse.y, mouse.x, plot_clicked()};
    all = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
  }
  ImPlot::EndPlot();  // writes the limits drawn into linked ranges
  if (all) show_all(spec);
  return hit;
}

}  // namespace kvloupe::panels
