// The page of several methods on one trace: the same numbers over the same cells, what each loses, and
// where two of them differ.
#include "app/cli/compare_report.h"
#include "app/cli/lost_keys_text.h"
#include "app/cli/report.h"
#include "app/state/span_choices.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;
using replay::Number;
using state::needle_of;

std::string title(const trace::TraceInfo& info, std::size_t methods) {
  return fmt::format("# {} methods on {}\n\n{}", methods,
                     as_text(fs::path(info.path).filename().string()), facts_of(info));
}

// That of the prompt, unless no cell of it is there.
std::string phase_of(const replay::Comparison& comparison) {
  const auto has = [&](const char* phase) {
    return std::any_of(comparison.rows.begin(), comparison.rows.end(), [&](const auto& row) {
      return row.phase == phase && row.scope == "all" && row.cells > 0;
    });
  };
  return has("prefill") || !has("decode") ? "prefill" : "decode";
}

// A row for each method that the trace can serve.
std::string numbers(const replay::Comparison& comparison, const trace::TraceInfo& info,
                    bool chunks_are_chosen) {
  const std::string phase = phase_of(comparison);
  std::vector<Number> shown{Number::MassRecall, Number::TopkOverlap, Number::OutputError};
  const trace::TokenSpan* const needle = needle_of(info);
  if (needle != nullptr) shown.push_back(Number::SpanKept);
  shown.push_back(Number::Density);
  table::Table table{{"method"}, {}};
  for (const Number number : shown) {
    table.columns.emplace_back(number);
    if (number == Number::SpanKept) table.columns.back().title = "needle kept";
  }
  table.columns.insert(table.columns.end(), {{"cells", "cells"}});
  for (const replay::CompareRow& row : comparison.rows) {
    if (row.phase != phase || row.scope != "all") continue;
    const std::string run = row.run ? fmt::format("run {}: ", *row.run) : std::string();
    std::vector<table::Cell>& cells =
        table.rows.emplace_back(std::vector<table::Cell>{run + short_text(row.method)});
    for (const Number number : shown) cells.push_back(known(row, number));
    cells.emplace_back(row.cells);
  }
  std::string text = fmt::format(
      "## The numbers\n\nMeans over the cells of {} in which none of the methods keeps everything; "
      "a "
      "cell is a row of heads in a chunk of a layer.",
      phase == "prefill" ? "the prompt" : "the decode steps");
  const trace::TokenSpan* const question = replay::question_of(info);
  if (needle != nullptr && question == nullptr)
    text += " What is kept of the needle is over the chunks that see it.";
  if (needle != nullptr && question != nullptr)
    text += fmt::format(
        " What is kept of the needle is over the chunks from the question on (chunk {}){}.",
        std::max(0, info.chunk_of_token(question->begin)),
        chunks_are_chosen ? ", of those chosen" : "");
  text += " The best is bold, the second best in italics.\n\n" +
          table::markdown_text(table, table::Marks::Best) + "\n";
  for (const replay::Comparison::NoCell& none : comparison.no_common_cell)
    if (none.asked) text += fmt::format("In {} no cell is common to all.\n\n", none.phase);
  for (const replay::UnavailableMethod& gone : comparison.unavailable)
    text += fmt::format("Left out: {}: {}.\n\n", as_code(gone.method), as_text(gone.error.why()));
  return text;
}

std::string losses(const std::vector<replay::LostKeys>& all) {
  std::string text = "## What each loses, and why\n\n";
  for (const replay::LostKeys& lost : all)
    text +=
        fmt::format("- {}. {}\n", as_code(replay::short_name(lost.method)), causes_sentence(lost));
  return text + "\nWhat the causes mean, and how they are found: docs/explain.md of KVLoupe.\n\n";
}

// Of those that the trace can serve; pictures show six at most: the first ones.
void add_pictures(ReportPage& page, const ReportArguments& arguments,
                  const state::GotoTarget& place, std::vector<std::string> methods,
                  const GlobalOptions& global) {
  constexpr std::size_t kMost = 6;
  const std::string which = methods.size() > kMost
                                ? fmt::format(" (the first {} of {})", kMost, methods.size())
                                : std::string();
  methods.resize(std::min(methods.size(), kMost));
  const auto draw = [&](const char* view, const char* form, const std::string& heading) {
    figure::ExportRequest request = picture_request(arguments, view, global);
    request.what.methods = methods;
    request.what.options[fmt::format("{}.show", view)] = form;
    request.what.place = place;
    draw_picture(page, request, heading, true);
  };
  // Of fewer than three "several" would add recorded runs.
  const char* const show = methods.size() == 1 ? "one" : methods.size() == 2 ? "both" : "several";
  draw("layer_head_overview", show, "Layers and heads" + which);
  draw("kv_map", show, "What is kept, chunk by chunk" + which);
  if (methods.size() == 2) draw("selected_vs_true", "both", "The keys that attention truly weighs");
}

}  // namespace

void report_comparison(const ReportArguments& arguments,
                       const std::vector<replay::MethodName>& methods,
                       const GlobalOptions& global) {
  engine().open_device(arguments.device);
  const session::TraceSession session =
      open_session(arguments.traces.front(), global, methods, arguments.chunk_size);
  const trace::TraceInfo& info = session.info();
  report_damage(info);
  const std::unique_ptr<ReportPage> page = open_page(arguments);
  replay::CompareOptions options;
  options.cells = replay::CellChoice::Common;
  if (const trace::TokenSpan* const needle = needle_of(info))
    options.counted.watched = replay::watched_from_question({needle->begin, needle->end}, info);
  const replay::ReplayRequest request = numbers_request(arguments);
  const replay::Comparison comparison =
      engine().compare_methods(session, methods, request, options, reporting_context("cells"));
  if (comparison.rows.empty()) throw Error(comparison.unavailable.front().error);

  std::vector<replay::LostKeys> lost;
  std::vector<replay::MethodChoice> choices;
  std::vector<std::string> texts;
  bool choose_keys = true;
  for (const replay::MethodName& method : methods) {
    replay::MethodChoice choice = choice_of(method, info);
    if (engine().why_choice_unavailable(session, choice, request, reporting_context("cells")))
      continue;
    lost.push_back(lost_keys(session, choice, arguments, 1));
    texts.push_back(method.text.empty() ? choice.text : method.text);  // "all" writes none
    choices.push_back(std::move(choice));
    choose_keys = choose_keys && !(method.spec && method.spec->traits().keeps_every_key());
  }
  page->add(title(info, choices.size()) + extent(arguments) + "\n\n" +
            numbers(comparison, info, arguments.chunks.given()) + losses(lost));
  add_pictures(*page, arguments, place_of(lost.front()), texts, global);
  if (choices.size() == 2 && choose_keys) {
    const replay::Diff diff = diff_of({session, choices[0]}, {session, choices[1]}, arguments);
    page->add(fmt::format("## Where the two differ\n\nA is {}, B is {}. {}",
                          as_code(replay::short_name(choices[0])),
                          as_code(replay::short_name(choices[1])), difference_text(diff, "###")));
  }
  write_page(*page);
}

}  // namespace kvloupe::cli
