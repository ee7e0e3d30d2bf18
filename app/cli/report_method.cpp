// The page of one method: what it keeps, what it loses, and why.
#include "app/cli/compare_report.h"
#include "app/cli/lost_keys_text.h"
#include "app/cli/report.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;
using replay::Number;

constexpr std::size_t kKeys = 20, kRegrets = 10;

// Of those asked for.
std::int64_t prefill_chunks(const trace::TraceInfo& info, const Indices& asked) {
  std::int64_t count = 0;
  for (int c = 0; c < static_cast<int>(info.chunks.size()); ++c)
    count += info.chunks[static_cast<std::size_t>(c)].phase == trace::Phase::Prefill &&
             info.has_queries(c) &&
             (asked.numbers.empty() ||
              std::binary_search(asked.numbers.begin(), asked.numbers.end(), c));
  return count;
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

std::string facts(const session::TraceSession& session, const replay::LostKeys& lost,
                  const replay::CompareRow& row, const ReportArguments& arguments) {
  const trace::TraceInfo& info = session.info();
  const replay::MethodChoice& method = lost.method;
  std::string text = fmt::format(
      "# {} on {}\n\n{}\n\n", method.known() ? title_of(*method.spec) : as_text(method.text),
      as_text(fs::path(info.path).filename().string()), as_code(method.text));
  text += fmt::format("{} {}{}\n\n", facts_of(info), source_of(method), extent(arguments));
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

}  // namespace

void report_method(const ReportArguments& arguments, const GlobalOptions& global) {
  const replay::MethodName method(arguments.methods.front());
  engine().open_device(arguments.device);
  const session::TraceSession session =
      open_session(arguments.traces.front(), global, {method}, arguments.chunk_size);
  const replay::MethodChoice choice = choice_in(session, method);
  const replay::ReplayRequest averages = numbers_request(arguments);
  if (const auto error =
          engine().why_choice_unavailable(session, choice, averages, reporting_context("cells")))
    throw Error(*error);
  const std::unique_ptr<ReportPage> page = open_page(arguments);
  const replay::LostKeys lost = lost_keys(session, choice, arguments, kKeys);
  const replay::Comparison comparison =
      engine().compare_methods(session, {method}, averages, {}, reporting_context("cells"));

  page->add(facts(session, lost, comparison.rows.front(), arguments) + causes(lost) +
            keys(lost, session));
  for (const Picture& picture : kPictures) {
    if (!can_draw(picture, lost)) continue;
    figure::ExportRequest drawn = picture_request(arguments, picture.view, global);
    drawn.what.place = place_of(lost);
    // A run may lack layers that a picture shows; the page is whole without it.
    draw_picture(*page, drawn, picture.title, choice.recorded());
  }
  write_page(*page);
}

}  // namespace kvloupe::cli
