// `kvloupe report`: one page about a method on a trace, as Markdown and pictures.
#include "app/cli/commands.h"
#include "app/cli/lost_keys_text.h"
#include "app/cli/options.h"
#include "app/figure/export.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/whole_file.h"
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
#include <system_error>
#include <vector>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::string trace, method, folder, device = "cpu";
  Indices layers, chunks;
  std::optional<int> chunk_size;
  bool force = false;
};

constexpr std::size_t kKeys = 20, kRegrets = 10;

// A token in a Markdown table.
std::string cell_of(const std::string& token) {
  std::string text;
  for (const char letter : printable(token)) {
    if (letter == '|' || letter == '`' || letter == '\\' || letter == '<') text += '\\';
    text += letter;
  }
  return text;
}

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

std::string facts(const session::TraceSession& session, const replay::LostKeys& lost,
                  const replay::CompareRow& row, const ReportArguments& arguments) {
  const trace::TraceInfo& info = session.info();
  using replay::Number;
  const auto number = [&](Number which) {
    const auto value = row.numbers[which];
    return value && std::isfinite(*value) ? fmt::format("{:.4f}", *value) : std::string("none");
  };
  const replay::MethodChoice& method = lost.method;
  std::string text = fmt::format(
      "# {} on {}\n\n`{}`\n\n", method.known() ? title_of(*method.spec) : printable(method.text),
      printable(fs::path(info.path).filename().string()), printable(method.text));
  text +=
      fmt::format("{}, {} tokens in {} chunks, {} of {} layers captured; {}. {}{}\n\n",
                  printable(info.model.name), info.num_tokens, info.chunks.size(),
                  info.layers.size(), info.model.num_layers,
                  info.complete ? "complete" : "incomplete", source_of(method), extent(arguments));
  text +=
      "| mass recall | top-k overlap | output error | density | cells chosen in | all cells |\n";
  text += "|---|---|---|---|---|---|\n";
  // A cell is a row of heads in a chunk of a layer; those that keep everything enter no mean.
  const std::int64_t num_rows = session.shape().num_q_heads / lost.layout.q_heads_per_row;
  return text +
         fmt::format("| {} | {} | {} | {} | {} | {} |\n\n", number(Number::MassRecall),
                     number(Number::TopkOverlap), number(Number::OutputError),
                     number(Number::Density), row.cells,
                     num_rows * std::ssize(lost.layers) * prefill_chunks(info, arguments.chunks));
}

std::string causes(const replay::LostKeys& lost) {
  std::string text = "## What it loses, and why\n\n" + causes_sentence(lost) + "\n\n";
  if (lost.all.lost <= 0) return text;
  text += "| lost at | share of the lost mass |\n|---|---|\n";
  for (const replay::Stage cause : lost.all.causes())
    text += fmt::format("| {} | {:.1f} % |\n", words_of(cause), 100 * lost.all.share_of(cause));
  return text + "\nWhat the causes mean, and how they are found: docs/explain.md of KVLoupe.\n\n";
}

std::string keys(const replay::LostKeys& lost, const session::TraceSession& session) {
  if (lost.keys.empty()) return "";
  const auto token = [&](std::int64_t key) {
    return cell_of(session.token_texts().at(static_cast<std::size_t>(key)));
  };
  std::string text = fmt::format(
      "## The {} lost keys of most true mass\n\n| layer | head | chunk | key | token | true mass | "
      "share of the candidates' mass | lost at |\n|---|---|---|---|---|---|---|---|\n",
      std::min(kKeys, lost.keys.size()));
  for (std::size_t i = 0; i < std::min(kKeys, lost.keys.size()); ++i) {
    const replay::LostKey& key = lost.keys[i];
    text += fmt::format("| {} | {} | {} | {} | {} | {:.4f} | {:.2f} % | {} |\n", key.layer,
                        replay::row_words(lost.layout, key.row), key.chunk, key.key, token(key.key),
                        key.mass, 100 * key.share, key.cause ? words_of(*key.cause) : "");
  }
  if (lost.regrets.empty()) return text + "\n";
  text +=
      "\n## Dropped, and wanted later\n\n| layer | head | key | token | left out from chunk | mass "
      "then | wanted in chunk | mass then |\n|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(kRegrets, lost.regrets.size()); ++i) {
    const replay::Regret& regret = lost.regrets[i];
    text += fmt::format("| {} | {} | {} | {} | {} | {:.4f} | {} | {:.4f} |\n", regret.layer,
                        replay::row_words(lost.layout, regret.row), regret.key, token(regret.key),
                        regret.dropped, regret.mass_when_dropped, regret.wanted,
                        regret.mass_when_wanted);
  }
  return text + "\n";
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
  request.file = (fs::path(arguments.folder) / (std::string(picture.view) + ".png")).string();
  request.force = arguments.force;
  request.memory = global.memory;
  request.bases = basis_maker();
  return request;
}

void make_folder(const std::string& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure || !fs::is_directory(folder))
    throw input_error(fmt::format("the report cannot be written to {}", folder),
                      failure ? failure.message() : "it is no folder", "name another folder by -o");
}

void run_report(const ReportArguments& arguments, const GlobalOptions& global) {
  if (arguments.folder.empty())
    throw usage_error("-o names no folder", "the page and its pictures need one",
                      "give a folder, such as -o report");
  const replay::MethodName method(arguments.method);
  engine().open_device(arguments.device);
  const session::TraceSession session =
      open_session(arguments.trace, global, {method}, arguments.chunk_size);
  report_damage(session.info());
  const replay::MethodChoice choice = replay::choice_of(method, session.info());
  if (choice.known()) {
    note_budgets_that_fit({*choice.spec}, session.info());
  }
  replay::ReplayRequest averages;
  averages.layers = arguments.layers.numbers;
  averages.chunks = arguments.chunks.numbers;
  averages.want_output_error = true;
  averages.device = arguments.device;
  if (const auto error =
          engine().why_choice_unavailable(session, choice, averages, reporting_context("cells")))
    throw Error(*error);
  const fs::path page = fs::path(arguments.folder) / "report.md";
  make_folder(arguments.folder);
  check_result_file(page, {arguments.trace}, arguments.force);

  replay::LostKeysRequest request;
  request.method = choice;
  request.layers = averages.layers;
  request.chunks = averages.chunks;
  request.device = arguments.device;
  request.count = kKeys;
  const replay::LostKeys lost = engine().lost_keys(session, request, reporting_context("cells"));
  const replay::Comparison comparison =
      engine().compare_methods(session, {method}, averages, {}, reporting_context("cells"));

  std::string text = facts(session, lost, comparison.rows.front(), arguments) + causes(lost);
  text += keys(lost, session);
  for (const Picture& picture : kPictures) {
    if (!can_draw(picture, lost)) continue;
    figure::ExportRequest drawn = picture_request(arguments, picture, global);
    drawn.what.place = place_of(lost);
    text += fmt::format("## {}\n\n", picture.title);
    try {
      figure::export_view(drawn);
      text += fmt::format("![{}]({}.png)\n\n", picture.title, picture.view);
    } catch (const Error& error) {
      // A run may lack layers that a picture shows; the page is whole without it.
      if (error.kind() != ErrorKind::Input || !choice.recorded()) throw;
      text += fmt::format("Not drawn: {}.\n\n", printable(error.why()));
    }
  }
  write_whole_file(page, text);
  results::add_text(fmt::format("wrote {}\n", page.string()));
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
  command.option("-o,--output", &arguments->folder, "folder for report.md and its pictures")
      .required();
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--force", &arguments->force, "replace a trace or a model, too");
  command.run = [arguments, &global](const Given&) {
    use_engine(global);
    run_report(*arguments, global);
  };
  return command;
}

}  // namespace kvloupe::cli
