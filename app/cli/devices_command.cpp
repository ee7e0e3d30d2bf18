// `kvloupe devices`: what --device takes on this machine, and why not what it does not take.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/table_json.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/engine/engine.h"

#include <memory>
#include <vector>

namespace kvloupe::cli {
namespace {

table::Table devices_table(const std::vector<device::ListedDevice>& devices) {
  // What has no title is for programs, what has no id for people.
  table::Table table{{{"id", "device"},
                      "name",
                      {"available", ""},
                      {"reason", ""},
                      {"memory_bytes", ""},
                      {"threads", ""},
                      {"", "memory"},
                      {"", "usable"}},
                     {}};
  const auto above_0 = [](auto count) { return count > 0 ? table::Cell(count) : std::nullopt; };
  for (const device::ListedDevice& device : devices)
    table.rows.push_back({device.info.id, device.info.name, device.available(),
                          device.available() ? table::Cell(std::nullopt) : device.reason,
                          above_0(device.memory_bytes), above_0(device.info.threads),
                          device.memory_bytes > 0 ? format_bytes(device.memory_bytes) : "?",
                          device.available() ? "yes" : "no: " + device.reason});
  return table;
}

}  // namespace

Command devices_command(const GlobalOptions& global) {
  Command command("devices",
                  "list the devices of this machine that --device takes, and why not the others");
  const auto json = std::make_shared<bool>(false);
  command.option("--json", json.get(), "print JSON");
  command.run = with_engine(global, [json] {
    const table::Table table = devices_table(engine().list_devices());
    *json ? results::add_data(json_text("kvloupe-devices/1", {{"devices", json_rows(table)}}, 2))
          : results::add_text(table::terminal_text(table));
  });
  return command;
}

}  // namespace kvloupe::cli
