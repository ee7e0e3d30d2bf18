// The subcommands, one file each (<name>_command.cpp) and one line here and in main.cpp's list.
// A command prints its result on standard output only once all of it is known, and throws
// kvloupe::Error for the rest.
#pragma once

#include "app/cli/command.h"
#include "core/base/memory_account.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::cli {

struct GlobalOptions {
  int threads = 0;  // 0: all cores
  // One for all that a call opens.
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
  bool limits_memory = false;  // --memory-limit was given
};

Command calibrate_command(const GlobalOptions& global);
// `calibrate seer` and `calibrate minference` (calibrate_on_traces_command.cpp).
std::vector<Command> calibrations_on_traces(const GlobalOptions& global);
Command capture_command(const GlobalOptions& global);
Command run_command(const GlobalOptions& global);
// Opens the window with this trace or tour, with the options of the call.
using OpenWindow = std::function<void(const std::string& file)>;
Command demo_command(const GlobalOptions& global, const OpenWindow& open);
Command tour_command(const OpenWindow& open);
Command devices_command(const GlobalOptions& global);
Command models_command(const GlobalOptions& global);
Command record_help_command(const GlobalOptions& global);
Command info_command(const GlobalOptions& global);
Command validate_command(const GlobalOptions& global);
Command methods_command(const GlobalOptions& global);
Command views_command(const GlobalOptions& global);
Command report_command(const GlobalOptions& global);
Command select_command(const GlobalOptions& global);
Command compare_command(const GlobalOptions& global);
Command diff_command(const GlobalOptions& global);
Command slice_command(const GlobalOptions& global);
Command import_command(const GlobalOptions& global);
Command latency_command(const GlobalOptions& global);
Command explain_command(const GlobalOptions& global);
Command export_command(const GlobalOptions& global);
Command synthesize_command(const GlobalOptions& global);
Command bench_command(const GlobalOptions& global);
Command first_frame_command(const GlobalOptions& global);  // that bench calls
Command first_page_command(const GlobalOptions& global);   // the same

}  // namespace kvloupe::cli
