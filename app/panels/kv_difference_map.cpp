#include "app/panels/kv_difference_map.h"

#include "app/panels/kv_map_bars.h"
#include "app/panels/kv_map_picture.h"
#include "app/state/kept_of_span.h"
#include "app/state/labels.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::KeptBy;
using state::KvDifferenceQuestion;
using state::Place;
using state::TrueKeysQuestion;

// From this width of a key on, in pixels, true keys are outlined one by one.
constexpr double kOutlineFrom = 5;

void legend(DrawContext& context, bool truth) {
  auto items = kept_by_legend(context.palette);
  items.push_back({"current chunk", context.palette.current});
  if (truth) items.push_back({"true key", context.palette.text, widgets::LegendItem::Shape::Line});
  widgets::legend_ui(context.palette, items);
}

void truth_ui(DrawContext& context, const char* view, bool truth) {
  if (context.figure) return;
  beside_ui(widgets::em(1.5F), widgets::em(9));
  bool on = truth;
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {0, 0});  // as high as the legend
  const bool pressed = ImGui::Checkbox("against truth", &on);
  ImGui::PopStyleVar();
  if (pressed)
    context.workspace.cursor.set_option(fmt::format("{}.truth", view), on ? "on" : "off");
  if (ImGui::IsItemHovered())
    widgets::tooltip(
        "Marks the keys of largest true attention mass of each chunk, as many as the smaller of "
        "the "
        "two sets holds: both methods had room for them.");
}

// Keys of a chunk are no candidates of it.
void current_chunks(DrawContext& context, const std::vector<trace::ChunkInfo>& chunks) {
  ImPlot::PushPlotClipRect();
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
    ImPlot::GetPlotDrawList()->AddRectFilled(
        ImPlot::PlotToPixels(chunks[chunk].begin, static_cast<double>(chunk)),
        ImPlot::PlotToPixels(chunks[chunk].end(), static_cast<double>(chunk) + 1),
        context.palette.current);
  ImPlot::PopPlotClipRect();
}

void outline(DrawContext& context, const TrueKeysQuestion::Answer& keys) {
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  ImPlot::PushPlotClipRect();
  for (std::size_t chunk = 0; chunk < keys.size(); ++chunk) {
    const auto y = static_cast<double>(chunk);
    if (y + 1 < limits.Y.Min || y > limits.Y.Max) continue;
    const auto last = std::upper_bound(keys[chunk].begin(), keys[chunk].end(), limits.X.Max);
    for (auto key = std::lower_bound(keys[chunk].begin(), last, limits.X.Min - 1); key != last;
         ++key) {
      const ImVec2 from = ImPlot::PlotToPixels(*key, y), to = ImPlot::PlotToPixels(*key + 1, y + 1);
      ImPlot::GetPlotDrawList()->AddRect({from.x + 0.5F, from.y + 1}, {to.x - 0.5F, to.y - 1},
                                         context.palette.text, 0, 0,
                                         std::max(1.0F, widgets::em(0.1F)));
    }
  }
  ImPlot::PopPlotClipRect();
}

void tooltip(DrawContext& context, const Place& place, const analysis::KvDifference& map,
             const TrueKeysQuestion::Answer* true_keys, const MapPlotHit& hit) {
  const auto chunk = static_cast<std::size_t>(hit.row);
  const auto key = static_cast<std::int32_t>(hit.col);
  auto lines = key_and_chunk(context, place, hit);
  const KeptBy what = map.at(chunk, key);
  if (what == KeptBy::NoCandidate)
    lines.push_back({"no candidate in this chunk"});
  else
    lines.push_back({fmt::format("kept by {}", state::label_of(what)),
                     widgets::color_of(context.palette, what)});
  if (true_keys != nullptr &&
      std::binary_search((*true_keys)[chunk].begin(), (*true_keys)[chunk].end(), key))
    lines.push_back({"a true key: among those of largest attention mass"});
  lines.push_back({fmt::format("A only {}, B only {}, both {}: Jaccard {:.3f}",
                               map.count(chunk, KeptBy::AOnly), map.count(chunk, KeptBy::BOnly),
                               map.count(chunk, KeptBy::Both), map.jaccard(chunk))});
  widgets::tooltip(std::move(lines));
}

// Of the chunk that is shown; empty where neither chooses among keys.
std::string finding_of(const Place& place, const analysis::KvDifference& map) {
  const auto chunk = static_cast<std::size_t>(place.chunk);
  if (chunk >= map.chunks.size()) return "";
  const auto only_a = map.count(chunk, KeptBy::AOnly), only_b = map.count(chunk, KeptBy::BOnly);
  const auto both = map.count(chunk, KeptBy::Both);
  if (only_a + only_b + both == 0) return "";
  std::string text = fmt::format("In {} only A keeps {} keys, only B {}, both {}.",
                                 state::chunk_name(place.info(), place.chunk), format_count(only_a),
                                 format_count(only_b), format_count(both));
  const auto watched = state::watched_keys(place);
  if (!watched) return text;
  state::KeptOfSpan a{watched->name, 0, 0}, b = a;
  for (const std::int32_t key : watched->keys.positions_in(0, map.num_tokens)) {
    const KeptBy what = map.at(chunk, key);
    if (what == KeptBy::NoCandidate) continue;
    ++a.total;
    a.kept += what == KeptBy::AOnly || what == KeptBy::Both;
    b.kept += what == KeptBy::BOnly || what == KeptBy::Both;
  }
  b.total = a.total;
  return a.total == 0 ? text : text + " " + state::words_of({{"A", a}, {"B", b}}) + ".";
}

}  // namespace

void KvDifferenceMap::draw(DrawContext& context, const char* view, KvMapAxes& axes) {
  const KvDifferenceQuestion question = state::kv_difference_question(context.workspace);
  const Difference result = last_difference_.ask(context.workspace, question);
  const Place& place = result.question.place;
  widgets::figure_head_ui(context.palette, context.figure, "KV map: A against B", "",
                          place_caption(place), {});
  show_ui(context, view);
  if (result)
    both_chips_ui(context, place, result->facts_a, result->facts_b);
  else
    both_chips_ui(context, place, state::facts_of(place, question.a),
                  state::facts_of(place, question.b));
  if (!ready_ui(context, result, "Comparing what A and B keep")) return;
  if (const std::string finding = finding_of(place, result->map); !finding.empty())
    headline_ui(context, finding);
  const bool truth = context.workspace.option(view, "truth") == "on";
  TrueKeys true_keys;
  if (truth)
    true_keys =
        last_true_keys_.ask(context.workspace, {place, result.question.a, result.question.b});
  legend(context, truth);
  truth_ui(context, view, truth);
  if (truth && true_keys.state == state::ResultState::Error) failure_ui(context, true_keys.error);
  ImGui::Dummy({0, widgets::em(0.9F)});
  axes.fit(result->map.chunks.size(), result->map.num_tokens, place);
  plots_ui(context, result, true_keys, axes);
}

void KvDifferenceMap::plots_ui(DrawContext& context, const Difference& result,
                               const TrueKeys& true_keys, KvMapAxes& axes) {
  ImVec2 room = ImGui::GetContentRegionAvail();
  room.y = plot_height(context, room.y);
  const float side = KvMapAxes::bars_width(room.x);
  if (!ImPlot::BeginAlignedPlots("##rows", false)) return;
  const TrueKeysQuestion::Answer* known =
      true_keys && !true_keys.stale ? true_keys.answer.get() : nullptr;
  const bool outlined = (room.x - side) / axes.keys_in_view() >= kOutlineFrom;
  const TrueKeysQuestion::Answer* marked = outlined ? nullptr : known;
  MapPlotSpec spec = axes.spec({room.x - side, room.y}, {});
  spec.content_key = result.key + (marked != nullptr ? "|" + true_keys.key : "");
  spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
    fill_kv_difference(context.palette, *result, marked, window, pixels);
  };
  const Place& place = result.question.place;
  const auto hit = map_plot_ui(context, spec, texture_, [&] {
    current_chunks(context, result->map.chunks);
    if (known != nullptr && outlined) outline(context, *known);
    axes.marks_ui(context, place, 0);
  });
  if (hit && hit->clicked && !result.stale) go_to_key(context, *hit);
  if (hit) tooltip(context, place, result->map, known, *hit);
  ImGui::SameLine(0, 0);
  kept_by_bars_ui(context, result, axes.chunks(), {side, room.y});
  ImPlot::EndAlignedPlots();
}

}  // namespace kvloupe::panels
