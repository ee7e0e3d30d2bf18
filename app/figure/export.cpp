// See export.h.
#include "app/figure/export.h"

#include "app/figure/figure_page.h"
#include "app/figure/headless.h"
#include "core/base/error.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace kvloupe::figure {
namespace {

using panels::Format;

// Figures are read at arm's length: larger than the window's text.
constexpr float kFigureTextScale = 1.2F;

const panels::PanelInfo& checked_view(const ExportRequest& request) {
  const panels::PanelInfo* info = panels::find_panel(request.view);
  if (info == nullptr) {
    std::string known;
    for (const panels::PanelInfo& panel : panels::panel_registry())
      known += (known.empty() ? "" : ", ") + std::string(panel.id);
    throw usage_error(fmt::format("unknown view '{}'", request.view), "no view has this id",
                      fmt::format("use one of {}", known));
  }
  if (!info->has(request.format)) {
    std::string has;
    for (const Format format : info->formats)
      has += fmt::format("{}--{}", has.empty() ? "" : ", ", panels::name_of(format));
    throw usage_error(
        fmt::format("the view {} has no {}", info->id, panels::name_of(request.format)),
        "it is exported in other formats only", fmt::format("use {}", has));
  }
  return *info;
}

void wait_until_idle(state::Workspace& workspace) {
  const CancelToken interrupted = interrupt_token();
  while (workspace.busy()) {
    interrupted.throw_if_cancelled();
    if (workspace.publish() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  workspace.publish();
}

// A request is made by asking: ask, wait, and ask again until nothing new is wanted.
std::string settle(state::Workspace& workspace, panels::Panel& panel) {
  std::string problem;
  for (int round = 0; round < 64; ++round) {
    problem = panel.problem(workspace);
    for (const state::Slot slot : state::kSlots) workspace.facts(slot);
    if (!workspace.busy()) break;
    wait_until_idle(workspace);
  }
  return problem;
}

void open_and_place(state::Workspace& workspace, const ExportRequest& request) {
  const state::GotoTarget target = state::parse_goto(request.go_to);
  workspace.open(request.trace);
  wait_until_idle(workspace);
  const state::TraceTab* tab = workspace.active();
  if (tab == nullptr || tab->state != state::ResultState::Ready)
    throw input_error(fmt::format("{} cannot be shown", request.trace),
                      tab ? tab->error : "it was not opened", "see kvloupe validate");
  for (std::size_t i = 0; i < request.methods.size() && i < state::kSlots.size(); ++i)
    workspace.set_method(state::kSlots[i], request.methods[i]);
  workspace.go_to(target);
}

Image render(state::Workspace& workspace, panels::Panel& panel, HeadlessRenderer& renderer,
             const ExportRequest& request) {
  renderer.gui().apply_style(request.theme, kFigureTextScale);
  prepare_fonts(renderer.gui(), workspace);
  panels::DrawContext context{workspace, renderer.gui().palette(), true,
                              request.methods.size() >= 2};
  // ImGui sizes tables, plots and glyphs over the first frames; a view may ask for more while it
  // draws.
  int quiet = 0;
  for (int frame = 0; frame < 200 && quiet < 4; ++frame) {
    renderer.frame([&] { figure_page_ui(context, panel); });
    quiet = workspace.busy() ? 0 : quiet + 1;
    wait_until_idle(workspace);
  }
  return renderer.read();
}

}  // namespace

void export_view(const ExportRequest& request) {
  const panels::PanelInfo& info = checked_view(request);
  for (const std::string& method : request.methods) selection::MethodSpec::parse(method);
  state::parse_goto(request.go_to);
  if (request.methods.size() > state::kSlots.size())
    throw usage_error("too many methods", fmt::format("{} were given", request.methods.size()),
                      "a view shows at most two: write --method once or twice");

  state::Workspace workspace(request.memory_limit);
  open_and_place(workspace, request);
  if (request.format != Format::Png) {
    const auto panel = info.make();
    if (const std::string problem = settle(workspace, *panel); !problem.empty())
      throw input_error(fmt::format("the view {} cannot be exported", info.id), problem,
                        "choose another place or method");
    write_whole_file(request.file, request.format == Format::Csv
                                       ? panels::csv_text(panel->table(workspace))
                                       : panels::npy_bytes(panel->array(workspace)));
    return;
  }
  HeadlessRenderer renderer(request.width, request.height, static_cast<float>(request.scale));
  const auto panel = info.make();  // destroyed before the renderer: it may hold textures
  if (const std::string problem = settle(workspace, *panel); !problem.empty())
    throw input_error(fmt::format("the view {} cannot be exported", info.id), problem,
                      "choose another place or method");
  write_png(request.file, render(workspace, *panel, renderer, request));
}

}  // namespace kvloupe::figure
