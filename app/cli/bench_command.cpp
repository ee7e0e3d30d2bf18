// `kvloupe bench`: the performance goals, measured on this machine.
#include "app/bench/bench.h"
#include "app/bench/start_rows.h"
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/latency_conditions.h"
#include "app/cli/options.h"
#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/results.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;

struct BenchArguments {
  std::string suite = bench::suites().front().name;
  std::string device = device::kDefault;
  std::string trace;
  bool peers = false;
  bool json = false;
};

ordered_json json_of(const bench::Row& row) {
  const bool timed = row.value && row.time.samples > 0;
  const auto time = [&](double ms) { return timed ? ordered_json(ms) : ordered_json(nullptr); };
  ordered_json json = {{"id", row.id},
                       {"value", or_null(row.value)},
                       {"unit", row.unit},
                       {"threshold", or_null(row.threshold)},
                       {"goal", bench::name_of(row.goal)},
                       {"holds", or_null(row.holds())},
                       {"median_ms", time(row.time.median_ms)},
                       {"q25_ms", time(row.time.q25_ms)},
                       {"q75_ms", time(row.time.q75_ms)}};
  if (timed) json["samples"] = row.time.samples;
  if (!row.reason.empty()) json["reason"] = row.reason;
  if (row.dense_left_out) json["dense_left_out"] = left_out_json(*row.dense_left_out);
  for (const auto& [name, number] : row.numbers) json[name] = number;
  for (const auto& [name, text] : row.details) json["details"][name] = text;
  return json;
}

std::string json_of(const bench::Machine& machine, const std::vector<bench::Row>& rows) {
  ordered_json json = {{"machine",
                        {{"device", machine.device},
                         {"name", machine.name},
                         {"threads", machine.threads},
                         {"dtype", trace::to_text(machine.type)},
                         {"read_gb_per_s", machine.read_bandwidth / 1e9},
                         {"fp32_gflop_per_s", machine.fp32_flops / 1e9},
                         {"version", machine.version}}},
                       {"rows", ordered_json::array()}};
  for (const bench::Row& row : rows) json["rows"].push_back(json_of(row));
  return json_text("kvloupe-bench/1", json, 2);
}

constexpr const char* kLine = "{:<24} {:>14} {:>7} {:>5}  {:<28} {}\n";

std::string heading(const bench::Machine& machine) {
  return fmt::format("{}, {}, reads {:.1f} GB/s, multiplies {:.0f} GFLOP/s in fp32, kvloupe {}\n\n",
                     machine.device, trace::to_text(machine.type), machine.read_bandwidth / 1e9,
                     machine.fp32_flops / 1e9, machine.version) +
         fmt::format(kLine, "row", "value", "goal", "holds", "median (quartiles)", "what");
}

// Written row by row, so with columns of fixed width.
std::string line_of(const bench::Row& row) {
  const bool timed = row.value && row.time.samples > 0;
  std::string text = fmt::format(
      kLine, row.id, row.value ? fmt::format("{:.2f} {}", *row.value, row.unit) : "-",
      row.threshold
          ? fmt::format("{} {:g}", row.goal == bench::Goal::AtLeast ? ">=" : "<=", *row.threshold)
          : "-",
      row.holds() ? (*row.holds() ? "yes" : "no") : "-", timed ? bench::stats_text(row.time) : "-",
      row.value ? row.meaning : fmt::format("{}: {}", row.meaning, row.reason));
  if (row.numbers.empty() && row.details.empty()) return text;
  text += " ";
  for (const auto& [name, number] : row.numbers) text += fmt::format(" {}={:.6g};", name, number);
  for (const auto& [name, value] : row.details) text += fmt::format(" {}={};", name, value);
  return text + "\n";
}

const bench::Suite& find_suite(const std::string& name) {
  const auto all = bench::suites();
  return *std::find_if(all.begin(), all.end(),
                       [&](const auto& suite) { return suite.name == name; });
}

// The device's full name.
std::string device_of(const BenchArguments& arguments, const bench::Suite& suite) {
  const device::DeviceInfo info = engine().open_device(arguments.device);
  const bool runs = info.kind == device::DeviceKind::Cpu ||
                    (info.kind == device::DeviceKind::Cuda && suite.on_gpu);
  if (!runs)
    throw input_error(fmt::format("the suite {} cannot run on {}", suite.name, info.label()),
                      info.kind == device::DeviceKind::Sim
                          ? "sim runs in host memory, its times are no device's"
                          : "its rows are defined for the processor",
                      "use --device cpu");
  return info.id;
}

// Rows are kept when the suite is interrupted or fails: as text they are out, as JSON they are delivered
// then.
void run_bench(const BenchArguments& arguments) {
  const bench::Suite& suite = find_suite(arguments.suite);
  if (!arguments.trace.empty() && !suite.takes_trace)
    throw usage_error(fmt::format("--trace does not go with the suite {}", suite.name),
                      "it measures no trace", "leave it out, or use --suite window");
  std::vector<bench::Row> rows;
  bench::SuiteRun run;
  run.device = device_of(arguments, suite);
  run.machine = bench::describe_machine(run.device);
  run.trace = arguments.trace;
  run.peers = arguments.peers;
  run.context.cancel = interrupt_token();
  run.context.progress = [](std::int64_t, std::int64_t, const std::string& stage) {
    log::info("bench: {}", stage);
  };
  if (!arguments.json) results::add_text(heading(run.machine));
  run.add = [&](bench::Row row) {
    if (!arguments.json) {
      results::add_text(line_of(row));
      results::deliver();
    }
    rows.push_back(std::move(row));
  };
  try {
    suite.run(run);
  } catch (...) {
    if (rows.empty()) throw;
    if (arguments.json) results::add_data(json_of(run.machine, rows));
    results::deliver();
    throw;
  }
  if (arguments.json) results::add_data(json_of(run.machine, rows));
}

std::string suite_help() {
  std::string text = "what to measure:";
  for (const bench::Suite& suite : bench::suites())
    text += fmt::format("{} {} ({})", text.back() == ':' ? "" : ",", suite.name, suite.summary);
  return text;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const bench::Suite& suite : bench::suites()) names.emplace_back(suite.name);
  return names;
}

}  // namespace

Command bench_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<BenchArguments>();
  Command command("bench", "measure the performance goals on this machine");
  command.option("--suite", &arguments->suite, suite_help()).one_of(suite_names()).show_default();
  command.option("--device", &arguments->device, "cpu or cuda:N (default: cpu)");
  command.option("--trace", &arguments->trace,
                 "trace that the window is measured on (default: one of 8k tokens is captured)");
  command.option("--peers", &arguments->peers,
                 "compare with transformers too; installs it first (about 5 GB)");
  command.option("--json", &arguments->json, "print JSON");
  command.run = with_engine(global, [arguments] { run_bench(*arguments); });
  return command;
}

Command first_frame_command(const GlobalOptions&) {
  Command command(bench::kFirstFrame, "");
  command.is_hidden = true;
  command.run = [](const Given&) { bench::draw_first_frame(); };
  return command;
}

Command first_page_command(const GlobalOptions&) {
  Command command(bench::kFirstPage, "");
  command.is_hidden = true;
  command.run = [](const Given&) { bench::draw_first_page(); };
  return command;
}

}  // namespace kvloupe::cli
