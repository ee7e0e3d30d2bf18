// `kvloupe export`: what a view shows, as a picture or as data, without a display.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "app/figure/export.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::cli {
namespace {

struct Arguments {
  figure::ExportRequest request;
  std::map<std::string, std::string> options;  // of any view
  std::string png, svg, csv, npy, markdown, latex;
  std::string size = "1600x900";
  std::string theme = "light";
  bool all_chunks = false;
};

void parse_size(const std::string& text, figure::ExportRequest& request) {
  const std::size_t cross = text.find('x');
  const auto width = parse_int(text.substr(0, cross));
  const auto height = cross == std::string::npos ? std::nullopt : parse_int(text.substr(cross + 1));
  constexpr int kLeast = 64, kMost = 32768;
  if (!width || !height || *width < kLeast || *height < kLeast || *width > kMost || *height > kMost)
    throw usage_error(
        fmt::format("the size '{}' is not understood", text),
        fmt::format("width and height are whole numbers from {} to {}", kLeast, kMost),
        "write --size 1600x900");
  request.width = static_cast<int>(*width);
  request.height = static_cast<int>(*height);
}

// --other-trace asks for the option that draws it.
void draw_beside(state::Description& what) {
  if (what.other_trace.empty()) return;
  const auto [option, is_new] = what.options.try_emplace("beside", "other");
  if (!is_new && option->second != "other")
    throw usage_error("--other-trace is not drawn",
                      fmt::format("--beside {} asks for something else", option->second),
                      "leave one of the two out");
}

void check_distinct(const std::vector<figure::Output>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (outputs[i].file == outputs[j].file)
        throw usage_error(fmt::format("{} is named for two outputs", outputs[i].file),
                          "the second would replace the first", "give each a file of its own");
}

void run(const Arguments& given, const GlobalOptions& global) {
  figure::ExportRequest request = given.request;
  std::vector<figure::Output> outputs;
  const auto take = [&](const std::string& file, state::Format format) {
    if (file.empty()) return;
    check_ending(fmt::format("--{}", state::name_of(format)), file,
                 {"--png", "--csv", "--npy", "--markdown", "--latex"});
    outputs.push_back({format, file});
  };
  take(given.png, state::Format::Png);
  take(given.svg, state::Format::Svg);
  take(given.csv, state::Format::Csv);
  take(given.npy, state::Format::Npy);
  take(given.markdown, state::Format::Markdown);
  take(given.latex, state::Format::Latex);
  if (outputs.empty())
    throw usage_error("nothing can be exported", "no output file is named",
                      "name one: --png F, --csv F, --npy F, --markdown F or --latex F");
  check_distinct(outputs);
  for (const auto& [name, value] : given.options)
    if (!value.empty()) request.what.options[name] = value;
  draw_beside(request.what);
  parse_size(given.size, request);
  request.theme = given.theme == "dark" ? widgets::ThemeKind::Dark : widgets::ThemeKind::Light;
  request.memory = global.memory;
  request.bases = basis_maker();
  if (!given.all_chunks) {
    figure::export_view(request, outputs);
    return;
  }
  request.format = outputs.front().format;
  request.file = outputs.front().file;
  if (outputs.size() > 1)
    throw usage_error("--all-chunks writes one table", "more than one output file is named",
                      "name one file, by --csv F, --markdown F or --latex F");
  figure::export_all_chunks(request);
}

// One option of the command line for each name that any view knows, with what each view makes of it;
// state::check says whether the view has it.
void add_view_options(CLI::App& command, std::map<std::string, std::string>& values) {
  std::map<std::string, std::vector<std::string>> meanings;
  for (const state::ViewInfo& view : state::views())
    for (const state::ViewOption& option : view.options)
      meanings[option.name].push_back(
          fmt::format("{}: {} ({})", view.id, option.meaning, fmt::join(option.choices, ", ")));
  for (const auto& [name, of_views] : meanings)
    command.add_option("--" + name, values[name], fmt::format("{}", fmt::join(of_views, "\n")))
        ->group(
            "Options of views, see kvloupe views --json (a word that one choice alone has names "
            "it)");
}

}  // namespace

void add_export_command(CLI::App& program, const GlobalOptions& global) {
  CLI::App* command =
      program.add_subcommand("export", "write what a view shows, without a display");
  const auto given = std::make_shared<Arguments>();
  figure::ExportRequest& request = given->request;
  command->add_option("trace", request.what.trace, "trace file")->required();
  command->add_option("--view", request.what.view, "view id, see kvloupe views")->required();
  command
      ->add_option(
          "--method", request.what.methods,
          "method SPEC, or a recorded run: run:N, or what it is called; given twice: the methods A "
          "and B; further ones for the views budget_sweep and method_compare. A method that takes "
          "a "
          "budget and names none has budget_tokens=1024; "
          "with no method given and none recorded, quoka and oracle are shown with 1,024, or "
          "an eighth of the tokens where the trace has no more than these")
      ->allow_extra_args(false);
  command->add_option(
      "--goto", request.what.go_to,
      "place, for example layer=3,q_head=5,chunk=12; span=A-B or span=NAME watches keys");
  command->add_option("--device", request.what.device, kDeviceHelp)->capture_default_str();
  add_chunk_size_option(*command, request.what.chunk_size);
  command->add_option("--other-trace", request.what.other_trace,
                      "another trace, for views that draw one beside the first");
  command->add_option("--png", given->png, "picture to write, or - for standard output");
  // Refused by every view: no help offers what there is not.
  command->add_option("--svg", given->svg)->group("");
  command->add_option("--csv", given->csv, "table to write, or -");
  command->add_option("--npy", given->npy, "array to write, or -");
  command->add_option("--markdown", given->markdown, "table for a page on GitHub, or -");
  command->add_option("--latex", given->latex, "table for a paper (booktabs), or -");
  command->add_flag(
      "--all-chunks", given->all_chunks,
      "one table of all chunks (with --csv, --markdown or --latex), a column saying which");
  command->add_option("--size", given->size, "pixels at scale 1 (default 1600x900)");
  command->add_option("--scale", request.scale, "multiplies the size and sharpens (default 1)")
      ->check(finite_range(0.25, 8));
  command->add_option("--theme", given->theme, "light or dark (default light)")
      ->check(CLI::IsMember({"light", "dark"}));
  command->add_flag("--force", request.force, "replace a trace or a model, too");
  add_view_options(*command, given->options);
  command->callback([given, &global] {
    use_engine(global);
    run(*given, global);
  });
}

}  // namespace kvloupe::cli
