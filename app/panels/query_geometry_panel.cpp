// query_geometry: queries and keys of one head in their first principal components, with the mean
// query and the queries ringed that A, B or both chose. Options say what is shown and what colours mean.
#include "app/panels/geometry_plot.h"
#include "app/panels/show_control.h"

#include "app/state/kept_of_span.h"
#include "app/state/labels.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using state::GeometryForm;
using state::GeometryQuestion;
using state::Place;
using state::Slot;
using Color = GeometryForm::Color;
using Fit = GeometryForm::Fit;
using widgets::LegendItem;

constexpr const char* kView = "query_geometry";

std::vector<widgets::Chip> form_chips(const GeometryForm& form) {
  std::vector<widgets::Chip> chips;
  if (form.all_chunks)
    chips.push_back({"all chunks", 0,
                     "Queries of all chunks of the head, with the path of the mean query from the "
                     "first chunk to the last."});
  if (form.before_rotary)
    chips.push_back({"before RoPE", 0,
                     "Queries and keys turned back to what they were before the rotary embedding. "
                     "S_q and attention stay those of the queries and keys that attention sees."});
  const char* alone[] = {"", "PCA of the queries alone", "PCA of the keys alone",
                         "queries and keys in a PCA of their own"};
  if (form.apart())
    chips.push_back({alone[static_cast<int>(form.fit)], 0,
                     "The principal components and the axes are fitted to what is shown."});
  return chips;
}

void color_bar_ui(const widgets::Palette& palette, const std::string& low, const std::string& high,
                  const std::string& unit, float width) {
  widgets::color_scale_ui(palette, relevance_color, low, high, unit, width);
  beside_ui(widgets::em(1.2F), widgets::em(11));
}

void position_bar_ui(const widgets::Palette& palette, const std::vector<std::int32_t>& positions,
                     const char* unit, float width) {
  color_bar_ui(palette, std::to_string(positions.front()), std::to_string(positions.back()), unit,
               width);
}

void attention_bar_ui(const widgets::Palette& palette, double most, const char* unit, float width) {
  color_bar_ui(palette, fmt::format("{:.1g} %", 100 * most / std::pow(10, kDecades)),
               state::brief_share_text(most), unit, width);
}

void bars_ui(const widgets::Palette& palette, const Geometry& result) {
  const GeometryForm& form = result.question.form;
  const analysis::HeadPoints& points = *result->points;
  const float width = std::min(widgets::em(7), ImGui::GetContentRegionAvail().x / 4);
  if (form.color == Color::Relevance && form.shows_queries())
    color_bar_ui(palette, fmt::format("{:.2f}", result->least_relevance),
                 fmt::format("{:.2f}", result->most_relevance), "S_q of a query", width);
  if (form.color == Color::Position) {
    if (form.shows_queries())
      position_bar_ui(palette, points.query_positions, "position of a query", width);
    if (form.shows_keys())
      position_bar_ui(palette, points.key_positions, "position of a key", width);
  }
  if (form.color == Color::Attention) {
    if (form.shows_queries())
      attention_bar_ui(palette, result->most_given, "largest attention given (log)", width);
    if (form.shows_keys())
      attention_bar_ui(palette, result->most_received, "largest received (log)", width);
  }
}

// Of A and B the keys differ by their fate, and the queries by who asks them: each method has a plot of
// the keys, and both share one of the queries.
bool parts_apart(const std::vector<Geometry>& results) {
  const GeometryForm& form = results.front().question.form;
  return results.size() == 2 && form.fit == Fit::All && form.dimensions == 2;
}

// Each half names its own method.
std::string words_of_rings(const std::vector<Geometry>& results) {
  if (results.size() == 1) return words_of_chosen(*results.front()->queries);
  const bool any = std::any_of(results.begin(), results.end(), [](const Geometry& one) {
    return !words_of_chosen(*one->queries).empty();
  });
  return any && !parts_apart(results) ? "query that the method asks" : "";
}

void legend(DrawContext& context, const std::vector<Geometry>& results, const Wanted& wanted) {
  using Shape = LegendItem::Shape;
  const widgets::Palette& palette = context.palette;
  const Geometry& result = results.front();
  const GeometryForm& form = result.question.form;
  bars_ui(palette, result);
  std::vector<LegendItem> items;
  if (form.shows_queries()) {
    if (form.color == Color::Fate) items.push_back({"query", palette.muted, Shape::Dot});
    if (parts_apart(results))
      for (const Slot slot : state::kSlots)
        if (const Geometry& one = results[static_cast<std::size_t>(slot)];
            !words_of_chosen(*one->queries).empty())
          items.push_back({fmt::format("query that {} asks", state::letter_of(slot)),
                           widgets::color_of_slot(palette, slot), Shape::Ring});
    const auto& shown = result->points->query_positions;
    const auto looked = std::ranges::count_if(shown, [&](std::int32_t position) {
      return is_looked_at(result.question.place, position);
    });
    add_rings(palette, result.question.place, words_of_rings(results),
              static_cast<std::size_t>(looked), wanted, items);
    items.push_back({form.all_chunks ? "mean query, of each chunk" : "mean query",
                     palette.series[0], Shape::Triangle});
  }
  if (form.shows_keys()) {
    std::set<std::pair<analysis::KeyState, bool>> there;
    for (const Geometry& one : results)
      for (const state::KeyFate& fate : one->fates)
        if (there.emplace(fate.lost ? analysis::KeyState::Dropped : fate.state, fate.lost).second)
          items.push_back({fmt::format("key: {}", label_of(fate)), color_of(palette, fate)});
    if (form.color == Color::Relevance && there.empty())
      items.push_back({"key", palette.faint, Shape::Dot});
    items.push_back({"key 0 (sink)", palette.warning, Shape::Ring});
    items.push_back({"watched key", palette.text, Shape::Frame});
  }
  widgets::legend_ui(palette, items);
}

// The one in the middle of those picked: the nearest to their mean, as they are drawn.
std::int32_t middle_of(const Geometry& result, const std::vector<std::int32_t>& picked) {
  const analysis::HeadPoints& points = *result->points;
  std::array<double, 3> mean{};
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < points.queries.size(); ++i)
    if (std::binary_search(picked.begin(), picked.end(), points.query_positions[i]))
      indices.push_back(i);
  for (const std::size_t i : indices)
    for (std::size_t axis = 0; axis < 3; ++axis)
      mean[axis] += points.queries[i][axis] / static_cast<double>(indices.size());
  const auto distance = [&](std::size_t i) {
    double sum = 0;
    for (std::size_t axis = 0; axis < 3; ++axis)
      sum += std::pow(points.queries[i][axis] - mean[axis], 2);
    return sum;
  };
  return points.query_positions[*std::min_element(
      indices.begin(), indices.end(),
      [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); })];
}

// "asks 16 of 128 queries, 7 of the question's 17"
std::string chosen_words(DrawContext& context, const Geometry& result) {
  const QueryAnswer& queries = *result->queries;
  if (queries.chosen_by.empty()) return "";
  if (queries.geometry.chosen.empty())
    return query_chips(context, result.question.place, queries).back().text;
  const Asking asking = asking_in(result.question.place, queries);
  const std::string counts =
      fmt::format("{} of {} queries", queries.num_chosen, queries.num_queries());
  std::string text =
      queries.votes_after ? counts + " vote on what the next chunk sees" : "asks " + counts;
  if (asking.queries > 0)
    text += fmt::format(", {} of the question's {}", asking.chosen, asking.queries);
  return text;
}

// "of needle's 22 keys quoka keeps 19, snapkv none." Empty where nothing is watched.
std::string kept_words(const std::vector<Geometry>& results) {
  const auto span = state::watched_keys(results.front().question.place);
  std::vector<state::KeptBy> each;
  for (const Geometry& result : results) {
    // Those before the chunk and in the layer's window: all others were no choice.
    const auto past = std::min<std::ptrdiff_t>(std::ssize(result->fates),
                                               result.question.place.chunk_info().begin);
    if (!span) return "";
    std::vector<std::int32_t> keys = span->keys.positions_in(0, past);
    const auto state_of = [&](std::int32_t key) {
      return result->fates[static_cast<std::size_t>(key)].state;
    };
    std::erase_if(keys,
                  [&](std::int32_t key) { return state_of(key) == analysis::KeyState::Hidden; });
    if (keys.empty()) return "";
    const auto kept = std::ranges::count_if(keys, [&](std::int32_t key) {
      return !result->fates[static_cast<std::size_t>(key)].lost &&
             state_of(key) != analysis::KeyState::Dropped &&
             state_of(key) != analysis::KeyState::Evicted;
    });
    each.push_back({result.question.method.id(),
                    {state::readable_name(span->name), static_cast<std::int32_t>(kept),
                     static_cast<std::int32_t>(keys.size())}});
  }
  return state::words_of(each) + ".";
}

// "Of the question's 17 queries quoka asks 7, snapkv asks 11 for the next chunk." Empty where one of the
// methods chooses no queries or the chunk holds nothing of the question.
std::string both_finding(const std::vector<Geometry>& results) {
  std::string text;
  for (const Geometry& result : results) {
    const QueryAnswer& queries = *result->queries;
    if (queries.chosen_by.empty() || queries.geometry.chosen.empty()) return "";
    const Asking asking = asking_in(result.question.place, queries);
    if (asking.queries == 0) return "";
    text += text.empty() ? fmt::format("Of the question's {} queries ", asking.queries) : ", ";
    text += result.question.method.id();
    text += queries.votes_after ? "'s vote for the next chunk uses " : " asks ";
    text += std::to_string(asking.chosen);
  }
  const std::string kept = kept_words(results);
  return text + (kept.empty() ? "." : ". " + kept);
}

// Whether the queries are a small blob among the keys, and there is room to show them closer in a plot of
// their own.
bool looks_closer(const Geometry& result) {
  if (result.question.form.fit != Fit::All || result.question.form.dimensions != 2) return false;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (std::max(room.x, room.y) < widgets::em(48) || std::min(room.x, room.y) < widgets::em(16))
    return false;
  constexpr double kSmall = 0.45;
  const auto& all = result->box;
  const auto& queries = result->query_box;
  return queries.length(0) * queries.length(1) < kSmall * all.length(0) * all.length(1);
}

// Two plots beside or above each other, in the sizes in which their points are largest: one unit is as
// long on both axes of a plot, so a plot of another shape than its points wastes room.
struct Split {
  bool beside = true;
  ImVec2 first, second;
};
Split best_split(ImVec2 room, float gap, const GeometryQuestion::Box& first,
                 const GeometryQuestion::Box& second) {
  const float heading = ImGui::GetTextLineHeightWithSpacing();
  const auto pixels_per_unit = [&](ImVec2 size, const GeometryQuestion::Box& box) {
    const ImVec2 inside = GeometryPlot::inside_of({size.x, size.y - heading});
    return std::min(inside.x / (box.length(0) + 1e-6), inside.y / (box.length(1) + 1e-6));
  };
  constexpr std::array kShares{0.4F, 0.45F, 0.5F, 0.55F, 0.6F};
  Split best;
  double most = -1;
  for (const bool beside : {room.x > room.y, room.x <= room.y})
    for (const float share : kShares) {
      const ImVec2 all = beside ? ImVec2(room.x - gap, room.y)
                                : ImVec2(room.x, room.y - ImGui::GetStyle().ItemSpacing.y);
      const auto part = [&](float of) {
        return beside ? ImVec2(all.x * of, all.y) : ImVec2(all.x, all.y * of);
      };
      const Split split{beside, part(share), part(1 - share)};
      const double size =
          pixels_per_unit(split.first, first) * pixels_per_unit(split.second, second);
      if (size > 1.02 * most) {
        most = size;
        best = split;
      }
    }
  return best;
}

class QueryGeometryPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    state::Workspace& workspace = context.workspace;
    const bool both = show_now(context, kView) == state::Show::Both;
    const GeometryForm form = state::geometry_form(workspace);
    std::vector<Geometry> results;
    for (const Slot slot :
         both ? std::vector{Slot::A, Slot::B} : std::vector{workspace.selection().shown})
      results.push_back(shown_[static_cast<std::size_t>(slot)].ask(
          workspace, {workspace.place(), workspace.method(slot), form}));
    const Geometry& result = results.front();
    const Place& place = result.question.place;
    head_.begin();
    std::vector<widgets::Chip> chips = form_chips(result.question.form);
    auto of_queries =
        result ? query_chips(context, place, *result->queries) : trace_chips(context, place);
    // Each half says for itself which queries its method asked.
    if (both && result && !result->queries->chosen_by.empty()) of_queries.pop_back();
    for (widgets::Chip& chip : of_queries) chips.push_back(std::move(chip));
    show_ui(context, kView);
    widgets::figure_head_ui(context.palette, context.figure, "Query geometry", "",
                            place_caption(place), chips);
    if (!context.figure) controls_ui(context);
    for (const Geometry& one : results)
      if (!ready_ui(context, one, "Fitting the principal components")) return;
    if (result->points->queries.empty()) {
      widgets::empty_ui(context.palette, "The chunk has no queries.");
      return;
    }
    headline_ui(context, both ? both_finding(results) : query_finding(place, *result->queries));
    const Wanted wanted = wanted_by(context, place);
    legend(context, results, wanted);
    picked_ui(context);
    head_.end(fmt::format("{}|{}|{}|{}", place.cell_key(), workspace.method(Slot::A).key(),
                          workspace.method(Slot::B).key(),
                          picked_words(context.workspace.place()).empty()));
    if (both)
      both_ui(context, results, wanted);
    else
      plots_ui(context, result, wanted, plots_[0], false);
  }

 private:
  struct Plots {
    GeometryPlot first, second;
  };

  // A beside B, or above it where the panel is higher than wide, moved and turned together.
  void both_ui(DrawContext& context, const std::vector<Geometry>& results, const Wanted& wanted) {
    same_method_ui(context, results[0].question.method, results[1].question.method);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = widgets::em(0.8F);
    const bool three = parts_apart(results);
    const float parts = three ? 3 : 2;
    // In a column of a page the parts would be strips: it grows.
    const bool narrow = context.least_plot > 0 && room.x < widgets::em(60);
    const bool beside = !narrow && room.x > room.y;
    const float below = ImGui::GetStyle().ItemSpacing.y;
    const float line = ImGui::GetTextLineHeightWithSpacing();
    const float high = narrow   ? widgets::em(20)
                       : beside ? room.y
                                : (room.y - (parts - 1) * below) / parts;
    const ImVec2 part(
        beside ? (room.x - (parts - 1) * gap) / parts : room.x,
        std::max(high, line + (context.figure ? context.least_plot : least_plot_height())));
    const auto part_ui = [&](const char* id, bool first, const auto& draw) {
      if (!first && beside) ImGui::SameLine(0, gap);
      ImGui::BeginChild(id, part, ImGuiChildFlags_None, ImGuiWindowFlags_NoScrollbar);
      draw();
      ImGui::EndChild();
    };
    for (std::size_t i = 0; i < results.size(); ++i)
      part_ui(i == 0 ? "a" : "b", i == 0, [&] {
        method_line_ui(context, i, results[i].question.method,
                       {three ? "keys" : chosen_words(context, results[i])});
        three ? part_plot_ui(context, results[i], wanted, plots_[i].first, 0, nullptr)
              : plots_ui(context, results[i], wanted, plots_[i], true);
      });
    if (!three) return;
    part_ui("queries", false, [&] {
      heading_ui(context, "Queries", "");
      // Of another chunk, as long as B's answer is older, its rows are others.
      const bool alike =
          results[0].question.place.cell_key() == results[1].question.place.cell_key();
      part_plot_ui(context, results[0], wanted, plots_[0].second, 1, alike ? &results[1] : nullptr);
    });
  }

  // The keys of one method (view 0), or the queries of both (view 1).
  void part_plot_ui(DrawContext& context, const Geometry& result, const Wanted& wanted,
                    GeometryPlot& on, std::size_t view, const Geometry* beside) {
    GeometryPlot::Spec spec{.id = view == 0 ? "##keys" : "##queries",
                            .queries = view == 1,
                            .keys = view == 0,
                            .size = {-1, plot_height(context, ImGui::GetContentRegionAvail().y)}};
    spec.lasso = (lasso_ || ImGui::GetIO().KeyShift) && !context.figure;
    spec.view = &views_[view];
    spec.beside = beside;
    spec.without_sink = view == 0;
    const Picked taken = on.draw(context, result, wanted, spec);
    if (taken.closed && !result.stale) pick(context, result, taken);
  }

  void controls_ui(DrawContext& context) {
    option_ui(context, kView, "fit", "show", widgets::em(9));
    option_beside_ui(context, kView, "color", "colour", widgets::em(6));
    option_beside_ui(context, kView, "span", "of", widgets::em(6.5F));
    option_beside_ui(context, kView, "dimensions", "dimensions", widgets::em(3));
    option_beside_ui(context, kView, "rope", "RoPE", widgets::em(5));
    beside_ui(widgets::em(1), widgets::em(5));
    ImGui::Checkbox("Lasso", &lasso_);
    if (ImGui::IsItemHovered())
      widgets::tooltip(
          "Draw around queries or keys with the left button, also with Shift held.\nKeys inside "
          "become the watched keys, queries the selected ones.");
  }

  // Several keys are watched that are no span of the trace: a lasso took them, or another hand.
  static bool picks_keys(const Place& place) {
    return place.keys.size() > 1 &&
           state::watched_keys(place)->name == state::keys_words(place.keys);
  }
  static std::string picked_words(const Place& place) {
    const std::int64_t queries = place.queries.size();
    const std::string keys = picks_keys(place) ? "Watched: " + state::keys_words(place.keys) : "";
    if (queries == 0 && place.query < 0) return keys;
    return (keys.empty() ? "Selected: " : keys + "; selected: ") +
           (queries > 0 ? fmt::format("{} queries", format_count(queries))
                        : fmt::format("query {}", format_count(place.query)));
  }

  void picked_ui(DrawContext& context) {
    const std::string words = picked_words(context.workspace.place());
    if (words.empty() || context.figure) return;
    widgets::text_colored(context.palette.muted, words);
    ImGui::SameLine();
    if (ImGui::SmallButton("Clear"))
      context.workspace.cursor.change("", [](state::Selection& s) {
        if (picks_keys(s.place)) s.place.keys = {};
        s.place.queries = {};
        s.place.query = -1;
      });
    if (ImGui::IsItemHovered())
      widgets::tooltip("Follow the trace's needle again, if it has one, and no query");
  }

  // `linked`: with those of the other method.
  void plots_ui(DrawContext& context, const Geometry& result, const Wanted& wanted, Plots& plots,
                bool linked) {
    const GeometryForm& form = result.question.form;
    const bool lasso = (lasso_ || ImGui::GetIO().KeyShift) && !context.figure;
    const auto plot = [&](GeometryPlot& on, GeometryPlot::Spec spec) {
      spec.lasso = lasso;
      if (linked) spec.view = &views_[&on == &plots.first ? 0 : 1];
      const Picked taken = on.draw(context, result, wanted, spec);
      if (taken.closed && !result.stale) pick(context, result, taken);
    };
    const bool apart = form.fit == Fit::Both;
    const bool closer = !apart && !linked && looks_closer(result);
    const GeometryPlot::Spec all{"##geometry", form.shows_queries(), form.shows_keys()};
    const GeometryPlot::Spec queries{"##queries", true, false}, keys{"##keys", false, true};
    if (!apart && !closer) {
      GeometryPlot::Spec spec = all;
      spec.size = {-1, plot_height(context, ImGui::GetContentRegionAvail().y)};
      plot(plots.first, spec);
      return;
    }
    const float gap = widgets::em(0.8F);
    const Split split =
        best_split(ImGui::GetContentRegionAvail(), gap, apart ? result->query_box : result->box,
                   apart ? result->key_box : result->query_box);
    const auto titled = [&](const char* title, GeometryPlot& on, GeometryPlot::Spec spec) {
      ImGui::BeginGroup();
      const float top = ImGui::GetCursorPosY();
      heading_ui(context, title, "");
      const ImVec2 size = &on == &plots.first ? split.first : split.second;
      spec.size = {size.x, size.y - (ImGui::GetCursorPosY() - top)};
      plot(on, spec);
      ImGui::EndGroup();
    };
    if (apart) {
      titled("Queries", plots.first, queries);
    } else {
      GeometryPlot::Spec framed = all;
      framed.frame = &plots.second.shown();
      framed.names = false;  // the closer plot has the room
      titled("Queries and keys", plots.first, framed);
    }
    if (split.beside) ImGui::SameLine(0, gap);
    if (apart)
      titled("Keys", plots.second, keys);
    else
      titled("Queries, closer", plots.second, queries);
  }

  // Of the queries the one in the middle is the one that views of a single query show.
  void pick(DrawContext& context, const Geometry& result, const Picked& taken) {
    const Place& at = result.question.place;
    if (taken.empty()) {
      if (const auto& say = context.workspace.traces.on_message)
        say("The lasso held no dot: draw it around queries or keys.", false);
      return;
    }
    context.workspace.cursor.change("", [&](state::Selection& s) {
      if (!taken.queries.empty()) {
        s.place.query = middle_of(result, taken.queries);
        s.place.chunk = at.info().chunk_of_token(s.place.query);
        s.place.queries = trace::KeySet::of(taken.queries);
      }
      if (!taken.keys.empty()) s.place.keys = trace::KeySet::of(taken.keys);
    });
  }

  std::array<state::LastAnswer<GeometryQuestion>, 2> shown_;  // of A and B
  std::array<Plots, 2> plots_;                                // of one method the first
  std::array<GeometryView, 2> views_;                         // of `first` and `second` of both
  SteadyHead head_;
  bool lasso_ = false;
};

}  // namespace

std::unique_ptr<Panel> make_query_geometry_panel() {
  return std::make_unique<QueryGeometryPanel>();
}

}  // namespace kvloupe::panels
