// `kvloupe report`: one page about a method on a trace, as Markdown and pictures, or as HTML.
#include "app/cli/commands.h"
#include "app/cli/compare_report.h"
#include "app/cli/lost_keys_text.h"
#include "app/cli/options.h"
#include "app/cli/report_page.h"
#include "app/figure/export.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/replay/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;
using replay::Number;

struct ReportArguments {
  std::string trace, method, output, device = device::kDefault;
  Indices layers, chunks;
  std::optional<int> chunk_size;
  bool force = false;
};

constexpr std::size_t kKeys = 20, kRegrets = 10;

// Of those asked for.
std::int64_t prefill_chunks(const trace::TraceInfo& info, const Indices& asked) {
  std::int64_t count = 0;
  for (int c = 0; c < static_cast<int>(info.chunks.size()); ++c)
    count += info.chunks[static_cast<std::size_t>(c)].phase == trace::Phase::Prefill &&
             (asked.numbers.empty() ||
              std::binary_search(asked.numbers.begin(), asked.numbers.end(), c));
  return count;
}

// What the numbers of the page leave out, and what they are of.
std::string extent(const ReportArguments& arguments) {
  std::string text;
  if (arguments.chunk_size)
    text += fmt::format(" The prompt is cut anew into chunks of {}.", *arguments.chunk_size);
  if (!arguments.layers.numbers.empty())
    text += fmt::format(" The numbers are of the layers {}.", arguments.layers.text);
  if (!arguments.chunks.numbers.empty())
    text += fmt::format(" The numbers are of the chunks {}.", arguments.chunks.text);
  return text;
}

// Where the sets of the page come from.
std::string source_of(const replay::MethodChoice& method) {
  if (!method.recorded()) return "Open loop: selected anew on the stored queries and keys.";
  if (method.known())
    return fmt::format(
        "The means are of run {} as recorded; the causes are found by selecting anew on the "
        "stored queries and keys.",
        method.run);
  return fmt::format(
      "Run {} as recorded. KVLoupe does not know its method, so it cannot say why a "
      "key was lost.",
      method.run);
}

// What comes from a file begins nothing in the page.
std::string as_text(const std::string& text) { return table::in_markdown(printable(text)); }
std::string as_code(const std::string& text) {
  return text.find('`') == std::string::npos ? "`" + printable(text) + "`" : as_text(text);
}

std::string facts(const session::TraceSession& session, const replay::LostKeys& lost,
                  const replay::CompareRow& row, const ReportArguments& arguments) {
  const trace::TraceInfo& info = session.info();
  const replay::MethodChoice& method = lost.method;
  std::string text = fmt::format(
      "# {} on {}\n\n{}\n\n", method.known() ? title_of(*method.spec) : as_text(method.text),
      as_text(fs::path(info.path).filename().string()), as_code(method.text));
  text +=
      fmt::format("{}, {} tokens in {} chunks, {} of {} layers captured; {}. {}{}\n\n",
                  as_text(info.model.name), info.num_tokens, info.chunks.size(), info.layers.size(),
                  info.model.num_layers, info.complete ? "complete" : "incomplete",
                  source_of(method), extent(arguments));
  // A cell is a row of heads in a chunk of a layer; those that keep everything enter no mean.
  const std::int64_t num_rows = session.shape().num_q_heads / lost.layout.q_heads_per_row;
  table::Table means{{}, {{}}};
  for (const Number which :
       {Number::MassRecall, Number::TopkOverlap, Number::OutputError, Number::Density}) {
    means.columns.emplace_back(which);
    means.rows.front().push_back(known(row, which));
  }
  means.columns.insert(means.columns.end(),
                       {{"cells", "cells chosen in"}, {"all_cells", "all cells"}});
  means.rows.front().insert(
      means.rows.front().end(),
      {row.cells, num_rows * std::ssize(lost.layers) * prefill_chunks(info, arguments.chunks)});
  return text + table::markdown_text(means) + "\n";
}

std::string causes(const replay::LostKeys& lost) {
  std::string text = "## What it loses, and why\n\n" + causes_sentence(lost) + "\n\n";
  if (lost.all.lost <= 0) return text;
  return text + table::markdown_text(causes_table(lost)) +
         "\nWhat the causes mean, and how they are found: docs/explain.md of KVLoupe.\n\n";
}

std::string keys(const replay::LostKeys& lost, const session::TraceSession& session) {
  if (lost.keys.empty()) return "";
  std::string text = fmt::format("## The {} lost keys of most true mass\n\n{}\n",
                                 std::min(kKeys, lost.keys.size()),
                                 table::markdown_text(lost_keys_table(lost, session, kKeys)));
  if (!lost.regrets.empty())
    text += "## Dropped, and wanted later\n\n" +
            table::markdown_text(regrets_table(lost, session, kRegrets)) + "\n";
  return text;
}

struct Picture {
  const char *view, *title;
};
constexpr Picture kPictures[] = {{"worst_misses", "Worst misses"},
                                 {"miss_inspector", "The worst of them"},
                                 {"layer_head_overview", "Layers and heads"},
                                 {"kv_map", "What is kept, chunk by chunk"}};

bool can_draw(const Picture& picture, const replay::LostKeys& lost) {
  // These say why, of a method that can be run again; the second shows one key.
  if (std::string_view(picture.view) == "worst_misses") return lost.method.known();
  if (std::string_view(picture.view) == "miss_inspector")
    return lost.method.known() && !lost.keys.empty();
  return true;
}

// Where the trace lost most, so that the pictures show it.
state::GotoTarget place_of(const replay::LostKeys& lost) {
  state::GotoTarget place;
  if (lost.keys.empty()) return place;
  const replay::LostKey& worst = lost.keys.front();
  place.layer = worst.layer;
  place.q_head = worst.row * lost.layout.q_heads_per_row;
  place.chunk = worst.chunk;
  place.key_begin = worst.key;
  place.key_end = worst.key + 1;
  return place;
}

figure::ExportRequest picture_request(const ReportArguments& arguments, const Picture& picture,
                                      const GlobalOptions& global) {
  figure::ExportRequest request;
  request.what.trace = arguments.trace;
  request.what.view = picture.view;
  request.what.methods = {arguments.method};
  request.what.device = arguments.device;
  request.what.chunk_size = arguments.chunk_size;
  request.force = arguments.force;
  request.memory = global.memory;
  request.bases = basis_maker();
  return request;
}

void run_report(const ReportArguments& arguments, const GlobalOptions& global) {
  if (arguments.output.empty())
    throw usage_error("-o names nothing", "the page needs a folder or a file",
                      "give a folder, such as -o report, or a file, such as -o report.html");
  const replay::MethodName method(arguments.method);
  engine().open_device(arguments.device);
  const session::TraceSession session =
      open_session(arguments.trace, global, {method}, arguments.chunk_size);
  const replay::MethodChoice choice = choice_in(session, method);
  replay::ReplayRequest averages;
  averages.layers = arguments.layers.numbers;
  averages.chunks = arguments.chunks.numbers;
  averages.want_output_error = true;
  averages.device = arguments.device;
  if (const auto error =
          engine().why_choice_unavailable(session, choice, averages, reporting_context("cells")))
    throw Error(*error);
  const std::unique_ptr<ReportPage> page = open_report(arguments.output);
  check_result_file(page->file(), {arguments.trace}, arguments.force);

  replay::LostKeysRequest request;
  request.method = choice;
  request.layers = averages.layers;
  request.chunks = averages.chunks;
  request.device = arguments.device;
  request.count = kKeys;
  const replay::LostKeys lost = engine().lost_keys(session, request, reporting_context("cells"));
  const replay::Comparison comparison =
      engine().compare_methods(session, {method}, averages, {}, reporting_context("cells"));

  page->add(facts(session, lost, comparison.rows.front(), arguments) + causes(lost) +
            keys(lost, session));
  for (const Picture& picture : kPictures) {
    if (!can_draw(picture, lost)) continue;
    figure::ExportRequest drawn = picture_request(arguments, picture, global);
    drawn.what.place = place_of(lost);
    page->add(fmt::format("## {}\n\n", picture.title));
    try {
      page->add_picture(drawn, picture.title);
    } catch (const Error& error) {
      // A run may lack layers that a picture shows; the page is whole without it.
      if (error.kind() != ErrorKind::Input || !choice.recorded()) throw;
      page->add(fmt::format("Not drawn: {}.\n\n", as_text(error.why())));
    }
  }
  page->write();
  results::add_text(fmt::format("wrote {}\n", page->file().string()));
}

}  // namespace

Command report_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<ReportArguments>();
  Command command("report",
                  "one page about a method on a trace: what it keeps, what it loses, and why");
  command.option("trace", &arguments->trace, "trace file").required();
  command.option("--method", &arguments->method, kMethodHelp).required();
  add_layers_option(command, arguments->layers, "layers of the numbers (default: all)");
  add_chunks_option(command, arguments->chunks, "chunks of the numbers (default: all)");
  add_chunk_size_option(command, arguments->chunk_size);
  command
      .option("-o,--output", &arguments->output,
              "folder for report.md and its pictures, or one file: report.html")
      .required();
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--force", &arguments->force, "replace a trace or a model, too");
  command.run = with_engine(global, [arguments, &global] { run_report(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
