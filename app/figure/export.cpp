// See export.h.
#include "app/figure/export.h"

#include "app/figure/figure_page.h"
#include "app/figure/headless.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace kvloupe::figure {
namespace {

using state::Format;

const state::ViewInfo& checked_view(const ExportRequest& request) {
  state::check(request.what);
  const state::ViewInfo& view = *state::find_view(request.what.view);
  if (view.has(request.format)) return view;
  std::string has;
  for (const Format format : view.formats())
    has += fmt::format("{}--{}", has.empty() ? "" : ", ", state::name_of(format));
  throw usage_error(fmt::format("the view {} has no {}", view.id, state::name_of(request.format)),
                    "it is exported in other formats only", fmt::format("use {}", has));
}

void wait_until_idle(state::Workspace& workspace, const CancelToken& cancel) {
  while (workspace.answers.busy()) {
    cancel.throw_if_cancelled();
    if (workspace.answers.deliver() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// A sentence of the window, "why: what to do.", says both; other words say why alone.
Error cannot_export(const std::string& view, const std::string& problem) {
  const std::string what = fmt::format("the view {} cannot be exported", view);
  const std::size_t colon = problem.rfind(": ");
  if (!problem.ends_with('.') || colon == std::string::npos)
    return input_error(what, problem, "choose another place or method");
  return input_error(what, problem.substr(0, colon),
                     problem.substr(colon + 2, problem.size() - colon - 3));
}

// A request is made by asking: ask, wait, and ask again until nothing new is wanted.
void settle(state::Workspace& workspace, const state::ViewInfo& view, const CancelToken& cancel) {
  std::string problem;
  for (int round = 0; round < 64; ++round) {
    workspace.begin_frame();
    problem = view.problem(workspace);
    if (!workspace.answers.busy()) break;
    wait_until_idle(workspace, cancel);
  }
  if (!problem.empty()) throw cannot_export(view.id, problem);
}

// What is said of it where it cannot be opened begins with `role`.
void open(state::Workspace& workspace, const std::string& trace, const std::string& role) {
  workspace.traces.open(trace);
  wait_until_idle(workspace, interrupt_token());
  const state::TraceTab* tab = workspace.traces.active();
  if (tab == nullptr || tab->state != state::ResultState::Ready)
    throw input_error(fmt::format("{}{} cannot be shown", role, trace),
                      tab ? tab->error : "it was not opened", "see kvloupe validate");
}

void open_and_show(state::Workspace& workspace, const state::ViewState& what) {
  if (!what.other_trace.empty()) open(workspace, what.other_trace, "--other-trace ");
  open(workspace, what.trace, "");
  state::show(workspace, what);
}

// Draws the panel, and returns how far it passes the page's end.
float render(state::Workspace& workspace, panels::Panel& panel, HeadlessRenderer& renderer,
             const ExportRequest& request, const CancelToken& cancel) {
  renderer.gui().apply_style(request.what.picture.theme, kFigureTextScale);
  prepare_fonts(renderer.gui(), workspace.place());
  panels::DrawContext context{workspace, renderer.gui().palette(), true,
                              request.what.methods.size() >= 2};
  // ImGui sizes tables, plots and glyphs over the first frames; a view may ask for more while it
  // draws.
  int quiet = 0;
  float below = 0;
  for (int frame = 0; frame < 200 && quiet < 4; ++frame) {
    workspace.begin_frame();
    renderer.frame([&] { below = figure_page_ui(context, panel); });
    quiet = workspace.answers.busy() ? 0 : quiet + 1;
    wait_until_idle(workspace, cancel);
  }
  return below;
}

void append_chunk(state::Table table, int chunk, state::Table& all) {
  const bool named = std::any_of(table.columns.begin(), table.columns.end(),
                                 [](const auto& column) { return column.id == "chunk"; });
  if (!named) {
    table.columns.insert(table.columns.begin(), "chunk");
    for (auto& row : table.rows) row.insert(row.begin(), chunk);
  }
  all.columns = std::move(table.columns);
  all.rows.insert(all.rows.end(), table.rows.begin(), table.rows.end());
}

}  // namespace

void export_shown(state::Workspace& workspace, const ExportRequest& request,
                  const CancelToken& cancel) {
  if (request.format == Format::Png) {
    write_png(request.file, draw_view(workspace, request, cancel));
    return;
  }
  const state::ViewInfo& view = *state::find_view(request.what.view);
  settle(workspace, view, cancel);
  write_whole_file(request.file, state::is_of_tables(request.format)
                                     ? state::text_of(view.table(workspace), request.format)
                                     : state::npy_bytes(view.array(workspace)));
}

Image draw_view(state::Workspace& workspace, const ExportRequest& request,
                const CancelToken& cancel) {
  constexpr int kMostTimesHigher = 4, kMostDraws = 3;
  constexpr float kRounding = 2;  // pixels of nothing
  const state::PictureForm& form = request.what.picture;
  settle(workspace, *state::find_view(request.what.view), cancel);
  // A size that was asked for is kept. What does not fit the usual one is drawn again, on a page that is
  // as high as it needs: some parts take a share of what it grows by.
  const state::PictureForm usual;
  const bool grows = form.width == usual.width && form.height == usual.height;
  int height = form.height, most = 0;
  for (int draws = 1;; ++draws) {
    HeadlessRenderer renderer(form.width, height, static_cast<float>(form.scale));
    // It goes before the renderer: it holds textures.
    const auto panel = panels::make_panel(request.what.view);
    const float below = render(workspace, *panel, renderer, request, cancel);
    if (most == 0) most = std::min(kMostTimesHigher * form.height, renderer.most_height());
    const int wanted = std::min(most, height + static_cast<int>(std::ceil(below)));
    const bool cut = grows && below > kRounding && wanted > height;
    if (!cut || draws == kMostDraws) return renderer.read();
    height = wanted;
  }
}

void export_view(const ExportRequest& request) {
  export_view(request, {{request.format, request.file}});
}

void export_view(ExportRequest request, const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    request.format = output.format;
    checked_view(request);
    check_result_file(output.file, state::files_read(request.what), request.force);
  }
  state::Workspace workspace(request.memory,
                             state::opener_with({request.what.chunk_size, request.bases}));
  open_and_show(workspace, request.what);
  for (const Output& output : outputs) {
    request.format = output.format;
    request.file = output.file;
    export_shown(workspace, request, interrupt_token());
  }
}

void export_all_chunks(const ExportRequest& request) {
  const state::ViewInfo& view = checked_view(request);
  if (!state::is_of_tables(request.format))
    throw usage_error("--all-chunks writes a table only", "pictures and arrays are of one chunk",
                      "name it by --csv F, --markdown F or --latex F");
  if (std::find(view.coordinates.begin(), view.coordinates.end(), "chunk") ==
      view.coordinates.end())
    throw usage_error(fmt::format("--all-chunks does not go with the view {}", view.id),
                      "it shows all chunks, or none, in any case", "leave it out");
  check_result_file(request.file, state::files_read(request.what), request.force);
  state::Workspace workspace(request.memory,
                             state::opener_with({request.what.chunk_size, request.bases}));
  open_and_show(workspace, request.what);
  state::Table all;
  const auto num_chunks = static_cast<int>(workspace.place().info().chunks.size());
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    workspace.cursor.set_chunk(chunk);
    settle(workspace, view, interrupt_token());
    append_chunk(view.table(workspace), chunk, all);
  }
  write_whole_file(request.file, state::text_of(all, request.format));
}

}  // namespace kvloupe::figure
