// See export.h.
#include "app/figure/export.h"

#include "app/figure/apng.h"
#include "app/figure/gif.h"
#include "app/figure/page.h"
#include "app/figure/panels_of_figure.h"
#include "app/figure/pdf.h"
#include "app/figure/svg.h"
#include "app/state/export_words.h"
#include "app/state/shell_words.h"
#include "app/state/shown_methods.h"
#include "app/state/view_list.h"
#include "app/widgets/fonts.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"
#include "core/trace/queries_note.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace kvloupe::figure {
namespace {

using state::Format;

// Panels and frames are pictures, and one of the two at a time.
void check_panels(const ExportRequest& request) {
  const auto& panels = request.what.panels;
  if (panels.empty()) return;
  if (!state::is_picture(request.format) || state::is_animated(request.format))
    throw usage_error(fmt::format("--panel does not go with --{}", state::name_of(request.format)),
                      "several panels make one picture", "use --png, --svg or --pdf");
  for (const state::ViewState& panel : state::panels_of(request.what)) {
    state::check(panel);
    if (!(panel.picture == request.what.picture))
      throw usage_error("a panel has no theme, size or scale of its own", "the figure has them",
                        "give --theme, --size or --scale beside --panel");
  }
}

const state::ViewInfo& checked_view(const ExportRequest& request) {
  state::check(request.what);
  check_panels(request);
  if (const std::string& font = request.what.picture.font; !font.empty())
    widgets::font_file(font, 400);
  const state::ViewInfo& view = *state::find_view(request.what.view);
  if (view.has(request.format)) return view;
  std::string has;
  for (const Format format : view.formats())
    has += fmt::format("{}--{}", has.empty() ? "" : ", ", state::name_of(format));
  throw usage_error(fmt::format("the view {} has no {}", view.id, state::name_of(request.format)),
                    "it is exported in other formats only", fmt::format("use {}", has));
}

// What is said of it where it cannot be opened begins with `role`.
void open(state::Workspace& workspace, const std::string& trace, const std::string& role) {
  workspace.traces.open(trace);
  wait_until_idle(workspace, interrupt_token());
  const state::TraceTab* tab = workspace.traces.active();
  if (workspace.results.is_open())
    throw input_error(fmt::format("{}{} cannot be shown", role, trace),
                      "it holds results of an evaluation, and no trace",
                      "use --view task_scores or --view needle_grid");
  if (tab == nullptr || tab->state != state::ResultState::Ready)
    throw input_error(fmt::format("{}{} cannot be shown", role, trace),
                      tab ? tab->error : "it was not opened", "see kvloupe validate");
}

void open_results(state::Workspace& workspace, const std::string& path) {
  workspace.results.open(path);
  wait_until_idle(workspace, interrupt_token());
  if (workspace.results.ready() == nullptr)
    throw input_error(fmt::format("{} cannot be shown", path), workspace.results.error(),
                      "see python -m kvloupe results");
}

void open_and_show(state::Workspace& workspace, const state::ViewState& what) {
  if (state::find_view(what.view)->shows_results) {
    open_results(workspace, what.trace);
    return state::show(workspace, what);
  }
  for (const state::ViewState& panel : state::panels_of(what))
    if (!panel.other_trace.empty()) open(workspace, panel.other_trace, "--other-trace ");
  open(workspace, what.trace, "");
  state::show(workspace, what);
}

// The figure: one page, or one for each of its panels above the legend of all.
template <typename Draw, typename DrawLegend>
auto drawn(state::Workspace& workspace, const ExportRequest& request, const PageForm& page,
           const CancelToken& cancel, const Draw& draw, const DrawLegend& draw_legend) {
  if (request.what.panels.empty()) return draw(workspace, request.what, page, cancel);
  const std::vector<state::ViewState> panels = state::panels_of(request.what);
  const PanelGrid grid = grid_of(static_cast<int>(panels.size()), page);
  std::vector<widgets::LegendItem> legend;
  std::vector<decltype(draw(workspace, request.what, page, cancel))> drawn;
  for (const state::ViewState& panel : panels) {
    state::show(workspace, panel);
    PageForm part = grid.page;
    if (panels.size() > 1) {
      part.letter = letter_of_panel(drawn.size());
      part.parts.legends = &legend;
    }
    drawn.push_back(draw(workspace, panel, part, cancel));
  }
  auto figure = side_by_side(drawn, grid.columns);
  if (legend.empty()) return figure;
  PageForm below = grid.page;
  below.width *= std::min<int>(grid.columns, static_cast<int>(panels.size()));
  return side_by_side({std::move(figure), draw_legend(legend, below)}, 1);
}

// Of chunks that are asked for one by one those in which nothing is to be shown, as before the first key.
class LeftOut {
 public:
  // Whether all of the figure has something to show at the chunk; its panels have places of their own.
  bool shows(state::Workspace& workspace, const state::ViewState& what, int chunk,
             const CancelToken& cancel) {
    try {
      for (const state::ViewState& panel : state::panels_of(what)) {
        if (!what.panels.empty()) state::show(workspace, panel);
        state::show_both_unless_asked(workspace, panel);
        settle(workspace, *state::find_view(panel.view), cancel);
      }
      return true;
    } catch (const NothingToShow& nothing) {
      if (!why_) why_ = nothing;
      chunks_.insert(chunk);
      return false;
    }
  }
  // Where no chunk is left.
  [[noreturn]] void refuse() const { throw why_.value(); }
  void say() const {
    if (chunks_.empty()) return;
    const std::string chunks = trace::text_of_chunks({chunks_.begin(), chunks_.end()});
    if (chunks_.size() == 1)
      log::warning("{} is left out: {}", chunks, why_->why());
    else
      log::warning("{} are left out, the first for this reason: {}", chunks, why_->why());
  }

 private:
  std::set<int> chunks_;
  std::optional<Error> why_;  // of the first
};

// Those whose queries are stored.
std::vector<int> chunks_of(const trace::TraceInfo& info) {
  std::vector<int> chunks = info.chunks_with_queries();
  if (chunks.empty()) throw trace::lacks_queries(info, 0);
  return chunks;
}

template <typename Writer>
std::string animation(state::Workspace& workspace, const ExportRequest& request,
                      const CancelToken& cancel, LeftOut& left_out) {
  constexpr int kFrame = 50, kLastFrame = 200;  // hundredths of a second
  Writer writer;
  const int here = workspace.place().chunk;
  std::optional<Image> last;
  for (const int chunk : chunks_of(workspace.place().info())) {
    workspace.cursor.set_chunk(chunk);
    if (!left_out.shows(workspace, request.what, chunk, cancel)) continue;
    if (last) writer.add(*last, kFrame);
    last = draw_view(workspace, request, cancel);
  }
  if (!last) left_out.refuse();
  writer.add(*last, kLastFrame);
  // Another file of the same call is of the place that was asked for.
  workspace.cursor.set_chunk(here);
  return writer.take();
}

// Where the number stands, and how many digits it has at least.
struct NumberPlace {
  std::size_t begin = 0, length = 0;
  int digits = 1;
};
std::optional<NumberPlace> number_in(const std::string& file) {
  std::optional<NumberPlace> found;
  for (std::size_t at = file.find('%'); at != std::string::npos; at = file.find('%', at + 1)) {
    const std::string_view rest = std::string_view(file).substr(at + 1);
    const bool padded =
        rest.size() > 2 && rest[0] == '0' && rest[1] >= '1' && rest[1] <= '9' && rest[2] == 'd';
    if (!padded && !rest.starts_with('d')) continue;
    if (found) return std::nullopt;  // which of the two?
    found = NumberPlace{at, padded ? std::size_t{4} : 2, padded ? rest[1] - '0' : 1};
  }
  return found;
}

std::string numbered(const std::string& file, int number) {
  const NumberPlace place = number_in(file).value();
  return file.substr(0, place.begin) + fmt::format("{:0{}}", number, place.digits) +
         file.substr(place.begin + place.length);
}

// Marks that are asked for are there, in documents; CSV has none.
std::string table_text(const state::Table& table, const ExportRequest& request) {
  if (request.format == Format::Csv) {
    const std::string text = table::csv_text(table, request.csv_head);
    if (request.csv_head == table::CsvHead::IdAndUnit && text == table::csv_text(table))
      throw usage_error(
          "--units changes nothing here",
          fmt::format("no column of the view {} has a unit that its name does not say",
                      request.what.view),
          "leave it out");
    return text;
  }
  const std::string plain = state::text_of(table, request.format);
  if (request.marks == table::Marks::None) return plain;
  const std::string marked = request.format == Format::Markdown
                                 ? table::markdown_text(table, request.marks)
                                 : table::latex_text(table, request.marks);
  if (marked == plain)
    throw usage_error("--mark-best marks nothing here",
                      fmt::format("the table of the view {} has no number of which more or less is "
                                  "better, or the same one in all rows",
                                  request.what.view),
                      "leave it out, or export method_compare");
  return marked;
}

std::string file_of(state::Workspace& workspace, const ExportRequest& request,
                    const CancelToken& cancel, LeftOut& left_out) {
  const Format format = request.format;
  if (format == Format::Png)
    return png_bytes(draw_view(workspace, request, cancel), dots_per_inch(request.what.picture));
  if (format == Format::Gif) return animation<GifWriter>(workspace, request, cancel, left_out);
  if (format == Format::Apng) return animation<ApngWriter>(workspace, request, cancel, left_out);
  if (state::is_picture(format)) {
    const Scene scene = draw_scene(workspace, request, cancel);
    const double width = scene.width * page_of(request.what.picture, true).points;
    return format == Format::Svg ? svg_text(scene, width, request.id_prefix)
                                 : pdf_bytes(scene, width);
  }
  const state::ViewInfo& view = *state::find_view(request.what.view);
  state::show_both_unless_asked(workspace, request.what);
  settle(workspace, view, cancel);
  return state::is_of_tables(format) ? table_text(view.table(workspace), request)
                                     : state::npy_bytes(view.array(workspace));
}

// A view's own column of that name may be of its keys or of its steps.
void append_chunk(state::Table table, int chunk, state::Table& all) {
  const bool taken = std::any_of(table.columns.begin(), table.columns.end(),
                                 [](const auto& column) { return column.id == "chunk"; });
  table.columns.insert(table.columns.begin(), taken ? "at_chunk" : "chunk");
  for (auto& row : table.rows) row.insert(row.begin(), chunk);
  state::append_rows(all, std::move(table));
}

// One for each file that is written: of each chunk, where an output has several.
std::vector<Output> files_of(const std::vector<Output>& outputs, state::Workspace& workspace) {
  std::vector<Output> files;
  const state::Place& place = workspace.place();
  for (const Output& output : outputs) {
    if (!output.each_chunk) {
      files.push_back(output);
      continue;
    }
    if (place.empty())
      throw usage_error("--frames chunks does not go with this view", "it shows no trace",
                        "leave it out");
    for (const int chunk : chunks_of(place.info()))
      files.push_back({output.format, numbered(output.file, chunk), true, chunk});
  }
  return files;
}

// Before any is written, and before anything is computed where the names are known.
void check_file(const std::string& file, const ExportRequest& request) {
  check_result_file(file, state::files_read(request.what), request.force);
}
void check_beside(const ExportRequest& request) {
  if (!request.beside.empty()) check_file(request.beside, request);
}

// Those of all chunks, too.
void check_files(const std::vector<Output>& files, const ExportRequest& request) {
  std::set<std::filesystem::path> taken;
  const auto take = [&](const std::string& file) {
    std::error_code unknown;
    const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(file), unknown);
    if (file != "-" && !unknown && !taken.insert(place).second)
      throw usage_error(fmt::format("{} is named for two outputs", printable(file)),
                        "the second would replace the first", "give each a file of its own");
  };
  if (!request.beside.empty()) take(request.beside);
  for (const Output& output : files) {
    check_file(output.file, request);
    take(output.file);
  }
}

}  // namespace

void export_shown(state::Workspace& workspace, const ExportRequest& request,
                  const CancelToken& cancel) {
  LeftOut left_out;
  const std::string bytes = file_of(workspace, request, cancel, left_out);
  left_out.say();
  write_whole_file(request.file, bytes);
}

Image draw_view(state::Workspace& workspace, const ExportRequest& request,
                const CancelToken& cancel) {
  return drawn(workspace, request, page_of(request.what.picture, false), cancel, page_image,
               legend_image);
}

Scene draw_scene(state::Workspace& workspace, const ExportRequest& request,
                 const CancelToken& cancel) {
  Scene scene = drawn(workspace, request, page_of(request.what.picture, true), cancel, page_scene,
                      legend_scene);
  scene.title = state::find_view(request.what.view)->title;
  scene.made_by = printable(state::shell_line(state::export_arguments(request.what)));
  return scene;
}

void export_view(const ExportRequest& request) {
  export_view(request, {{request.format, request.file}});
}

std::string view_bytes(const ExportRequest& request) {
  checked_view(request);
  state::Workspace workspace(request.memory,
                             state::opener_with({request.what.chunk_size, request.bases}));
  open_and_show(workspace, request.what);
  LeftOut left_out;
  std::string bytes = file_of(workspace, request, interrupt_token(), left_out);
  left_out.say();
  return bytes;
}

void export_view(ExportRequest request, const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    request.format = output.format;
    const state::ViewInfo& view = checked_view(request);
    if (output.each_chunk && !view.has(Format::Gif))
      throw usage_error(fmt::format("the view {} has no frames", view.id),
                        "it shows all chunks, or none, in any case", "leave --frames out");
    if (!output.each_chunk) check_file(output.file, request);
  }
  check_beside(request);
  state::Workspace workspace(request.memory,
                             state::opener_with({request.what.chunk_size, request.bases}));
  open_and_show(workspace, request.what);
  const std::vector<Output> files = files_of(outputs, workspace);
  check_files(files, request);
  const state::ViewState asked = request.what;
  LeftOut left_out;
  bool any_chunk = false;
  std::vector<std::pair<std::string, std::string>> written;  // once all of them could be made
  for (const Output& file : files) {
    request.format = file.format;
    request.what = asked;
    // A file of a chunk says so, and panels without a chunk of their own follow.
    if (file.chunk) request.what.place.chunk = *file.chunk;
    state::show(workspace, request.what);
    if (file.chunk && !left_out.shows(workspace, request.what, *file.chunk, interrupt_token()))
      continue;
    any_chunk |= file.chunk.has_value();
    written.emplace_back(file.file, file_of(workspace, request, interrupt_token(), left_out));
  }
  const bool asks_for_chunks =
      std::any_of(files.begin(), files.end(), [](const Output& file) { return bool(file.chunk); });
  if (asks_for_chunks && !any_chunk) left_out.refuse();
  left_out.say();
  for (const auto& [file, bytes] : written) write_whole_file(file, bytes);
}

bool is_numbered(const std::string& file) { return number_in(file).has_value(); }

void export_all_chunks(const ExportRequest& request) {
  const state::ViewInfo& view = checked_view(request);
  if (!state::is_of_tables(request.format))
    throw usage_error("--all-chunks writes a table only", "pictures and arrays are of one chunk",
                      "name it by --csv F, --markdown F or --latex F");
  const bool follows_chunk = std::find(view.coordinates.begin(), view.coordinates.end(), "chunk") !=
                             view.coordinates.end();
  if (!follows_chunk || view.tabulates_all_chunks)
    throw usage_error(fmt::format("--all-chunks does not go with the view {}", view.id),
                      "it shows all chunks, or none, in any case", "leave it out");
  check_file(request.file, request);
  check_beside(request);
  state::Workspace workspace(request.memory,
                             state::opener_with({request.what.chunk_size, request.bases}));
  open_and_show(workspace, request.what);
  LeftOut left_out;
  state::Table all;
  for (const int chunk : chunks_of(workspace.place().info())) {
    workspace.cursor.set_chunk(chunk);
    if (left_out.shows(workspace, request.what, chunk, interrupt_token()))
      append_chunk(view.table(workspace), chunk, all);
  }
  if (all.columns.empty()) left_out.refuse();
  left_out.say();
  write_whole_file(request.file, table_text(all, request));
}

}  // namespace kvloupe::figure
