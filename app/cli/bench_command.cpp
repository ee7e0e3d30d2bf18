// `kvloupe bench`: the performance goals, measured on this machine.
#include "app/bench/bench.h"
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/text_table.h"
#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/results.h"
#include "core/device/device.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;

struct BenchArguments {
  std::string suite = "contract";
  std::string device = "cpu";
  bool peers = false;
  bool json = false;
};

ordered_json number_or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json json_of(const bench::Row& row) {
  const bool timed = row.value && row.time.samples > 0;
  const auto time = [&](double ms) { return timed ? ordered_json(ms) : ordered_json(nullptr); };
  ordered_json json = {{"id", row.id},
                       {"value", number_or_null(row.value)},
                       {"unit", row.unit},
                       {"threshold", number_or_null(row.threshold)},
                       {"goal", bench::name_of(row.goal)},
                       {"holds", row.holds() ? ordered_json(*row.holds()) : ordered_json(nullptr)},
                       {"median_ms", time(row.time.median_ms)},
                       {"q25_ms", time(row.time.q25_ms)},
                       {"q75_ms", time(row.time.q75_ms)}};
  if (timed) json["samples"] = row.time.samples;
  if (!row.reason.empty()) json["reason"] = row.reason;
  for (const auto& [name, number] : row.numbers) json[name] = number;
  for (const auto& [name, text] : row.details) json["details"][name] = text;
  return json;
}

std::string json_of(const bench::Report& report) {
  const bench::Machine& machine = report.machine;
  ordered_json json = {{"machine",
                        {{"device", machine.device},
                         {"name", machine.name},
                         {"threads", machine.threads},
                         {"read_gb_per_s", machine.read_bandwidth / 1e9},
                         {"version", machine.version}}},
                       {"rows", ordered_json::array()}};
  for (const bench::Row& row : report.rows) json["rows"].push_back(json_of(row));
  return json_text(json, 2);
}

std::string table_text(const bench::Report& report) {
  TextTable table({"row", "value", "goal", "holds", "median", "quartiles", "what"});
  for (const bench::Row& row : report.rows) {
    const bool timed = row.value && row.time.samples > 0;
    table.add({row.id, row.value ? fmt::format("{:.2f} {}", *row.value, row.unit) : "-",
               row.threshold
                   ? fmt::format("{} {:g}",
                                 row.goal == bench::Goal::AtLeast ? ">=" : "<=", *row.threshold)
                   : "-",
               row.holds() ? (*row.holds() ? "yes" : "no") : "-",
               timed ? fmt::format("{:.1f} ms", row.time.median_ms) : "-",
               timed ? fmt::format("{:.1f} to {:.1f}", row.time.q25_ms, row.time.q75_ms) : "-",
               row.value ? row.meaning : fmt::format("{}: {}", row.meaning, row.reason)});
  }
  std::string text = fmt::format("{}, reads {:.1f} GB/s, kvloupe {}\n\n", report.machine.device,
                                 report.machine.read_bandwidth / 1e9, report.machine.version);
  text += table.text();
  for (const bench::Row& row : report.rows) {
    if (row.numbers.empty() && row.details.empty()) continue;
    text += fmt::format("\n{}:", row.id);
    for (const auto& [name, number] : row.numbers) text += fmt::format(" {}={:.6g};", name, number);
    for (const auto& [name, value] : row.details) text += fmt::format(" {}={};", name, value);
  }
  return text + "\n";
}

void run_bench(const BenchArguments& arguments) {
  const bool paged = arguments.suite == "paged";
  if (!paged && arguments.suite != "contract") {
    throw input_error(fmt::format("the suite {} cannot be run", arguments.suite),
                      "this version has the suites contract and paged",
                      "use --suite contract or --suite paged");
  }
  if (device::parse_device(arguments.device).is_cuda) {
    const device::DeviceInfo info = device::open_device(arguments.device);
    throw input_error(
        fmt::format("the suite {} cannot run on {}", arguments.suite, info.label()),
        paged ? "paged attention has no CUDA kernel" : "its rows are defined for the processor",
        "use --device cpu");
  }
  WorkContext context;
  context.cancel = interrupt_token();
  context.progress = [](std::int64_t, std::int64_t, const std::string& stage) {
    log::info("bench: {}", stage);
  };
  const bench::Report report =
      paged ? bench::run_paged_suite(context) : bench::run_contract_suite(arguments.peers, context);
  arguments.json ? results::add_data(json_of(report)) : results::add_text(table_text(report));
}

}  // namespace

void add_bench_command(CLI::App& program, const GlobalOptions& global) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      program.add_subcommand("bench", "measure the performance goals on this machine");
  command->add_option("--suite", arguments->suite, "what to measure (default: contract)")
      ->check(CLI::IsMember({"contract", "paged", "prefill", "lengths"}));
  command->add_option("--device", arguments->device, "cpu or cuda:N (default: cpu)");
  command->add_flag("--peers", arguments->peers,
                    "compare with transformers too; installs it first (about 5 GB)");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &global] {
    use_engine(global);
    run_bench(*arguments);
  });

  // Without a group: no help shows it.
  program.add_subcommand(bench::kFirstFrame)->group("")->callback([] {
    bench::draw_first_frame();
  });
}

}  // namespace kvloupe::cli
