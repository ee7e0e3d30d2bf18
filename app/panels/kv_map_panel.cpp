// kv_map: which keys a row kept, chunk by chunk. Rows are chunks, columns keys.
#include "app/panels/map_plot.h"
#include "app/state/labels.h"
#include "app/state/questions/kv_map.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::KeyState;
using state::KvMapQuestion;
using state::Place;
using state::RecallQuestion;
using state::Slot;
using Map = state::Result<KvMapQuestion>;
using Recall = state::Result<RecallQuestion>;

constexpr std::array<KeyState, 8> kLegendOrder{
    KeyState::Kept,    KeyState::Sink,    KeyState::Recent,  KeyState::Dense,
    KeyState::Current, KeyState::Dropped, KeyState::Evicted, KeyState::Hidden};

// One pixel of several keys: the most telling state, over the most common quiet one. A single kept
// key keeps at least half of its colour; the share says how dense the pixel is.
class PixelMix {
 public:
  explicit PixelMix(const widgets::Palette& palette) : palette_(palette) {}
  void add(KeyState state, std::int32_t count) {
    counts_[static_cast<std::size_t>(state)] += count;
  }
  ImU32 color() const {
    std::int64_t total = 0;
    int best = -1, quiet = -1;
    for (int s = 0; s < analysis::kNumKeyStates; ++s) {
      const std::int32_t count = counts_[static_cast<std::size_t>(s)];
      if (count == 0) continue;
      total += count;
      const auto state = static_cast<KeyState>(s);
      if (best < 0 ||
          widgets::prominence_of(state) > widgets::prominence_of(static_cast<KeyState>(best)))
        best = s;
      const bool is_quiet = state == KeyState::Dropped || state == KeyState::Evicted ||
                            state == KeyState::Hidden || state == KeyState::Future;
      if (is_quiet && (quiet < 0 || count > counts_[static_cast<std::size_t>(quiet)])) quiet = s;
    }
    if (best < 0) return palette_.future;
    const ImU32 color = widgets::color_of(palette_, static_cast<KeyState>(best));
    if (quiet < 0 || quiet == best) return color;
    const double share = 1.0 - static_cast<double>(counts_[static_cast<std::size_t>(quiet)]) /
                                   static_cast<double>(total);
    return widgets::mix(widgets::color_of(palette_, static_cast<KeyState>(quiet)), color,
                        0.5 + 0.5 * share);
  }

 private:
  const widgets::Palette& palette_;
  std::array<std::int32_t, analysis::kNumKeyStates> counts_{};
};

// Where keys die, as pixels: the end of a column is marked at the foot of the last chunk that it was
// alive in, however small the picture.
class DeathMarks {
 public:
  DeathMarks(const analysis::KvMap& map, const widgets::MapWindow& window)
      : num_chunks_(map.chunks.size()),
        dies_(static_cast<std::size_t>(window.width) * map.chunks.size(), 0) {
    if (map.evict_chunk.empty()) return;
    for (int x = 0; x < window.width; ++x) {
      const auto keys = widgets::MapTexture::cells_of_pixel(window.col_begin, window.col_end,
                                                            window.width, x, map.num_tokens);
      for (std::int64_t key = keys.first; key < keys.second; ++key)
        if (const auto chunk = map.death_of(static_cast<std::int32_t>(key)))
          if (static_cast<std::size_t>(*chunk) < num_chunks_) dies_[index(x, *chunk)] = 1;
    }
  }
  // Any key of the pixel's columns, after one of the chunks.
  bool at(int x, std::int64_t first_chunk, std::int64_t last_chunk) const {
    for (std::int64_t chunk = first_chunk; chunk < last_chunk; ++chunk)
      if (dies_[index(x, static_cast<int>(chunk))] != 0) return true;
    return false;
  }

 private:
  std::size_t index(int x, int chunk) const {
    return static_cast<std::size_t>(x) * num_chunks_ + static_cast<std::size_t>(chunk);
  }
  std::size_t num_chunks_;
  std::vector<std::uint8_t> dies_;
};

// Lays the marks over the pixels of the map. Rows of a few pixels end in a line; smaller ones are
// tinted.
void mark_deaths(const widgets::Palette& palette, const analysis::KvMap& map,
                 const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  if (map.evict_chunk.empty()) return;
  const DeathMarks marks(map, window);
  const auto num_chunks = static_cast<std::int64_t>(map.chunks.size());
  const double row_pixels = window.height / (window.row_end - window.row_begin);
  const double foot = std::max(1.0, std::round(0.14 * row_pixels)) / row_pixels;
  constexpr double kTintBelow = 4;
  for (int y = 0; y < window.height; ++y) {
    const double from = window.row_begin + y / row_pixels, to = from + 1 / row_pixels;
    std::int64_t first = static_cast<std::int64_t>(from);
    std::int64_t last = first + 1;
    if (row_pixels < kTintBelow)
      last = std::max(last, static_cast<std::int64_t>(std::ceil(to)));
    else if (from + 0.5 / row_pixels < static_cast<double>(last) - foot)
      continue;  // not the foot of its row
    first = std::clamp<std::int64_t>(first, 0, num_chunks);
    last = std::clamp<std::int64_t>(last, 0, num_chunks);
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window.width;
    for (int x = 0; x < window.width; ++x)
      if (marks.at(x, first, last))
        line[x] = row_pixels < kTintBelow ? widgets::mix(line[x], palette.died, 0.5) : palette.died;
  }
}

void fill_map(const widgets::Palette& palette, const KvMapQuestion::Answer& result,
              const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
  const analysis::KvMap& map = result.map;
  const auto num_chunks = static_cast<std::int64_t>(map.chunks.size());
  const double cells = (window.row_end - window.row_begin) * (window.col_end - window.col_begin);
  constexpr double kExactCells = 8e6;
  const bool exact = cells <= kExactCells || result.grid.rows == 0;
  const std::int64_t rows = exact ? num_chunks : result.grid.rows;
  const std::int64_t cols = exact ? map.num_tokens : result.grid.cols;
  const double row_scale = static_cast<double>(rows) / static_cast<double>(num_chunks);
  const double col_scale = static_cast<double>(cols) / map.num_tokens;
  std::vector<std::pair<std::int64_t, std::int64_t>> columns;
  for (int x = 0; x < window.width; ++x)
    columns.push_back(widgets::MapTexture::cells_of_pixel(
        window.col_begin * col_scale, window.col_end * col_scale, window.width, x, cols));
  std::pair<std::int64_t, std::int64_t> previous{-1, -1};
  for (int y = 0; y < window.height; ++y) {
    ImU32* line = pixels.data() + static_cast<std::size_t>(y) * window.width;
    const auto range = widgets::MapTexture::cells_of_pixel(
        window.row_begin * row_scale, window.row_end * row_scale, window.height, y, rows);
    if (range == previous) {
      std::copy(line - window.width, line, line);
      continue;
    }
    previous = range;
    for (int x = 0; x < window.width; ++x) {
      PixelMix mix(palette);
      for (std::int64_t r = range.first; r < range.second; ++r)
        for (std::int64_t c = columns[x].first; c < columns[x].second; ++c) {
          if (exact) {
            mix.add(map.at(static_cast<std::size_t>(r), static_cast<std::int32_t>(c)), 1);
          } else {
            const auto& counts = result.grid.counts[static_cast<std::size_t>(r * cols + c)];
            for (int s = 0; s < analysis::kNumKeyStates; ++s)
              mix.add(static_cast<KeyState>(s), counts[static_cast<std::size_t>(s)]);
          }
        }
      line[x] = mix.color();
    }
  }
}

class KvMapPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    if (!context.compare) {
      draw_slot(context, context.workspace.selection().shown, "KV map");
      return;
    }
    widgets::figure_head_ui(context.palette, context.figure, "KV map", "",
                            place_caption(context.workspace.place()), {});
    const float room = ImGui::GetContentRegionAvail().y;
    for (const Slot slot : state::kSlots) {
      ImGui::BeginChild(slot == Slot::A ? "map a" : "map b", {0, room / 2 - widgets::em(0.3F)});
      draw_slot(context, slot, "");
      ImGui::EndChild();
    }
  }

 private:
  // What is drawn of one method: its map, and the axes that the user has chosen for it.
  struct Picture {
    state::LastAnswer<KvMapQuestion> map;
    state::LastAnswer<RecallQuestion> recall;
    widgets::MapTexture texture;
    ImPlotRange x_range, y_range;
    std::pair<double, double> shape{0, 0};
    std::int32_t key_begin = -1;
  };

  void draw_slot(DrawContext& context, Slot slot, const std::string& title) {
    Picture& picture = pictures_[static_cast<std::size_t>(slot)];
    const state::Workspace& workspace = context.workspace;
    const KvMapQuestion question{workspace.place(), workspace.method(slot)};
    const Map map = picture.map.ask(context.workspace, question);
    if (!map) {
      method_head_ui(context, title, question.place,
                     state::facts_of(question.place, question.method), slot);
      ready_ui(context, map, "Selecting, chunk by chunk");
      return;
    }
    const Place& place = map.question.place;
    method_head_ui(context, title, place, map->facts, slot);
    ready_ui(context, map, "");
    const Recall recall =
        picture.recall.ask(context.workspace, RecallQuestion{place, map.question.method});
    method_note_ui(context, place, map->facts);
    legend(context, *map);
    mean_ui(context, map, recall);
    ImGui::Dummy({0, widgets::em(0.9F)});
    fit(picture, map->map, place);
    if (ImPlot::BeginAlignedPlots(slot == Slot::A ? "##rows a" : "##rows b", false)) {
      plots_ui(context, map, recall, picture, slot);
      ImPlot::EndAlignedPlots();
    }
  }

  // All of a map of another shape; a key span that was chosen elsewhere comes into view.
  static void fit(Picture& picture, const analysis::KvMap& map, const Place& place) {
    const auto rows = static_cast<double>(map.chunks.size());
    const std::pair<double, double> shape{rows, map.num_tokens};
    if (picture.shape != shape) {
      picture.shape = shape;
      picture.x_range = {0, shape.second};
      picture.y_range = {0, rows};
    }
    if (picture.key_begin == place.key_begin) return;
    picture.key_begin = place.key_begin;
    if (place.has_keys()) scroll_to(picture.x_range, place.key_begin, place.key_end, shape.second);
  }

  static void scroll_to(ImPlotRange& range, double begin, double end, double limit) {
    if (begin >= range.Min && end <= range.Max) return;
    const double half = std::max(range.Size(), (end - begin) * 1.2) / 2;
    const double middle = std::clamp((begin + end) / 2, half, std::max(half, limit - half));
    range = {std::max(0.0, middle - half), std::min(limit, middle + half)};
  }

  static void plots_ui(DrawContext& context, const Map& map, const Recall& recall, Picture& picture,
                       Slot slot) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float side = std::min(room.x * 0.2F, widgets::em(13));
    MapPlotSpec spec;
    spec.id = slot == Slot::A ? "##kv map a" : "##kv map b";
    spec.x_label = "key (token position)";
    spec.y_label = "chunk";
    spec.rows = picture.shape.first;
    spec.cols = picture.shape.second;
    spec.size = {room.x - side, room.y};
    spec.content_key = map.key;
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_map(context.palette, *map, window, pixels);
      mark_deaths(context.palette, map->map, window, pixels);
    };
    spec.row_ticks = true;
    spec.zoom_rows = false;
    spec.x_range = &picture.x_range;
    spec.y_range = &picture.y_range;
    const Place& place = map.question.place;
    const auto hit = map_plot_ui(context, spec, picture.texture, [&] { marks(context, place); });
    if (hit) point_at(context, map, recall, *hit);
    ImGui::SameLine(0, 0);
    recall_ui(context, map, recall, picture.y_range, {side, room.y}, slot);
  }

  static void legend(DrawContext& context, const KvMapQuestion::Answer& answer) {
    std::vector<widgets::LegendItem> items;
    for (const KeyState state : kLegendOrder)
      if (answer.present[static_cast<std::size_t>(state)])
        items.push_back({state::label_of(state), widgets::color_of(context.palette, state)});
    if (!answer.map.evict_chunk.empty())
      items.push_back(
          {"evicted after this chunk", context.palette.died, widgets::LegendItem::Shape::Line});
    widgets::legend_ui(context.palette, items);
  }

  static state::NumberChunks chunks_of(const DrawContext& context, const Place& place) {
    return state::number_chunks(context.workspace.selection().numbers, place,
                                state::NumberScope::Kind::All);
  }

  // Of the bars beside the map, where the chunks that count are chosen.
  static void mean_ui(DrawContext& context, const Map& map, const Recall& recall) {
    const Place& place = map.question.place;
    const state::NumberChunks chunks = chunks_of(context, place);
    if (!chunks.chosen || !recall || recall.stale) return;
    const auto mean = state::mean_recall(*recall, map->facts, chunks, place.info());
    if (!mean) return;
    const std::string text =
        fmt::format("mass recall {:.3f}, {}", *mean, state::words_of(chunks, place.info()));
    beside_ui(widgets::em(1.2F), ImGui::CalcTextSize(text.c_str()).x);
    widgets::text_colored(context.palette.muted, text);
  }

  static void marks(DrawContext& context, const Place& place) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    const ImVec2 from = ImPlot::PlotToPixels(limits.X.Min, place.chunk);
    const ImVec2 to = ImPlot::PlotToPixels(limits.X.Max, place.chunk + 1);
    draw->AddRect(from, to, context.palette.text, 0, 0, std::max(1.0F, widgets::em(0.09F)));
    ImPlot::PopPlotClipRect();
    span_marks_ui(context, place, true);
  }

  // The share of true attention mass that the kept keys carry, per chunk, beside the map's rows.
  static void recall_ui(DrawContext& context, const Map& map, const Recall& recall,
                        ImPlotRange& y_range, ImVec2 size, Slot slot) {
    constexpr ImPlotFlags kFlags = ImPlotFlags_CanvasOnly | ImPlotFlags_NoFrame;
    if (!ImPlot::BeginPlot(slot == Slot::A ? "##recall a" : "##recall b", size, kFlags)) return;
    ImPlot::SetupAxes("mass recall", nullptr, ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_Lock,
                      ImPlotAxisFlags_NoDecorations | ImPlotAxisFlags_Invert);
    ImPlot::SetupAxisLimits(ImAxis_X1, 0, 1.0, ImPlotCond_Always);
    static const double kTicks[] = {0, 0.5, 1};
    // The 0 would run into the last number of the keys' axis.
    const char* const labels[] = {"", "0.5", "1"};
    ImPlot::SetupAxisTicks(ImAxis_X1, kTicks, 3, labels);
    ImPlot::SetupAxisLinks(ImAxis_Y1, &y_range.Min, &y_range.Max);
    ImPlot::SetupFinish();
    const auto first = static_cast<std::size_t>(std::max(0.0, std::floor(y_range.Min)));
    const auto last = std::min(map->map.chunks.size(),
                               static_cast<std::size_t>(std::max(0.0, std::ceil(y_range.Max))));
    // Of the same place and method: a stale recall of another would be a lie beside this map.
    const bool known = recall && !recall.stale && recall->size() == map->map.chunks.size();
    ImPlot::PushPlotClipRect();
    for (std::size_t chunk = first; chunk < last && known; ++chunk)
      recall_bar(context, map, chunk, (*recall)[chunk]);
    ImPlot::PopPlotClipRect();
    if (!known)
      ImPlot::PlotText(recall.state == state::ResultState::Error ? "not known" : "computing\u2026",
                       0.5, (y_range.Min + y_range.Max) / 2);
    ImPlot::EndPlot();
  }

  static void recall_bar(DrawContext& context, const Map& map, std::size_t chunk, double recall) {
    const bool dense = map->facts.keeps_every_key() || map->map.chunks[chunk].begin == 0 ||
                       map->facts.at(static_cast<int>(chunk)).dense.has_value();
    const bool here = static_cast<int>(chunk) == map.question.place.chunk;
    const ImVec2 from = ImPlot::PlotToPixels(0, static_cast<double>(chunk) + 0.12);
    const ImVec2 to = ImPlot::PlotToPixels(recall, static_cast<double>(chunk) + 0.88);
    const ImU32 bar = dense ? context.palette.dense : context.palette.hit;
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const bool counts = chunks_of(context, map.question.place).has(static_cast<int>(chunk));
    draw->AddRectFilled(from, to,
                        dense ? bar
                              : widgets::with_alpha(bar, !counts ? 0.3F
                                                         : here  ? 1.0F
                                                                 : 0.75F));
    const widgets::FontScope small(widgets::fonts().mono, 0.8F);
    if (std::abs(to.y - from.y) < ImGui::GetTextLineHeight() * 0.9F) return;
    const std::string text = dense ? std::string("all kept") : fmt::format("{:.2f}", recall);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    const float y = (from.y + to.y - ImGui::GetTextLineHeight()) / 2;
    const bool inside = to.x - from.x > width + widgets::em(0.6F);
    draw->AddText({inside ? to.x - width - widgets::em(0.3F) : to.x + widgets::em(0.3F), y},
                  inside ? widgets::ink_on(bar) : context.palette.muted, text.c_str());
  }

  static void point_at(DrawContext& context, const Map& result, const Recall& recall,
                       const MapPlotHit& hit) {
    const auto chunk = static_cast<std::size_t>(hit.row);
    const auto key = static_cast<std::int32_t>(hit.col);
    const analysis::KvMap& map = result->map;
    if (hit.clicked && !result.stale) {
      context.workspace.cursor.change("", [&](state::Selection& s) {
        s.place.chunk = static_cast<int>(chunk);
        s.place.key_begin = key;
        s.place.key_end = key + 1;
      });
    }
    if (!ImGui::BeginTooltip()) return;
    ImGui::Text("key %s", token_line(result.question.place, key).c_str());
    ImGui::Text("chunk %zu, tokens %d to %d", chunk, map.chunks[chunk].begin,
                map.chunks[chunk].end() - 1);
    const KeyState state = map.at(chunk, key);
    widgets::legend_ui(context.palette,
                       {{state::label_of(state), widgets::color_of(context.palette, state)}});
    if (const auto death = map.death_of(key))
      ImGui::Text("evicted after chunk %d", *death);
    else if (!map.evict_chunk.empty())
      ImGui::TextUnformatted("alive at the end");
    ImGui::Text("%d past key%s kept", map.kept[chunk], map.kept[chunk] == 1 ? "" : "s");
    if (recall && !recall.stale && chunk < recall->size())
      ImGui::Text("mass recall %.4f", (*recall)[chunk]);
    ImGui::EndTooltip();
  }

  std::array<Picture, 2> pictures_;
};

}  // namespace

std::unique_ptr<Panel> make_kv_map_panel() { return std::make_unique<KvMapPanel>(); }

}  // namespace kvloupe::panels
