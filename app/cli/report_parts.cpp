#include "app/cli/commands.h"
#include "app/cli/diff_text.h"
#include "app/cli/report.h"
#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/engine/engine.h"
#include "core/replay/table.h"
#include "core/trace/queries_note.h"

#include <fmt/format.h>

namespace kvloupe::cli {

std::string as_text(const std::string& text) { return table::in_markdown(printable(text)); }
std::string as_code(const std::string& text) {
  return text.find('`') == std::string::npos ? "`" + printable(text) + "`" : as_text(text);
}

std::string facts_of(const trace::TraceInfo& info) {
  const std::string note = trace::queries_note(info);
  return fmt::format(
      "{}, {} tokens in {} chunks, {} of {} layers captured; {}.{}", as_text(info.model.name),
      info.num_tokens, info.chunks.size(), info.layers.size(), info.model.num_layers,
      info.complete ? "complete" : "incomplete", note.empty() ? "" : " " + capitalised(note) + ".");
}

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

replay::ReplayRequest numbers_request(const ReportArguments& arguments) {
  auto request = request_of<replay::ReplayRequest>(arguments);
  request.want_output_error = true;
  return request;
}

replay::LostKeys lost_keys(const session::TraceSession& session, const replay::MethodChoice& choice,
                           const ReportArguments& arguments, std::size_t count) {
  auto request = request_of<replay::LostKeysRequest>(arguments);
  request.method = choice;
  request.count = count;
  return engine().lost_keys(session, request, reporting_context("cells"));
}

replay::Diff diff_of(const replay::DiffSide& a, const replay::DiffSide& b,
                     const ReportArguments& arguments) {
  return engine().diff_selections(a, b, request_of<replay::DiffRequest>(arguments),
                                  reporting_context("layers"));
}

std::unique_ptr<ReportPage> open_page(const ReportArguments& arguments) {
  const replay::MethodList list = replay::parse_methods(arguments.methods);
  return open_report(arguments.output, files_read(arguments.traces, list.methods), arguments.force);
}

state::GotoTarget place_of(const replay::LostKeys& lost) {
  state::GotoTarget place;
  if (lost.keys.empty()) return place;
  const replay::LostKey& worst = lost.keys.front();
  place.layer = worst.layer;
  place.q_head = worst.row * lost.layout.q_heads_per_row;
  place.chunk = worst.chunk;
  place.keys.emplace(worst.key, worst.key + 1);
  return place;
}

figure::ExportRequest picture_request(const ReportArguments& arguments, const std::string& view,
                                      const GlobalOptions& global) {
  figure::ExportRequest request;
  request.what.trace = arguments.traces.front();
  request.what.view = view;
  request.what.methods = arguments.methods;
  request.what.device = arguments.device;
  request.what.chunk_size = arguments.chunk_size;
  request.force = arguments.force;
  request.memory = global.memory;
  request.bases = basis_maker();
  return request;
}

void draw_picture(ReportPage& page, figure::ExportRequest request, const std::string& heading,
                  bool may_lack) {
  page.add(fmt::format("## {}\n\n", heading));
  request.format = page.picture_format();
  request.id_prefix = request.what.view + "-";
  std::string bytes;
  try {
    bytes = figure::view_bytes(request);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input || !may_lack) throw;
    page.add(fmt::format("Not drawn: {}.\n\n", as_text(error.why())));
    return;
  }
  page.add_picture(request.what.view, heading, bytes);
}

void write_page(ReportPage& page) {
  page.write();
  results::add_text(fmt::format("wrote {}\n", page.file().string()));
}

std::string difference_text(const replay::Diff& diff, const std::string& heading) {
  std::string text = divergence_text(diff) + "\n";
  if (diff.rows.empty()) return text;
  text += fmt::format(
      "{} Layer by layer\n\nMeans over the cells of a layer, one for each chunk and {}.\n\n{}\n",
      heading, replay::words_of_axis(diff.layout.axis), table::markdown_text(layer_means(diff)));
  const auto rows = most_different(diff);
  if (rows.empty()) return text;
  return text + heading + " The cells that differ most\n\n" +
         table::markdown_text(replay::diff_table(diff, rows, false)) + "\n";
}

}  // namespace kvloupe::cli
