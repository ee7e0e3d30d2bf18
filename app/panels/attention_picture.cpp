#include "app/panels/attention_picture.h"

#include "app/panels/kv_map_picture.h"
#include "app/panels/show_control.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::KeyVerdict;
using analysis::Matrix;
using state::AttentionRowQuestion;
using state::Place;
using state::SelectedVsTrueQuestion;
using state::Show;

constexpr const char* kView = "attention_map";

int prominence(KeyVerdict verdict) {
  switch (verdict) {
    case KeyVerdict::Miss: return 4;
    case KeyVerdict::Hit: return 3;
    case KeyVerdict::Waste: return 2;
    case KeyVerdict::Neither: return 1;
  }
  return 0;
}

// Hits, misses and wastes of one chunk, the most telling one of each pixel.
void fill_rug(const widgets::Palette& palette, const std::vector<KeyVerdict>* verdicts,
              const trace::ChunkInfo& chunk, std::int32_t num_tokens,
              const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  std::vector<ImU32> line(static_cast<std::size_t>(window.width), palette.panel);
  const std::int64_t known = verdicts == nullptr ? 0 : static_cast<std::int64_t>(verdicts->size());
  for (int x = 0; x < window.width && verdicts != nullptr; ++x) {
    const auto keys = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                          window.width, x, num_tokens);
    if (keys.first < chunk.end() && keys.second > chunk.begin) line[x] = palette.current;
    int best = 0;
    for (std::int64_t key = keys.first; key < std::min<std::int64_t>(keys.second, chunk.begin);
         ++key) {
      if (key >= known) break;
      const KeyVerdict verdict = (*verdicts)[static_cast<std::size_t>(key)];
      if (prominence(verdict) <= best) continue;
      best = prominence(verdict);
      line[x] = widgets::color_of(palette, verdict);
    }
  }
  for (int y = 0; y < window.height; ++y)
    std::copy(line.begin(), line.end(),
              pixels.begin() + static_cast<std::ptrdiff_t>(y) * window.width);
}

// Who kept which keys of one chunk.
void fill_kept_by(const widgets::Palette& palette, const std::vector<KeyVerdict>& a,
                  const std::vector<KeyVerdict>& b, const trace::ChunkInfo& chunk,
                  std::int32_t num_tokens, const widgets::MapWindow& window,
                  std::vector<ImU32>& pixels) {
  const auto known = static_cast<std::int64_t>(std::min(a.size(), b.size()));
  for (int x = 0; x < window.width; ++x) {
    const auto keys = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                          window.width, x, num_tokens);
    KeptByCounts counts{};
    for (std::int64_t key = keys.first;
         key < std::min({keys.second, std::int64_t{chunk.begin}, known}); ++key) {
      const auto i = static_cast<std::size_t>(key);
      ++counts[(analysis::is_kept(a[i]) ? 1U : 0U) + (analysis::is_kept(b[i]) ? 2U : 0U)];
    }
    const bool current = keys.first < chunk.end() && keys.second > chunk.begin;
    const ImU32 color = current ? palette.current : color_of_keys(palette, counts);
    for (int y = 0; y < window.height; ++y)
      pixels[static_cast<std::size_t>(y) * window.width + static_cast<std::size_t>(x)] = color;
  }
}

using Lines = std::vector<widgets::TooltipLine>;

Lines pair_lines(DrawContext& context, const Place& place, std::int32_t query, std::int32_t key) {
  const trace::TraceInfo& info = place.info();
  Place there = place;
  there.chunk = info.chunk_of_token(query);
  there.query = query;
  context.workspace.pointer.at(there, key);
  const auto line = [&](const char* what, std::int32_t position) {
    return widgets::TooltipLine{fmt::format("{} {}   ({})", what, token_line(place, position),
                                            chunk_name(info, info.chunk_of_token(position)))};
  };
  Lines lines{line("query", query), line("key   ", key)};
  if (key > query) lines.push_back({"after the query: not visible"});
  return lines;
}

widgets::TooltipLine value_line(const Matrix* rows, std::int64_t row, std::int32_t key) {
  if (rows != nullptr && row < rows->rows && key < rows->cols)
    return {fmt::format("attention {}", share_text(rows->at(row, key)))};
  return {"attention \u2026"};
}

void add_block(const analysis::AttentionMap& map, std::int32_t query, std::int32_t key,
               Lines& lines) {
  const std::int64_t r = query / map.step, c = key / map.step;
  if (map.step > 1 && r < map.max.rows && c < map.max.cols && map.max.at(r, c) >= 0)
    lines.push_back({fmt::format("largest of these {} x {} cells {}", map.step, map.step,
                                 share_text(map.max.at(r, c)))});
}

}  // namespace

ColorRange attention_range(const state::Workspace& workspace) {
  ColorRange range;
  range.logarithmic = workspace.option(kView, "color_scale") == "log";
  range.low = parse_double(workspace.option(kView, "color_from")).value_or(range.low);
  range.high = parse_double(workspace.option(kView, "color_to")).value_or(range.high);
  return range;
}

void AttentionPicture::ask(
    state::Workspace& workspace, const Place& now,
    const std::vector<std::pair<std::size_t, state::MethodChoice>>& methods) {
  // What is sooner there is asked for first.
  const state::AttentionStripQuestion sketch{now, true};
  const bool sketches = !now.empty() && missing(now).empty() && sketch.is_large();
  const Strip sketched = sketches ? workspace.ask(sketch) : Strip();
  strip_ = last_strip_.ask(workspace, {now});
  if (sketched && (!strip_ || strip_.stale)) strip_ = sketched;
  map_ = last_map_.ask(workspace, {now});
  place_ = strip_ ? strip_.question.place : now;
  kept_.clear();
  for (const auto& [index, method] : methods)
    kept_.push_back(kept_of(workspace, index, now, method));
}

AttentionPicture::Kept AttentionPicture::kept_of(state::Workspace& workspace, std::size_t index,
                                                 const Place& now,
                                                 const state::MethodChoice& method) {
  Kept kept{index, {}, {}};
  kept.verdicts = last_verdicts_[index].ask(workspace, SelectedVsTrueQuestion{now, method});
  // Parts of another place are not drawn beside this one.
  if (kept.verdicts && kept.verdicts.question.place.cell_key() != place_.cell_key())
    kept.verdicts.answer = {};
  if (kept.verdicts)
    kept.facts = kept.verdicts->facts;
  else if (place_.trace == now.trace)  // a run belongs to one trace alone
    kept.facts = state::facts_of(place_, method);
  return kept;
}

bool AttentionPicture::is_stale() const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [](const Kept& one) { return one.verdicts && one.verdicts.stale; });
}

std::int64_t AttentionPicture::num_broken() const {
  return map_ && map_.question.place.head_key() == place_.head_key() ? map_->num_broken : 0;
}

void AttentionPicture::fit() {
  const double num_tokens = place_.info().num_tokens;
  if (shown_tokens_ == num_tokens) return;
  shown_tokens_ = num_tokens;
  x_range_ = {0, num_tokens};
  y_range_ = {0, num_tokens};
}

std::optional<AttentionPicture::Pair> AttentionPicture::draw(DrawContext& context, ImVec2 room,
                                                             Show show,
                                                             const std::optional<Pair>& pointed,
                                                             const Choose& choose) {
  shows_ = show;
  pointed_ = pointed;
  choose_ = choose;
  hit_.reset();
  fit();
  plots_ui(context, room);
  return hit_;
}

void AttentionPicture::plots_ui(DrawContext& context, ImVec2 size) {
  // In a low panel the parts shrink, then it scrolls. In a low figure the whole map goes, then the
  // rug.
  const float rug = widgets::em(shows_ == Show::Both ? 3.8F : 2.6F);
  const float least = plot_height(context, widgets::em(5.5F));
  const float gaps = (shows_ == Show::Both ? 3 : 2) * ImGui::GetStyle().ItemSpacing.y;
  float room = size.y - gaps;
  if (!context.figure) room = std::max(room, 2 * least + rug);
  // The rows of the chunk are what is looked at; the whole map has what is left of it, if that is enough.
  const float rows = std::max(least, std::min(room * 0.6F, room - rug - least));
  if (!ImPlot::BeginAlignedPlots("##attention", true)) return;
  if (room >= least + rug + rows) {
    whole_map_ui(context, {-1, room - rug - rows});
    rugs_ui(context, rug);
    rows_ui(context, {-1, rows});
  } else if (room >= rug + least) {
    rugs_ui(context, rug);
    rows_ui(context, {-1, room - rug});
  } else {
    rows_ui(context, {-1, std::max(least, room)});
  }
  ImPlot::EndAlignedPlots();
}

void AttentionPicture::whole_map_ui(DrawContext& context, ImVec2 size) {
  const Map& map = map_;
  const Place& place = place_;
  if (!map || map.question.place.head_key() != place.head_key()) {
    ImGui::BeginChild("whole map", {0, size.y});
    if (map.state == state::ResultState::Error)
      failure_ui(context, map.error);
    else
      widgets::loading_ui(context.palette, "Reducing the whole map");
    ImGui::EndChild();
    return;
  }
  const ColorRange range = attention_range(context.workspace);
  const double step = static_cast<double>(map->step);
  MapPlotSpec spec;
  spec.id = "##whole map";
  spec.y_label = "query";
  spec.rows = spec.cols = place.info().num_tokens;
  spec.size = size;
  spec.show_x_ticks = false;
  spec.content_key = map.key + range.key();
  spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    fill_matrix(context.palette, range, map->max, {step, step}, window, pixels);
  };
  spec.x_range = &x_range_;
  spec.y_range = &y_range_;
  const auto hit = map_plot_ui(context, spec, map_texture_, [&] {
    chunk_lines(context);
    pointed_ui(context, true);
    span_marks_ui(context, place, true);
  });
  if (!hit) return;
  const auto query = static_cast<std::int32_t>(hit->row);
  const auto key = static_cast<std::int32_t>(hit->col);
  hit_ = Pair{query, key};
  if (hit->clicked && !map.stale) choose_(*hit_);
  auto lines = pair_lines(context, place, query, key);
  if (key <= query) {
    Place row = place;
    row.query = query;
    row.queries = {};  // one picture of each row, whatever is selected
    const auto exact = context.workspace.ask(AttentionRowQuestion{row});
    lines.push_back(value_line(exact ? &*exact : nullptr, 0, key));
    add_block(*map, query, key, lines);
  }
  widgets::tooltip(std::move(lines));
}

void AttentionPicture::chunk_lines(DrawContext& context) const {
  const Place& place = place_;
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  ImPlot::PushPlotClipRect();
  const auto& chunks = place.info().chunks;
  const float spacing =
      ImPlot::GetPlotSize().y * static_cast<float>(chunks.front().length / limits.Y.Size());
  if (spacing > 6)
    for (const trace::ChunkInfo& chunk : chunks)
      if (chunk.phase == trace::Phase::Prefill)
        draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, chunk.begin),
                      ImPlot::PlotToPixels(limits.X.Max, chunk.begin),
                      widgets::with_alpha(context.palette.faint, 0.22F));
  const trace::ChunkInfo& here = place.chunk_info();
  draw->AddRect(ImPlot::PlotToPixels(limits.X.Min, here.begin),
                ImPlot::PlotToPixels(limits.X.Max, here.end()), context.palette.accent, 0, 0,
                std::max(1.0F, widgets::em(0.1F)));
  ImPlot::PopPlotClipRect();
}

// What the mouse points at in the picture of another trace.
void AttentionPicture::pointed_ui(DrawContext& context, bool with_query) const {
  if (!pointed_) return;
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const ImU32 color = widgets::with_alpha(context.palette.text, 0.6F);
  ImPlot::PushPlotClipRect();
  ImDrawList* draw = ImPlot::GetPlotDrawList();
  const double key = pointed_->key + 0.5, query = pointed_->query + 0.5;
  draw->AddLine(ImPlot::PlotToPixels(key, limits.Y.Min), ImPlot::PlotToPixels(key, limits.Y.Max),
                color);
  if (with_query && pointed_->query >= 0)
    draw->AddLine(ImPlot::PlotToPixels(limits.X.Min, query),
                  ImPlot::PlotToPixels(limits.X.Max, query), color);
  ImPlot::PopPlotClipRect();
}

// Hits, misses and wastes of a method for the chunk, one band over the keys; of the difference who
// kept them.
void AttentionPicture::rugs_ui(DrawContext& context, float height) {
  const std::vector<Kept>& kept = kept_;
  const Place& place = place_;
  if (shows_ == Show::Difference) {
    const bool known = kept[0].verdicts && kept[1].verdicts;
    static const std::vector<KeyVerdict> kNone;
    const auto& a = known ? kept[0].verdicts->cell.verdict : kNone;
    const auto& b = known ? kept[1].verdicts->cell.verdict : kNone;
    MapPlotSpec spec = rug_of("##rug", "A / B", height);
    spec.content_key =
        known ? "difference|" + kept[0].verdicts.key + "|" + kept[1].verdicts.key : "none";
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_kept_by(context.palette, a, b, place.chunk_info(), place.info().num_tokens, window,
                   pixels);
    };
    map_plot_ui(context, spec, rug_textures_[0], [&] { span_edges_ui(context, place); });
    return;
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const Verdicts& verdicts = kept[i].verdicts;
    MapPlotSpec spec =
        rug_of(i == 0 ? "##rug" : "##rug b", kept.size() == 1 ? "kept" : letter_of_method(i),
               height / static_cast<float>(kept.size()));
    spec.content_key = verdicts ? verdicts.key : "none";
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_rug(context.palette, verdicts ? &verdicts->cell.verdict : nullptr, place.chunk_info(),
               place.info().num_tokens, window, pixels);
    };
    map_plot_ui(context, spec, rug_textures_[i], [&] { span_edges_ui(context, place); });
  }
}

MapPlotSpec AttentionPicture::rug_of(const char* id, const std::string& label, float height) {
  MapPlotSpec spec;
  spec.id = id;
  spec.rows = 1;
  spec.y_label = label;
  spec.cols = place_.info().num_tokens;
  spec.size = {-1, height};
  spec.show_x_ticks = spec.show_y_ticks = false;
  spec.x_range = &x_range_;
  return spec;
}

// Bars left of the rows in which the question is asked, and over them those of the selected queries.
void AttentionPicture::question_rows_ui(DrawContext& context, const Place& place) {
  const trace::ChunkInfo& chunk = place.chunk_info();
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const auto bar = [&](std::int32_t row, float right, ImU32 color) {
    const double from = std::clamp<double>(row, limits.Y.Min, limits.Y.Max);
    const double to = std::clamp<double>(row + 1, limits.Y.Min, limits.Y.Max);
    if (from >= to) return;
    ImPlot::GetPlotDrawList()->AddRectFilled(
        {right - widgets::em(0.28F), ImPlot::PlotToPixels(0, from).y},
        {right, ImPlot::PlotToPixels(0, to).y + 0.5F}, color);
  };
  const float left = ImPlot::GetPlotPos().x;
  for (std::int32_t row = 0; row < chunk.length; ++row)
    if (state::in_question(place, chunk.begin + row)) bar(row, left, context.palette.muted);
  for (const std::int32_t row : place.looked_at()) bar(row, left, context.palette.accent);
}

void AttentionPicture::rows_ui(DrawContext& context, ImVec2 size) {
  const Strip& strip = strip_;
  const Place& place = place_;
  const trace::ChunkInfo& chunk = place.chunk_info();
  const ColorRange range = attention_range(context.workspace);
  const bool decode = chunk.phase == trace::Phase::Decode;
  MapPlotSpec spec;
  spec.id = "##chunk rows";
  spec.x_label = "key (token position)";
  spec.y_label = fmt::format("{} {}{}", decode ? "step" : "chunk", place.chunk,
                             strip.question.is_sketch ? ", sketch" : "");
  spec.rows = chunk.length;
  spec.cols = place.info().num_tokens;
  spec.size = size;
  spec.show_y_ticks = !decode;
  if (rows_shown_ != chunk.length) {
    rows_shown_ = chunk.length;
    rows_range_ = {0, static_cast<double>(chunk.length)};
  }
  const state::Result<state::AttentionRowsQuestion> rows = closer_rows(context);
  spec.content_key = strip.key + range.key() + (rows ? "|rows" : "");
  spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    fill_strip(context.palette, range, *strip, rows ? &*rows : nullptr, window, pixels);
  };
  spec.x_range = &x_range_;
  spec.y_range = &rows_range_;
  const auto hit = map_plot_ui(context, spec, rows_texture_, [&] {
    pointed_ui(context, false);
    question_rows_ui(context, place);
    span_marks_ui(context, place, true);
  });
  if (!hit) return;
  const auto row = static_cast<std::int64_t>(hit->row);
  const std::int32_t query = chunk.begin + static_cast<std::int32_t>(row);
  const auto key = static_cast<std::int32_t>(hit->col);
  hit_ = Pair{query, key};
  if (hit->clicked && !strip.stale) choose_(*hit_);
  auto lines = pair_lines(context, place, query, key);
  if (key <= query && strip->rows) {
    lines.push_back(value_line(strip->rows.get(), row, key));
  } else if (key <= query) {
    Place exact = place;
    exact.query = query;
    exact.queries = {};
    const auto of_query = context.workspace.ask(AttentionRowQuestion{exact});
    lines.push_back(value_line(of_query ? &*of_query : nullptr, 0, key));
  }
  widgets::tooltip(std::move(lines));
}

// Where the strip is coarse and the user has zoomed in: the rows themselves, nothing else.
state::Result<state::AttentionRowsQuestion> AttentionPicture::closer_rows(
    DrawContext& context) const {
  if (!wants_rows(*strip_, rows_range_.Size(), x_range_.Size())) return {};
  return context.workspace.ask(state::AttentionRowsQuestion{place_});
}

}  // namespace kvloupe::panels
