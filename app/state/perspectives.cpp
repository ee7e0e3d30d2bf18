#include "app/state/perspectives.h"

namespace kvloupe::state {
namespace {

constexpr const char* kResults = "results";

std::vector<Perspective> make_perspectives() {
  const auto runs = [](Spot narrow) { return PlacedView{kRunsWindow, Spot::BesideBelow, narrow}; };
  return {
      {"where",
       "Where",
       "Where?",
       "Which layers and heads to look at, and what each run keeps there",
       RailIcon::Grid,
       0.27F,
       0.5F,
       0.36F,
       false,
       {{"layer_head_overview", Spot::Large},
        {kRunsWindow, Spot::Beside},
        {kNotesWindow, Spot::Beside},
        {"token_strip", Spot::BesideBelow},
        {"kv_map", Spot::Below}}},
      {"kept",
       "Kept",
       "What is kept?",
       "Which keys the method keeps, chunk by chunk, beside those that attention weighs most",
       RailIcon::Rows,
       0.39F,
       0.34F,
       0.34F,
       false,
       {{"kv_map", Spot::Large},
        {"attention_map", Spot::Large},
        {"token_strip", Spot::Large},
        {"method_diff", Spot::Large},
        {"selected_vs_true", Spot::Beside},
        runs(Spot::Below)}},
      {"lost",
       "Why lost",
       "Why lost?",
       "What lost a key, what would have kept it, and which lost keys matter most",
       RailIcon::Search,
       0.27F,
       0.36F,
       0.3F,
       false,
       {{"miss_inspector", Spot::Large},
        {"worst_misses", Spot::Large},
        {"head_merge", Spot::Large},
        {"selected_vs_true", Spot::Beside},
        runs(Spot::Below),
        {kNotesWindow, Spot::BesideBelow}}},
      {"much",
       "How much",
       "How much?",
       "What each method gains and costs, and the budget that is enough",
       RailIcon::Bars,
       0.42F,
       0.36F,
       0.6F,
       true,
       {{"method_compare", Spot::Large},
        {"budget_sweep", Spot::Below},
        {"latency", Spot::BesideBelow}}},
      {"works",
       "How it works",
       "How does it work?",
       "What the method decides by: the views that were made for the method shown come first",
       RailIcon::Dots,
       0.27F,
       0.36F,
       0.36F,
       false,
       {{"aqua_lanes", Spot::Large},
        {"quest_pages", Spot::Large},
        {"block_tables", Spot::Large},
        {"query_geometry", Spot::Large},
        {"slot_scores", Spot::Large},
        {"query_relevance", Spot::Large},
        {"heavy_tail", Spot::Large},
        {"received_rankings", Spot::Large},
        {kMethodWindow, Spot::Beside, Spot::Large}}},
      {"ran",
       "How it ran",
       "How does it run?",
       "What the trace holds, and how far a closed loop goes from the dense model",
       RailIcon::Pulse,
       0.4F,
       0.36F,
       0.36F,
       false,
       {{"trace_info", Spot::Large},
        {"decode_drift", Spot::Large},
        {kMemoryWindow, Spot::Below, Spot::Below, false}}},
      {kResults,
       "Results",
       "What did it answer?",
       "Which questions of an evaluation each method answers, and which needles it finds",
       RailIcon::Marks,
       0.44F,
       0.36F,
       0.36F,
       false,
       {{"task_scores", Spot::Large}, {"needle_grid", Spot::Beside, Spot::Large}},
       true},
  };
}

}  // namespace

const PlacedView* Perspective::find(const std::string& view) const {
  for (const PlacedView& placed : views)
    if (placed.id == view) return &placed;
  return nullptr;
}

const std::vector<Perspective>& perspectives() {
  static const std::vector<Perspective> all = make_perspectives();
  return all;
}

const Perspective* find_perspective(const std::string& id) {
  for (const Perspective& perspective : perspectives())
    if (perspective.id == id) return &perspective;
  return nullptr;
}

const Perspective& results_perspective() { return *find_perspective(kResults); }

const Perspective& perspective_or_first(const std::string& id) {
  const Perspective* found = find_perspective(id);
  return found != nullptr ? *found : perspectives().front();
}

const Perspective& home_of(const std::string& view) {
  for (const Spot spot : {Spot::Large, Spot::Below, Spot::Beside, Spot::BesideBelow})
    for (const Perspective& perspective : perspectives())
      if (const PlacedView* placed = perspective.find(view);
          placed != nullptr && placed->spot == spot)
        return perspective;
  return perspectives().front();
}

}  // namespace kvloupe::state
