#include "app/state/method_views.h"

#include "app/state/workspace.h"

namespace kvloupe::state {
namespace {

using selection::Traits;
using trace::Granularity;

// Of a run whose method this version does not know, the granularity is all that is known.
Granularity granularity_of(const MethodChoice& method, const Place& place) {
  if (method.known()) return method.spec->traits().granularity;
  const trace::RunInfo* run = method.run_info(place.info());
  return run != nullptr ? run->granularity : Granularity::None;
}

struct MethodView {
  const char* id;
  bool (*is_of)(Granularity granularity, const Traits& traits);
};

// The views of one kind of methods, that which says most of a method first.
constexpr MethodView kMethodViews[] = {
    {"aqua_lanes", [](Granularity, const Traits& traits) { return traits.lanes.has_value(); }},
    {"quest_pages",
     [](Granularity granularity, const Traits&) { return granularity == Granularity::Page; }},
    {"block_tables",
     [](Granularity granularity, const Traits&) { return granularity == Granularity::Block; }},
    {"query_geometry", [](Granularity, const Traits& traits) { return traits.samples_rows; }},
    {"slot_scores", [](Granularity, const Traits& traits) { return traits.has_slots; }},
    {"query_relevance", [](Granularity, const Traits& traits) { return traits.samples_rows; }},
};

bool is_of_method(const MethodView& view, const Workspace& workspace) {
  const MethodChoice& method = workspace.method();
  if (workspace.place().empty() || method.empty()) return false;
  return view.is_of(granularity_of(method, workspace.place()),
                    method.known() ? method.spec->traits() : Traits{});
}

}  // namespace

bool concerns(const std::string& view, const Workspace& workspace) {
  for (const MethodView& one : kMethodViews)
    if (view == one.id) return is_of_method(one, workspace);
  if (view == "decode_drift")
    return !workspace.place().empty() && workspace.place().info().has_losses;
  return true;
}

std::vector<std::string> own_views(const Workspace& workspace) {
  std::vector<std::string> views;
  for (const MethodView& one : kMethodViews)
    if (is_of_method(one, workspace)) views.emplace_back(one.id);
  return views;
}

}  // namespace kvloupe::state
