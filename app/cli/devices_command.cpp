// `kvloupe devices`: what --device takes on this machine, and why not what it does not take.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/replay/table.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;

void print_json(const std::vector<device::ListedDevice>& devices) {
  ordered_json json;
  json["devices"] = ordered_json::array();
  for (const device::ListedDevice& device : devices)
    json["devices"].push_back(
        {{"id", device.info.id},
         {"name", device.info.name},
         {"available", device.available()},
         {"reason", device.available() ? ordered_json(nullptr) : ordered_json(device.reason)},
         {"memory_bytes",
          device.memory_bytes > 0 ? ordered_json(device.memory_bytes) : ordered_json(nullptr)},
         {"threads",
          device.info.threads > 0 ? ordered_json(device.info.threads) : ordered_json(nullptr)}});
  results::add_data(json_text("kvloupe-devices/1", json, 2));
}

void print_table(const std::vector<device::ListedDevice>& devices) {
  table::Table table{{"device", "name", "memory", "usable"}, {}};
  for (const device::ListedDevice& device : devices)
    table.rows.push_back({device.info.id, device.info.name,
                          device.memory_bytes > 0 ? format_bytes(device.memory_bytes) : "?",
                          device.available() ? "yes" : "no: " + device.reason});
  results::add_text(table::terminal_text(table));
}

}  // namespace

Command devices_command(const GlobalOptions& global) {
  Command command("devices",
                  "list the devices of this machine that --device takes, and why not the others");
  const auto json = std::make_shared<bool>(false);
  command.option("--json", json.get(), "print JSON");
  command.run = with_engine(global, [json] {
    const std::vector<device::ListedDevice> devices = engine().list_devices();
    *json ? print_json(devices) : print_table(devices);
  });
  return command;
}

}  // namespace kvloupe::cli
