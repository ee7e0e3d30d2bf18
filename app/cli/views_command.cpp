// `kvloupe views`: the views built and the formats in which each can be exported.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/state/view_list.h"
#include "core/base/results.h"

#include <nlohmann/json.hpp>

#include <memory>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const state::ViewOption& option) {
  return {{"name", option.name},
          {"argument", "--" + option.name},
          {"default", option.choices.front()},
          {"choices", option.choices},
          {"meaning", option.meaning}};
}

void print_json() {
  ordered_json views = ordered_json::array();
  for (const state::ViewInfo& view : state::views()) {
    ordered_json formats = ordered_json::array(), options = ordered_json::array();
    for (const state::Format format : view.formats()) formats.push_back(state::name_of(format));
    for (const state::ViewOption& option : view.options) options.push_back(json_of(option));
    views.push_back(
        {{"id", view.id},
         {"title", view.title},
         {"summary", view.summary},
         {"shows", view.shows_results ? "results" : "trace"},
         {"metrics", view.metrics.empty() ? ordered_json() : ordered_json(view.metrics_link())},
         {"formats", formats},
         {"goto", view.coordinates},
         {"methods", view.num_methods},
         {"more_methods", view.more_methods != nullptr || view.shows_results},
         {"options", options}});
  }
  results::add_data(json_text("kvloupe-views/1", {{"views", views}}, 2));
}

void print_table() {
  table::Table table{{"view", "formats", "summary"}, {}};
  for (const state::ViewInfo& view : state::views()) {
    std::string formats;
    for (const state::Format format : view.formats())
      formats += (formats.empty() ? "" : " ") + std::string(state::name_of(format));
    table.rows.push_back({view.id, formats, view.summary});
  }
  results::add_text(table::terminal_text(table));
}

}  // namespace

Command views_command(const GlobalOptions&) {
  Command command("views", "list the views and their export formats");
  const auto json = std::make_shared<bool>(false);
  command.option("--json", json.get(), "print JSON");
  command.run = [json](const Given&) { *json ? print_json() : print_table(); };
  return command;
}

}  // namespace kvloupe::cli
