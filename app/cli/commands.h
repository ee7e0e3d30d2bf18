// The subcommands, one file each (<name>_command.cpp) and one line here and in main.cpp's list.
// A command adds itself to the program and sets a callback; it prints its result on standard output
// only once all of it is known, and throws kvloupe::Error for the rest.
#pragma once

#include "core/base/memory_account.h"

#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace kvloupe::cli {

struct GlobalOptions {
  int threads = 0;  // 0: all cores
  // One for all that a call opens.
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
};

void add_calibrate_command(CLI::App& program, const GlobalOptions& global);
// `calibrate seer` and `calibrate minference` (calibrate_on_traces.cpp).
void add_calibrations_on_traces(CLI::App& calibrate, const GlobalOptions& global);
void add_capture_command(CLI::App& program, const GlobalOptions& global);
void add_devices_command(CLI::App& program, const GlobalOptions& global);
void add_models_command(CLI::App& program, const GlobalOptions& global);
void add_record_help_command(CLI::App& program, const GlobalOptions& global);
void add_info_command(CLI::App& program, const GlobalOptions& global);
void add_validate_command(CLI::App& program, const GlobalOptions& global);
void add_methods_command(CLI::App& program, const GlobalOptions& global);
void add_views_command(CLI::App& program, const GlobalOptions& global);
void add_report_command(CLI::App& program, const GlobalOptions& global);
void add_select_command(CLI::App& program, const GlobalOptions& global);
void add_compare_command(CLI::App& program, const GlobalOptions& global);
void add_latency_command(CLI::App& program, const GlobalOptions& global);
void add_explain_command(CLI::App& program, const GlobalOptions& global);
void add_export_command(CLI::App& program, const GlobalOptions& global);
void add_synthesize_command(CLI::App& program, const GlobalOptions& global);
void add_bench_command(CLI::App& program, const GlobalOptions& global);

}  // namespace kvloupe::cli
