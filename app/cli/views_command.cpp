// `kvloupe views`: the views built and the formats in which each can be exported.
#include "app/cli/commands.h"
#include "app/panels/panel.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace kvloupe::cli {
namespace {

void print_json() {
  nlohmann::ordered_json views = nlohmann::ordered_json::array();
  for (const panels::PanelInfo& panel : panels::panel_registry()) {
    nlohmann::ordered_json formats = nlohmann::ordered_json::array();
    for (const panels::Format format : panel.formats) formats.push_back(panels::name_of(format));
    views.push_back({{"id", panel.id},
                     {"title", panel.title},
                     {"summary", panel.summary},
                     {"formats", formats}});
  }
  fmt::print("{}\n", views.dump(2));
}

void print_table() {
  for (const panels::PanelInfo& panel : panels::panel_registry()) {
    std::string formats;
    for (const panels::Format format : panel.formats)
      formats += (formats.empty() ? "" : " ") + std::string(panels::name_of(format));
    fmt::print("{:<20} {:<12}  {}\n", panel.id, formats, panel.summary);
  }
}

}  // namespace

void add_views_command(CLI::App& program, const GlobalOptions&) {
  CLI::App* command = program.add_subcommand("views", "list the views and their export formats");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([json] { *json ? print_json() : print_table(); });
}

}  // namespace kvloupe::cli
