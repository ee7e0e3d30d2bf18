// `kvloupe export`: what a view shows, as a picture or as data, without a display.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/figure/export.h"
#include "app/shell/saved/view_state_json.h"
#include "app/state/export_words.h"
#include "app/state/other_trace.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::cli {
namespace {

struct Arguments {
  std::string trace;
  std::map<std::string, state::Texts> shown;  // what says what is shown, by option
  std::string png, svg, pdf, gif, apng, frames, csv, npy, markdown, latex, state;
  bool all_chunks = false;
  bool mark_best = false;
  bool units = false;
  bool force = false;
};

// --other-trace asks for the option that draws it.
void draw_beside(state::ViewState& what) {
  const state::ViewInfo* view = state::find_view(what.view);
  const auto way = view != nullptr ? state::way_to_other_trace(*view) : std::nullopt;
  if (what.other_trace.empty() || !way) return;  // what is wrong is told when all of it is checked
  const auto [option, is_new] = what.options.try_emplace(what.view + "." + way->first, way->second);
  if (!is_new && !state::draws_other_trace(way->first, option->second))
    throw usage_error("--other-trace is not drawn",
                      fmt::format("--{} {} asks for something else", way->first, option->second),
                      "leave one of the two out");
}

state::ViewState state_of(const Arguments& arguments) {
  state::ViewState what = state::state_of_words(arguments.trace, arguments.shown);
  draw_beside(what);
  return what;
}

void check_frames(const Arguments& given, const std::vector<figure::Output>& outputs) {
  if (given.frames.empty()) return;
  if (given.frames != "chunks")
    throw usage_error(fmt::format("--frames {} is not valid", printable(given.frames)),
                      "the frames are chunks", "write --frames chunks");
  const bool numbered = std::any_of(outputs.begin(), outputs.end(),
                                    [](const figure::Output& one) { return one.each_chunk; });
  if (given.gif.empty() && given.apng.empty() && !numbered)
    throw usage_error("--frames needs a file of frames",
                      "a picture whose name has no number, or two, is of one chunk",
                      "give --gif F or --apng F, or one number, as in --png kept-%03d.png");
}

std::vector<figure::Output> outputs_of(const Arguments& given) {
  std::vector<figure::Output> outputs;
  const auto take = [&](const std::string& file, state::Format format) {
    if (file.empty()) return;
    check_ending(
        fmt::format("--{}", state::name_of(format)), file,
        {"--png", "--svg", "--pdf", "--gif", "--apng", "--csv", "--npy", "--markdown", "--latex"});
    const bool each_chunk = !given.frames.empty() && state::is_picture(format) &&
                            !state::is_animated(format) && figure::is_numbered(file);
    outputs.push_back({format, file, each_chunk});
  };
  take(given.png, state::Format::Png);
  take(given.svg, state::Format::Svg);
  take(given.pdf, state::Format::Pdf);
  take(given.gif, state::Format::Gif);
  take(given.apng, state::Format::Apng);
  take(given.csv, state::Format::Csv);
  take(given.npy, state::Format::Npy);
  take(given.markdown, state::Format::Markdown);
  take(given.latex, state::Format::Latex);
  return outputs;
}

// What makes the figure what it is.
void write_state(const Arguments& given, const state::ViewState& what) {
  write_whole_file(given.state, json_text("kvloupe-export/1",
                                          shell::json_of_state(what, state::kAllCarriers), 2));
}
void write_state_alone(const Arguments& given, const state::ViewState& what) {
  check_view(what);
  check_result_file(given.state, files_read(what), given.force);
  write_state(given, what);
}

// One table of all chunks.
void export_all_chunks(figure::ExportRequest request, const std::vector<figure::Output>& outputs) {
  if (outputs.size() > 1)
    throw usage_error("--all-chunks writes one table", "more than one output file is named",
                      "name one file, by --csv F, --markdown F or --latex F");
  request.format = outputs.front().format;
  request.file = outputs.front().file;
  figure::export_all_chunks(request);
}

void run(const Arguments& given, const GlobalOptions& global) {
  figure::ExportRequest request;
  request.what = state_of(given);
  request.force = given.force;
  request.beside = given.state;
  if (given.mark_best && given.markdown.empty() && given.latex.empty())
    throw usage_error("--mark-best marks nothing here", "only --latex and --markdown have marks",
                      "add --latex F or --markdown F");
  if (given.mark_best) request.marks = table::Marks::Best;
  check_units(given.units, given.csv);
  request.csv_head = csv_head_of(given.units);
  const std::vector<figure::Output> outputs = outputs_of(given);
  if (outputs.empty() && !given.state.empty()) return write_state_alone(given, request.what);
  if (outputs.empty())
    throw usage_error("nothing can be exported", "no output file is named",
                      "name one: --png F, --svg F, --pdf F, --gif F, --apng F, --csv F, --npy F, "
                      "--markdown F or --latex F");
  std::vector<std::pair<std::string, std::string>> files{{"--state", given.state}};
  for (const figure::Output& output : outputs)
    files.emplace_back(fmt::format("--{}", state::name_of(output.format)), output.file);
  check_distinct(files);
  check_frames(given, outputs);
  use_engine(global);
  request.memory = global.memory;
  request.bases = basis_maker();
  if (given.all_chunks)
    export_all_chunks(request, outputs);
  else
    figure::export_view(request, outputs);
  if (!given.state.empty()) write_state(given, request.what);
}

// The options that say what is shown: the fields of a view's state and the options of views.
void add_state_options(Command& command, Arguments& given) {
  for (const state::ExportOption& option : state::export_options()) {
    Option& added = command.option("--" + option.name, &given.shown[option.name], option.help);
    if (option.many)
      added.listed();
    else
      added.between(1, 1);
    if (!option.default_text.empty()) added.show_default(option.default_text);
    if (option.name == "view") added.required();
    if (option.of_views)
      added.under(
          "Options of views, see kvloupe views --json (a word that one choice alone has names it)");
  }
}

}  // namespace

Command export_command(const GlobalOptions& global) {
  Command command("export", "write what a view shows, without a display");
  const auto given = std::make_shared<Arguments>();
  command.option("trace", &given->trace, "trace, or results of an evaluation").required();
  add_state_options(command, *given);
  command.option("--png", &given->png, "picture to write, or - for standard output");
  command.option("--svg", &given->svg,
                 "picture to write, or -: text is text, lines and areas are vectors");
  command.option("--pdf", &given->pdf, "the same as a page with its fonts embedded, or -");
  command.option("--gif", &given->gif, "the chunks in turn, as an animated picture, or -");
  command.option("--apng", &given->apng, "the same as an animated PNG, in all its colours, or -");
  command.option("--frames", &given->frames,
                 "chunks: the frames of --gif and --apng, which need not be told; --png, --svg and "
                 "--pdf with a number in their name, as in kept-%03d.png, write a file of each");
  command.option("--csv", &given->csv, "table to write, or -");
  command.option("--npy", &given->npy, "array to write, or -");
  command.option("--markdown", &given->markdown, "table for a page on GitHub, or -");
  command.option("--latex", &given->latex, "table for a paper (booktabs), or -");
  command.option(
      "--mark-best", &given->mark_best,
      "with these two: the best of each number in bold, the second best underlined or in "
      "italics, over all rows");
  add_units_option(command, given->units);
  command.option("--state", &given->state,
                 "JSON to write, or -: what is shown, as it was asked for; alone it draws nothing");
  command.option(
      "--all-chunks", &given->all_chunks,
      "one table of all chunks (with --csv, --markdown or --latex), a column saying which");
  command.option("--force", &given->force, "replace a trace or a model, too");
  command.run = [given, &global](const Given&) { run(*given, global); };
  return command;
}

}  // namespace kvloupe::cli
