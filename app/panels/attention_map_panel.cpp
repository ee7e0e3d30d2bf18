// attention_map: the attention of one query head. Above the whole map, reduced by maximum; below
// the rows of the current chunk, exact, with what A, B or both kept and missed between the two.
#include "app/panels/kv_map_picture.h"
#include "app/panels/map_plot.h"
#include "app/panels/matrix_picture.h"
#include "app/panels/show_control.h"
#include "app/state/questions/kept/attention_map.h"
#include "app/state/questions/kept/selected_vs_true.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using analysis::KeyVerdict;
using analysis::Matrix;
using state::AttentionMapQuestion;
using state::AttentionRowQuestion;
using state::AttentionStripQuestion;
using state::Place;
using state::SelectedVsTrueQuestion;
using state::Show;
using state::Slot;
using Strip = state::Result<AttentionStripQuestion>;
using Map = state::Result<AttentionMapQuestion>;
using Verdicts = state::Result<SelectedVsTrueQuestion>;

constexpr const char* kView = "attention_map";

ColorRange range_of(const state::Workspace& workspace) {
  ColorRange range;
  range.logarithmic = workspace.option(kView, "color_scale") == "log";
  range.low = parse_double(workspace.option(kView, "color_from")).value_or(range.low);
  range.high = parse_double(workspace.option(kView, "color_to")).value_or(range.high);
  return range;
}

int prominence(KeyVerdict verdict) {
  switch (verdict) {
    case KeyVerdict::Miss:
      return 4;
    case KeyVerdict::Hit:
      return 3;
    case KeyVerdict::Waste:
      return 2;
    case KeyVerdict::Neither:
      return 1;
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
  const auto is_kept = [](KeyVerdict verdict) {
    return verdict == KeyVerdict::Hit || verdict == KeyVerdict::Waste;
  };
  const auto known = static_cast<std::int64_t>(std::min(a.size(), b.size()));
  for (int x = 0; x < window.width; ++x) {
    const auto keys = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                          window.width, x, num_tokens);
    KeptByCounts counts{};
    for (std::int64_t key = keys.first;
         key < std::min({keys.second, std::int64_t{chunk.begin}, known}); ++key) {
      const auto i = static_cast<std::size_t>(key);
      ++counts[(is_kept(a[i]) ? 1U : 0U) + (is_kept(b[i]) ? 2U : 0U)];
    }
    const bool current = keys.first < chunk.end() && keys.second > chunk.begin;
    const ImU32 color = current ? palette.current : color_of_keys(palette, counts);
    for (int y = 0; y < window.height; ++y)
      pixels[static_cast<std::size_t>(y) * window.width + static_cast<std::size_t>(x)] = color;
  }
}

class AttentionMapPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    state::Workspace& workspace = context.workspace;
    const Place& now = workspace.place();
    const Strip strip = strip_.ask(workspace, {now});
    const Map map = map_.ask(workspace, {now});
    const Place place = strip ? strip.question.place : now;
    shows_ = show_now(context, kView);
    std::vector<Kept> kept;
    for (const Slot slot : shows_ == Show::One ? std::vector{workspace.selection().shown}
                                               : std::vector{Slot::A, Slot::B})
      kept.push_back(kept_of(workspace, slot, now, place));
    head_.begin();
    head_ui(context, place, kept);
    if (std::any_of(kept.begin(), kept.end(),
                    [](const Kept& one) { return one.verdicts && one.verdicts.stale; }))
      widgets::stale_ui(context.palette);
    if (!ready_ui(context, strip, "Recomputing the chunk's attention from Q and K")) return;
    if (kept.size() == 1 && kept[0].verdicts)
      method_note_ui(context, place, kept[0].verdicts->facts);
    const std::int64_t broken_of_all =
        map && map.question.place.head_key() == place.head_key() ? map->num_broken : 0;
    broken_ui(context, strip->num_broken, broken_of_all);
    scale_ui(context, place.chunk_info(), shows_ == Show::Difference);
    head_.end(fmt::format("{}|{}|{}", place.cell_key(), workspace.method(Slot::A).key(),
                          workspace.method(Slot::B).key()));
    ImGui::Dummy({0, widgets::em(0.9F)});
    plots_ui(context, strip, map, kept);
  }

 private:
  // What is known of one method in the chunk drawn.
  struct Kept {
    Slot slot;
    Verdicts verdicts;
    state::MethodFacts facts;
  };

  Kept kept_of(state::Workspace& workspace, Slot slot, const Place& now, const Place& place) {
    Kept kept{slot, {}, {}};
    const SelectedVsTrueQuestion wanted{now, workspace.method(slot)};
    kept.verdicts = verdicts_[static_cast<std::size_t>(slot)].ask(workspace, wanted);
    // Parts of another place are not drawn beside this one.
    if (kept.verdicts && kept.verdicts.question.place.cell_key() != place.cell_key())
      kept.verdicts.answer = {};
    if (kept.verdicts)
      kept.facts = kept.verdicts->facts;
    else if (place.trace == now.trace)  // a run belongs to one trace alone
      kept.facts = state::facts_of(place, wanted.method);
    return kept;
  }

  static void head_ui(DrawContext& context, const Place& place, const std::vector<Kept>& kept) {
    auto chips = trace_chips(context, place);
    const state::MethodFacts& facts = kept.front().facts;
    if (kept.size() == 1 && !facts.choice.empty()) {
      // The method's chips say the precision, too.
      std::erase_if(chips,
                    [](const widgets::Chip& chip) { return chip.text.starts_with("stored"); });
      for (widgets::Chip& chip : method_chips(context, place, facts, kept.front().slot))
        chips.push_back(std::move(chip));
    }
    show_ui(context, kView);
    widgets::figure_head_ui(context.palette, context.figure, "Attention map", "",
                            place_caption(place), chips);
    if (kept.size() == 2) both_chips_ui(context, place, kept[0].facts, kept[1].facts);
  }

  static void broken_ui(DrawContext& context, std::int64_t of_chunk, std::int64_t of_all) {
    if (of_chunk == 0 && of_all == 0) return;
    widgets::text_wrapped(
        context.palette.error,
        fmt::format("{} in this chunk and {} in the whole map: the stored Q or K "
                    "hold a NaN or an infinity. They are drawn in this colour.",
                    of_chunk == 1 ? "1 value is not a number"
                                  : format_count(of_chunk) + " values are not numbers",
                    of_all == 0 ? "more may be" : format_count(of_all)));
  }

  static void scale_ui(DrawContext& context, const trace::ChunkInfo& chunk, bool difference) {
    color_range_ui(context, range_of(context.workspace));
    beside_ui(widgets::em(1.5F), widgets::em(9));
    const bool decode = chunk.phase == trace::Phase::Decode;
    std::vector<widgets::LegendItem> items{{"hit: kept and true", context.palette.hit},
                                           {"miss: true, not kept", context.palette.miss},
                                           {"waste: kept, not true", context.palette.waste}};
    if (difference) items = kept_by_legend(context.palette);
    items.push_back({decode ? "current step" : "current chunk", context.palette.current});
    widgets::legend_ui(context.palette, items);
    if (context.figure) return;
    beside_ui(widgets::em(1.5F), widgets::em(8));
    option_ui(context, kView, "color_scale", "colours", widgets::em(5));
    beside_ui(widgets::em(0.8F), widgets::em(9));
    option_ui(context, kView, "color_from", "from", widgets::em(6));
    beside_ui(widgets::em(0.8F), widgets::em(7));
    option_ui(context, kView, "color_to", "to", widgets::em(5));
  }

  void plots_ui(DrawContext& context, const Strip& strip, const Map& map,
                const std::vector<Kept>& kept) {
    const double num_tokens = strip.question.place.info().num_tokens;
    if (shown_tokens_ != num_tokens) {
      shown_tokens_ = num_tokens;
      x_range_ = {0, num_tokens};
      y_range_ = {0, num_tokens};
    }
    // In a low panel the parts shrink, then it scrolls. In a low figure the whole map goes, then the
    // rug.
    const float rug = widgets::em(2.6F) * (shows_ == Show::Both ? 2 : 1);
    const float least = plot_height(context, widgets::em(5.5F));
    float room = ImGui::GetContentRegionAvail().y;
    if (!context.figure) room = std::max(room, 2 * least + rug);
    const float rows = std::max(least, room * 0.27F);
    const Place& place = strip.question.place;
    if (!ImPlot::BeginAlignedPlots("##attention", true)) return;
    if (room >= least + rug + rows) {
      whole_map_ui(context, map, place, {-1, room - rug - rows});
      rugs_ui(context, kept, place, rug);
      rows_ui(context, strip, {-1, rows});
    } else if (room >= rug + least) {
      rugs_ui(context, kept, place, rug);
      rows_ui(context, strip, {-1, room - rug});
    } else {
      rows_ui(context, strip, {-1, std::max(least, room)});
    }
    ImPlot::EndAlignedPlots();
  }

  void whole_map_ui(DrawContext& context, const Map& map, const Place& place, ImVec2 size) {
    if (!map || map.question.place.head_key() != place.head_key()) {
      ImGui::BeginChild("whole map", {0, size.y});
      if (map.state == state::ResultState::Error)
        failure_ui(context, map.error);
      else
        widgets::loading_ui(context.palette, "Reducing the whole map");
      ImGui::EndChild();
      return;
    }
    const ColorRange range = range_of(context.workspace);
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
      chunk_lines(context, place);
      span_marks_ui(context, place, true);
    });
    if (!hit) return;
    const auto query = static_cast<std::int32_t>(hit->row);
    const auto key = static_cast<std::int32_t>(hit->col);
    if (hit->clicked && !map.stale) choose(context, place, query, key);
    auto lines = pair_lines(context, place, query, key);
    if (key <= query) {
      Place row = place;
      row.query = query;
      const auto exact = context.workspace.ask(AttentionRowQuestion{row});
      lines.push_back(value_line(exact ? &*exact : nullptr, 0, key));
      add_block(*map, query, key, lines);
    }
    widgets::tooltip(std::move(lines));
  }

  static void chunk_lines(DrawContext& context, const Place& place) {
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

  // Hits, misses and wastes of a method for the chunk, one band over the keys; of the difference who
  // kept them.
  void rugs_ui(DrawContext& context, const std::vector<Kept>& kept, const Place& place,
               float height) {
    if (shows_ == Show::Difference) {
      const bool known = kept[0].verdicts && kept[1].verdicts;
      static const std::vector<KeyVerdict> kNone;
      const auto& a = known ? kept[0].verdicts->cell.verdict : kNone;
      const auto& b = known ? kept[1].verdicts->cell.verdict : kNone;
      MapPlotSpec spec = rug_of(place, "##rug", "A / B", height);
      spec.content_key =
          known ? "difference|" + kept[0].verdicts.key + "|" + kept[1].verdicts.key : "none";
      spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
        fill_kept_by(context.palette, a, b, place.chunk_info(), place.info().num_tokens, window,
                     pixels);
      };
      map_plot_ui(context, spec, rug_textures_[0], {});
      return;
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const Verdicts& verdicts = kept[i].verdicts;
      MapPlotSpec spec = rug_of(place, i == 0 ? "##rug" : "##rug b",
                                kept.size() == 1 ? "kept" : letter_of_method(i),
                                height / static_cast<float>(kept.size()));
      spec.content_key = verdicts ? verdicts.key : "none";
      spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
        fill_rug(context.palette, verdicts ? &verdicts->cell.verdict : nullptr, place.chunk_info(),
                 place.info().num_tokens, window, pixels);
      };
      map_plot_ui(context, spec, rug_textures_[i], {});
    }
  }

  MapPlotSpec rug_of(const Place& place, const char* id, const std::string& label, float height) {
    MapPlotSpec spec;
    spec.id = id;
    spec.rows = 1;
    spec.y_label = label;
    spec.cols = place.info().num_tokens;
    spec.size = {-1, height};
    spec.show_x_ticks = spec.show_y_ticks = false;
    spec.x_range = &x_range_;
    return spec;
  }

  void rows_ui(DrawContext& context, const Strip& strip, ImVec2 size) {
    const Place& place = strip.question.place;
    const trace::ChunkInfo& chunk = place.chunk_info();
    const ColorRange range = range_of(context.workspace);
    const bool decode = chunk.phase == trace::Phase::Decode;
    MapPlotSpec spec;
    spec.id = "##chunk rows";
    spec.x_label = "key (token position)";
    spec.y_label = fmt::format("{} {}", decode ? "step" : "chunk", place.chunk);
    spec.rows = chunk.length;
    spec.cols = place.info().num_tokens;
    spec.size = size;
    spec.show_y_ticks = !decode;
    spec.content_key = strip.key + range.key();
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_strip(context.palette, range, *strip, window, pixels);
    };
    spec.x_range = &x_range_;
    if (rows_shown_ != chunk.length) {
      rows_shown_ = chunk.length;
      rows_range_ = {0, static_cast<double>(chunk.length)};
    }
    spec.y_range = &rows_range_;
    const auto hit =
        map_plot_ui(context, spec, rows_texture_, [&] { span_marks_ui(context, place, true); });
    if (!hit) return;
    const auto row = static_cast<std::int64_t>(hit->row);
    const std::int32_t query = chunk.begin + static_cast<std::int32_t>(row);
    const auto key = static_cast<std::int32_t>(hit->col);
    if (hit->clicked && !strip.stale) choose(context, place, query, key);
    auto lines = pair_lines(context, place, query, key);
    if (key <= query) lines.push_back(value_line(strip->rows.get(), row, key));
    widgets::tooltip(std::move(lines));
  }

  static void choose(DrawContext& context, const Place& place, std::int32_t query,
                     std::int32_t key) {
    context.workspace.cursor.change("", [&](state::Selection& s) {
      s.place.chunk = place.info().chunk_of_token(query);
      s.place.query = query;
      s.place.key_begin = key;
      s.place.key_end = key + 1;
    });
  }

  using Lines = std::vector<widgets::TooltipLine>;

  static Lines pair_lines(DrawContext& context, const Place& place, std::int32_t query,
                          std::int32_t key) {
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

  static widgets::TooltipLine value_line(const Matrix* rows, std::int64_t row, std::int32_t key) {
    if (rows != nullptr && row < rows->rows && key < rows->cols)
      return {fmt::format("attention {}", share_text(rows->at(row, key)))};
    return {"attention \u2026"};
  }

  static void add_block(const analysis::AttentionMap& map, std::int32_t query, std::int32_t key,
                        Lines& lines) {
    const std::int64_t r = query / map.step, c = key / map.step;
    if (map.step > 1 && r < map.max.rows && c < map.max.cols)
      lines.push_back({fmt::format("largest of these {} x {} cells {}", map.step, map.step,
                                   share_text(map.max.at(r, c)))});
  }

  state::LastAnswer<AttentionStripQuestion> strip_;
  state::LastAnswer<AttentionMapQuestion> map_;
  std::array<state::LastAnswer<SelectedVsTrueQuestion>, 2> verdicts_;  // of A and B
  Show shows_ = Show::One;                                             // in this frame
  SteadyHead head_;
  widgets::MapTexture map_texture_, rows_texture_;
  std::array<widgets::MapTexture, 2> rug_textures_;
  ImPlotRange x_range_, y_range_, rows_range_;
  double shown_tokens_ = 0;
  std::int32_t rows_shown_ = 0;
};

}  // namespace

std::unique_ptr<Panel> make_attention_map_panel() { return std::make_unique<AttentionMapPanel>(); }

}  // namespace kvloupe::panels
