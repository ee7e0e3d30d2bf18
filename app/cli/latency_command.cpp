// `kvloupe latency`: how long methods take on cells of a trace, beside dense attention.
#include "app/cli/chart_files.h"
#include "app/cli/commands.h"
#include "app/cli/compare_chart.h"
#include "app/cli/json_text.h"
#include "app/cli/latency_conditions.h"
#include "app/cli/options.h"
#include "app/cli/table_json.h"
#include "core/base/error.h"
#include "core/base/foreign_error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/measure/failure_of_one.h"
#include "core/measure/latency.h"
#include "core/replay/compare.h"
#include "core/replay/request_checks.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace kvloupe::cli {
namespace {

using measure::LatencyReport;
using nlohmann::ordered_json;
using table::Cell;

constexpr std::int64_t kLongest = 1 << 20;  // keys

struct LatencyArguments {
  std::string trace;
  std::vector<std::string> methods;
  Indices layers, chunks;
  std::optional<int> chunk_size;
  std::string lengths;
  std::string device = device::kDefault;
  int repetitions = 15;
  ChartFiles chart;
  std::string y = "speedup";
  bool json = false, force = false;
};

// What `--y` names, of one row.
struct LatencyNumber {
  const char* name;
  std::optional<double> (*of)(const LatencyReport&);
};
constexpr std::array<LatencyNumber, 5> kPlotted = {{
    {"speedup", [](const LatencyReport& r) { return r.speedup(); }},
    {"total_ms", [](const LatencyReport& r) { return std::optional(r.total.median_ms); }},
    {"select_ms", [](const LatencyReport& r) { return std::optional(r.select.median_ms); }},
    {"attend_ms", [](const LatencyReport& r) { return std::optional(r.attend.median_ms); }},
    {"select_of_dense",
     [](const LatencyReport& r) { return std::optional(r.select.median_ms / r.dense.median_ms); }},
}};
std::vector<std::string> number_names() {
  std::vector<std::string> names;
  for (const LatencyNumber& number : kPlotted) names.emplace_back(number.name);
  return names;
}

// "1024", "1k", "1M".
std::int64_t parse_length(const std::string& word) {
  std::string_view digits = word;
  std::int64_t unit = 1;
  if (!digits.empty() && (digits.back() == 'k' || digits.back() == 'M')) {
    unit = digits.back() == 'k' ? 1 << 10 : 1 << 20;
    digits.remove_suffix(1);
  }
  const auto number = parse_int(digits);
  if (!number || *number < 1 || *number > kLongest / unit)
    throw usage_error(fmt::format("--lengths {} is not valid", word),
                      fmt::format("a length is 1 to {} keys", format_count(kLongest)),
                      "give numbers with commas between them, such as 1024,4k,16k");
  return *number * unit;
}

// {nothing}: the past as it was recorded.
std::vector<std::optional<std::int64_t>> parse_lengths(const std::string& text) {
  if (text.empty()) return {std::nullopt};
  std::vector<std::optional<std::int64_t>> lengths;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    lengths.emplace_back(parse_length(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lengths;
}

// What programs get of a row, and people see of it.
table::Table table_of(const std::vector<LatencyReport>& reports) {
  constexpr int kDigits = 3;
  table::Table table{{"method",
                      "layer",
                      "chunk",
                      {"past", "past"},
                      {"lengthened", ""},
                      {"chunk_len", "queries"},
                      {"phase", ""},
                      {"kind", "kind"},
                      {"dense_reason", ""},
                      {"dense_ms", "dense", "ms", kDigits},
                      {"dense_q25_ms", ""},
                      {"dense_q75_ms", ""},
                      {"dense_variant", "dense by"},
                      {"total_ms", "total", "ms", kDigits},
                      {"parts/select", "select", "ms", kDigits},
                      {"parts/gather", "gather", "ms", kDigits},
                      {"parts/attend", "attend", "ms", kDigits},
                      {"q25_ms", "q25", "ms", kDigits},
                      {"q75_ms", "q75", "ms", kDigits},
                      {"speedup", "times faster", "", 2},
                      {"floor_ms", "floor", "ms", kDigits},
                      {"samples", ""},
                      {"discarded", ""}},
                     {}};
  for (const LatencyReport& r : reports) {
    const char* const kind = r.executed ? "executed" : "simulated";
    const auto ms = [&](double time) { return r.timed() ? Cell(time) : std::nullopt; };
    table.rows.push_back({table::MethodText{r.method},
                          r.layer,
                          r.chunk,
                          r.past_len,
                          r.lengthened,
                          r.chunk_len,
                          trace::name_of(r.phase),
                          table::Term{kind, r.dense_reason ? "dense here" : kind},
                          r.dense_reason ? Cell(trace::name_of(*r.dense_reason)) : std::nullopt,
                          ms(r.dense.median_ms),
                          ms(r.dense.q25_ms),
                          ms(r.dense.q75_ms),
                          r.dense_variant,
                          ms(r.total.median_ms),
                          ms(r.select.median_ms),
                          ms(r.gather.median_ms),
                          ms(r.attend.median_ms),
                          ms(r.total.q25_ms),
                          ms(r.total.q75_ms),
                          r.speedup(),
                          r.floor_ms,
                          r.total.samples,
                          r.discarded});
  }
  return table;
}

std::string answer_json(const std::vector<LatencyReport>& reports,
                        const std::vector<replay::UnavailableMethod>& unavailable,
                        const device::DeviceInfo& device, std::optional<int> chunk_size) {
  ordered_json json{{"device", device.id},
                    {"device_name", device.name},
                    {"threads", device.threads},
                    {"dtype", reports.front().dtype},
                    {"chunk_size", nullptr},
                    {"rows", json_rows(table_of(reports))},
                    {"unavailable", ordered_json::array()}};
  if (chunk_size) json["chunk_size"] = *chunk_size;
  for (std::size_t i = 0; i < reports.size(); ++i)
    add_conditions(reports[i], device.kind, json["rows"][i]);
  for (const auto& entry : unavailable)
    json["unavailable"].push_back({{"method", entry.method}, {"reason", entry.error.what()}});
  return json_text("kvloupe-latency/1", json);
}

// Where each method begins to be faster than dense attention and stays so, among the lengths.
std::string crossover_text(const std::vector<LatencyReport>& reports) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < reports.size(); begin = end) {
    const LatencyReport& first = reports[begin];
    const LatencyReport* from = nullptr;
    for (end = begin; end < reports.size() && reports[end].method == first.method &&
                      reports[end].layer == first.layer && reports[end].chunk == first.chunk;
         ++end) {
      const LatencyReport& r = reports[end];
      if (!r.timed()) continue;
      const bool faster = !r.dense_reason && r.speedup().value_or(0) > 1;
      if (!faster)
        from = nullptr;
      else if (from == nullptr)
        from = &r;
    }
    if (!first.executed) continue;
    text += fmt::format(
        "{}, layer {}, chunk {}: {}\n", printable(first.method), first.layer, first.chunk,
        from == nullptr
            ? std::string("not faster than dense attention at the longest")
            : "faster than dense attention from " + format_count(from->past_len) + " keys on");
  }
  return text;
}

std::string notes_text(const std::vector<LatencyReport>& reports, bool lengths,
                       std::optional<int> chunk_size) {
  const LatencyReport& first = reports.front();
  std::string text = fmt::format(
      "{}, {}; medians of {} rounds in which the method and the dense forms (four, on a GPU its "
      "kernels by name too; ours alone where a layer has a softcap or a sink) take turns; the "
      "fastest dense one counts\n",
      first.device, first.dtype, first.total.samples);
  for (const LatencyReport& r : reports)
    if (const std::string gpu = r.gpu_words(); !gpu.empty())
      text += fmt::format("{}: {}\n", printable(r.method), gpu);
  for (const LatencyReport& r : reports)
    if (!r.timed())
      text += fmt::format("{}, layer {}: {}\n", printable(r.method), r.layer, measure::kNotTimed);
  for (const LatencyReport& r : reports) text += counts_text(r);
  if (chunk_size)
    text += fmt::format("the prompt is cut anew into chunks of {} (open loop)\n", *chunk_size);
  if (lengths)
    text += "the past of the cell is cut or repeated to each length\n" + crossover_text(reports);
  const auto simulated = std::find_if(reports.begin(), reports.end(),
                                      [](const LatencyReport& r) { return !r.executed; });
  if (simulated != reports.end())
    text += fmt::format("simulated: {}, so that no speed is given\n", simulated->why_simulated());
  return text;
}

// Of what the reports are, for a picture of them.
struct TimedPlaces {
  std::set<int> layers, chunks;
  std::set<std::int64_t> chunk_lens;

  explicit TimedPlaces(const std::vector<LatencyReport>& reports) {
    for (const LatencyReport& r : reports) {
      layers.insert(r.layer);
      chunks.insert(r.chunk);
      chunk_lens.insert(r.chunk_len);
    }
  }
  // What follows a name: ", layer 3, chunk 2"; nothing of what there is one of.
  std::string place_of(const LatencyReport& r) const {
    std::string place;
    if (layers.size() > 1) place += fmt::format(", layer {}", r.layer);
    if (chunks.size() > 1) place += fmt::format(", chunk {}", r.chunk);
    return place;
  }
  std::string text() const {
    return fmt::format(
        "layer{} {}  \u00B7  chunk{} {}  \u00B7  {} {} a chunk", layers.size() > 1 ? "s" : "",
        fmt::join(layers, ", "), chunks.size() > 1 ? "s" : "", fmt::join(chunks, ", "),
        fmt::join(chunk_lens, " or "), *chunk_lens.rbegin() == 1 ? "query" : "queries");
  }
};

bool same_line(const LatencyReport& a, const LatencyReport& b) {
  return a.method == b.method && a.layer == b.layer && a.chunk == b.chunk;
}

// As a ratio dense attention is 1 wherever it was timed.
figure::ChartLine ratio_of_dense(const std::vector<LatencyReport>& reports) {
  figure::ChartLine line{"dense attention", {}, {}, true};
  std::set<std::int64_t> lengths;
  for (const LatencyReport& r : reports)
    if (r.timed()) lengths.insert(r.past_len);
  line.x.assign(lengths.begin(), lengths.end());
  line.y.assign(lengths.size(), 1.0);
  return line;
}

// What the methods are compared with: dense attention of each layer and chunk, as the first method's
// rounds had it, and for the whole time of one method the floor.
void add_references(const std::vector<LatencyReport>& reports, const std::string& y,
                    const TimedPlaces& places, figure::Chart& chart) {
  if (y == "speedup" || y == "select_of_dense") {
    chart.lines.push_back(ratio_of_dense(reports));
    return;
  }
  const std::string& first = reports.front().method;
  std::vector<figure::ChartLine> dense, floor;
  for (std::size_t i = 0; i < reports.size() && reports[i].method == first; ++i) {
    const LatencyReport& r = reports[i];
    if (i == 0 || !same_line(r, reports[i - 1])) {
      dense.push_back({"dense attention" + places.place_of(r), {}, {}, true});
      floor.push_back({"floor of attention" + places.place_of(r), {}, {}, true});
    }
    if (!r.timed()) continue;
    for (figure::ChartLine* line : {&dense.back(), &floor.back()})
      line->x.push_back(static_cast<double>(r.past_len));
    dense.back().y.push_back(r.dense.median_ms);
    floor.back().y.push_back(r.floor_ms);
  }
  std::move(dense.begin(), dense.end(), std::back_inserter(chart.lines));
  if (reports.back().method == first && (y == "total_ms" || y == "attend_ms"))
    std::move(floor.begin(), floor.end(), std::back_inserter(chart.lines));
}

// By length, one curve a method, layer and chunk; cells that are dense here, and speeds of methods that
// are simulated, are left out. `names` are the methods as written, by canonical text.
figure::Chart latency_chart(const std::vector<LatencyReport>& reports, const std::string& y,
                            const std::map<std::string, std::string>& names,
                            const std::string& trace) {
  const auto number = std::find_if(kPlotted.begin(), kPlotted.end(),
                                   [&](const LatencyNumber& one) { return y == one.name; });
  const TimedPlaces places(reports);
  figure::Chart chart;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const LatencyReport& r = reports[i];
    if (i == 0 || !same_line(r, reports[i - 1]))
      chart.lines.emplace_back().name = printable(names.at(r.method)) + places.place_of(r);
    const auto value = r.dense_reason || !r.timed() ? std::nullopt : number->of(r);
    if (!value) continue;
    chart.lines.back().x.push_back(static_cast<double>(r.past_len));
    chart.lines.back().y.push_back(*value);
  }
  for (figure::ChartLine& line : chart.lines)
    if (line.x.empty()) line.name += " (dense here, simulated or not timed)";
  add_references(reports, y, places, chart);
  const LatencyReport& first = reports.front();
  if (std::ranges::all_of(chart.lines, [](const auto& line) { return line.x.empty(); }))
    throw input_error("nothing can be drawn", measure::kNotTimed,
                      "measure again, or leave the picture out");
  chart.title = fmt::format("{} by past keys", y);
  chart.caption = fmt::format("{}  \u00B7  {}  \u00B7  {}, {}  \u00B7  medians",
                              printable(std::filesystem::path(trace).filename().string()),
                              places.text(), first.device, first.dtype);
  chart.x_label = "past keys";
  chart.y_label = y == "speedup" ? "times faster than dense attention" : y;
  chart.log_x = figure::spans_octaves(chart.lines, true);
  chart.log_y = figure::spans_octaves(chart.lines, false);
  return chart;
}

void check_picture(const LatencyArguments& arguments) {
  if (!arguments.chart.any()) return;
  if (arguments.lengths.find(',') == std::string::npos)
    throw usage_error("the picture has no horizontal axis", "it shows times by length",
                      "add --lengths with two lengths or more, such as 1k,4k,16k");
  for (const auto& [option, file] : arguments.chart.named()) {
    if (file.empty()) continue;
    check_ending(option, file, {"--png", "--svg", "--pdf"});
    check_result_file(file, trace::files_of_trace(arguments.trace), arguments.force);
    if (file == "-" && arguments.json)
      throw usage_error(fmt::format("{} - cannot be combined with --json", option),
                        "standard output has room for one of them", "name a file for the picture");
  }
  check_distinct(arguments.chart.named());
}

std::vector<int> layers_of(const LatencyArguments& arguments, const trace::TraceInfo& info) {
  if (!arguments.layers.numbers.empty()) return arguments.layers.numbers;
  const std::vector<int> layers = replay::checked_layers(info, {});
  if (arguments.layers.given()) return layers;
  return {layers[layers.size() / 2]};
}

std::vector<int> chunks_of(const LatencyArguments& arguments, const trace::TraceInfo& info) {
  if (!arguments.chunks.given()) return {measure::last_full_chunk(info)};
  if (!arguments.chunks.numbers.empty()) return arguments.chunks.numbers;
  return info.chunks_with_queries();
}

// What each method is called in the picture, by its canonical text.
std::map<std::string, std::string> names_of(const std::vector<replay::MethodName>& methods,
                                            const session::TraceSession& session) {
  const std::vector<std::string> in_chart = names_in_chart(methods, {});
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < methods.size(); ++i)
    names[methods[i].required_spec().resolved(session.shape()).canonical()] = in_chart[i];
  return names;
}

constexpr const char* kNotMeasured = "latency cannot be measured";

// Where each method is timed.
struct TimedCells {
  std::vector<int> layers, chunks;
  std::vector<std::optional<std::int64_t>> lengths;
};

// What came of each.
struct Timed {
  std::vector<LatencyReport> reports;
  std::vector<replay::UnavailableMethod> unavailable;
};

// Where one of several methods cannot be timed it is unavailable, and has no reports. A GPU that failed times
// nothing after it, so that the methods after that one are unavailable, too.
void time_methods(const LatencyArguments& arguments,
                  const std::vector<selection::MethodSpec>& specs,
                  const session::TraceSession& session, const TimedCells& cells, Timed& timed) {
  std::optional<Error> lost;
  for (const selection::MethodSpec& spec : specs) {
    const std::string method = spec.resolved(session.shape()).canonical();
    if (lost) {
      timed.unavailable.push_back({method, *lost});
      continue;
    }
    try {
      for (const int layer : cells.layers)
        for (const int chunk : cells.chunks)
          for (const auto& length : cells.lengths)
            timed.reports.push_back(
                engine().measure_latency(session, spec, layer, chunk,
                                         {.repetitions = arguments.repetitions,
                                          .past_len = length,
                                          .device = arguments.device},
                                         reporting_context("rounds of " + spec.id()), {}));
    } catch (const std::exception& thrown) {
      if (specs.size() == 1) throw;
      // Of Torch, too: a GPU without room for one method has room for others.
      const bool is_lost = is_gpu_failure(thrown);
      const Error error = is_lost ? error_from(kNotMeasured, thrown)
                                  : measure::failure_of_one(kNotMeasured, thrown);
      std::erase_if(timed.reports, [&](const LatencyReport& r) { return r.method == method; });
      timed.unavailable.push_back({method, error});
      if (is_lost) lost = error;
      log::warning("{} {} left out: {}", method, is_lost ? "and what comes after it are" : "is",
                   error.what());
    }
  }
}

void give_out(const Timed& timed, const LatencyArguments& arguments,
              const device::DeviceInfo& device) {
  if (arguments.json)
    results::add_data(answer_json(timed.reports, timed.unavailable, device, arguments.chunk_size));
  else if (!arguments.chart.is_printed())
    results::add_text(table::terminal_text(table_of(timed.reports)) +
                      notes_text(timed.reports, !arguments.lengths.empty(), arguments.chunk_size));
}

void run_latency(const LatencyArguments& arguments, const GlobalOptions& global) {
  const replay::MethodList list = replay::parse_methods(arguments.methods);
  const std::vector<selection::MethodSpec> specs = list.required_specs();
  TimedCells cells{{}, {}, parse_lengths(arguments.lengths)};
  const device::DeviceInfo device = engine().open_device(arguments.device);
  check_picture(arguments);
  const session::TraceSession session(arguments.trace, global.memory, arguments.chunk_size);
  report_damage(session.info());
  cells.layers = layers_of(arguments, session.info());
  cells.chunks = chunks_of(arguments, session.info());
  if (arguments.lengths.empty()) note_budgets_that_fit(specs, session.info());
  Timed timed{{}, list.unavailable};
  time_methods(arguments, specs, session, cells, timed);
  if (timed.reports.empty()) throw timed.unavailable.front().error;
  if (arguments.chart.any())
    write_chart(
        latency_chart(timed.reports, arguments.y, names_of(list.methods, session), arguments.trace),
        arguments.chart);
  give_out(timed, arguments, device);
}

}  // namespace

Command latency_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<LatencyArguments>();
  Command command("latency", "how long methods take beside dense attention");
  command.option("trace", &arguments->trace, "trace file").required();
  command.option("--method", &arguments->methods, kSpecsHelp).required().repeated();
  add_layers_option(command, arguments->layers, "layers (default: the middle one of the trace)");
  add_chunks_option(command, arguments->chunks,
                    "chunks (default: the last full one of the prompt)");
  add_chunk_size_option(command, arguments->chunk_size);
  command.option("--lengths", &arguments->lengths,
                 "after so many past keys each, for example 1k,4k,16k: the cell's own past, "
                 "cut or repeated");
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--repetitions", &arguments->repetitions, "rounds that count, of each cell")
      .range(1, 10000);
  add_chart_files(command, arguments->chart, "a number by length (--lengths), one curve a method,");
  command
      .option("--y", &arguments->y,
              "what the picture draws (default speedup); select_of_dense is the time to select "
              "as a share of dense attention's")
      .one_of(number_names());
  command.option("--json", &arguments->json, "as JSON");
  command.option("--force", &arguments->force, "let the picture replace a trace or a model, too");
  command.run = with_engine(global, [arguments, &global] { run_latency(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
