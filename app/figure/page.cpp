#include "app/figure/page.h"

#include "app/figure/figure_page.h"
#include "app/figure/font_face.h"
#include "app/figure/headless.h"
#include "app/state/shown_methods.h"
#include "app/state/view_list.h"
#include "app/widgets/fonts.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

namespace kvloupe::figure {
namespace {

// A sentence of the window, "why: what to do.", says both; other words say why alone.
Error cannot_export(const std::string& view, const std::string& problem) {
  const std::string what = fmt::format("the view {} cannot be exported", view);
  const std::size_t colon = problem.rfind(": ");
  if (!problem.ends_with('.') || colon == std::string::npos)
    return input_error(what, problem, "choose another place or method");
  return input_error(what, problem.substr(0, colon),
                     problem.substr(colon + 2, problem.size() - colon - 3));
}

void set_up(HeadlessRenderer& renderer, const PageForm& form, bool vectors) {
  renderer.gui().apply_style(form.theme, kFigureTextScale, form.colors);
  if (vectors) renderer.gui().draw_hard_edges();
}

// How far the page is too low. The last frame stays to be read.
float render(state::Workspace& workspace, panels::Panel& panel, HeadlessRenderer& renderer,
             const state::ViewState& what, const PageForm& form, const CancelToken& cancel) {
  prepare_fonts(renderer.gui(), workspace.place());
  panels::DrawContext context{workspace, renderer.gui().palette(), true};
  float head_end = 0;
  widgets::FigureParts figure_parts = form.parts;
  figure_parts.head_end = &head_end;
  const widgets::FigureScope parts(figure_parts);
  // ImGui sizes tables, plots and glyphs over the first frames; a view may ask for more while it
  // draws.
  int quiet = 0;
  float below = 0;
  for (int frame = 0; frame < 200 && quiet < 4; ++frame) {
    workspace.begin_frame();
    renderer.frame([&] {
      context.least_plot = form.on_paper ? widgets::em(14) : 0;
      below = figure_page_ui(context, panel, form.letter);
    });
    quiet = workspace.answers.busy() ? 0 : quiet + 1;
    wait_until_idle(workspace, cancel);
  }
  if (!form.on_paper) return below;
  const float body = state::find_view(what.view)->paper_height * static_cast<float>(form.width);
  return std::max(below, head_end + body - ImGui::GetMainViewport()->Size.y);
}

// `draw` draws into a renderer and returns how far that passes the page's end; `read` takes what was drawn.
// What does not fit is drawn again, on a page that is as high as it needs: some parts take a share of what
// it grows by.
template <typename Draw, typename Read>
auto draw_until_it_fits(const PageForm& form, bool vectors, const Draw& draw, const Read& read) {
  constexpr int kMostTimesHigher = 8, kMostDraws = 4;
  constexpr float kRounding = 2;  // pixels of nothing
  int height = form.height, most = 0;
  for (int draws = 1;; ++draws) {
    HeadlessRenderer renderer(form.width, height, form.scale, form.font);
    set_up(renderer, form, vectors);
    const float below = draw(renderer);
    if (most == 0) most = std::min(kMostTimesHigher * form.height, renderer.most_height());
    const int wanted = std::min(most, height + static_cast<int>(std::ceil(below)));
    const bool cut = form.grows && below > kRounding && wanted > height;
    if (!cut || draws == kMostDraws) return read(renderer);
    height = wanted;
  }
}

// The panel goes before the renderer: it holds textures. So what was drawn is read while both are there.
template <typename Read>
auto draw_page(state::Workspace& workspace, const state::ViewState& what, const PageForm& form,
               bool vectors, const CancelToken& cancel, const Read& read) {
  state::show_both_unless_asked(workspace, what);
  settle(workspace, *state::find_view(what.view), cancel);
  std::unique_ptr<panels::Panel> panel;
  const auto draw = [&](HeadlessRenderer& renderer) {
    panel = panels::make_panel(what.view);
    return render(workspace, *panel, renderer, what, form, cancel);
  };
  return draw_until_it_fits(form, vectors, draw, [&](HeadlessRenderer& renderer) {
    auto drawn = read(renderer);
    panel.reset();
    return drawn;
  });
}

template <typename Read>
auto draw_content(const PageForm& form, bool vectors, const Content& content, const Read& read) {
  const auto draw = [&](HeadlessRenderer& renderer) {
    float below = 0;
    // Plots and tables are sized over the first frames.
    for (int frame = 0; frame < 4; ++frame)
      renderer.frame([&] { below = page_ui([&] { content(renderer.gui().palette()); }); });
    return below;
  };
  return draw_until_it_fits(form, vectors, draw, read);
}

Content drawing(const std::vector<widgets::LegendItem>& legend) {
  return [&](const widgets::Palette& palette) { widgets::legend_ui(palette, legend); };
}

PageForm one_line(PageForm form) {
  form.height = 64;
  form.grows = true;
  return form;
}

Image image_of(HeadlessRenderer& renderer) { return renderer.read(); }

Scene scene_of_page(HeadlessRenderer& renderer) {
  Scene drawn =
      scene_of(*ImGui::GetDrawData(), [&](ImTextureID id) { return renderer.texture(id); });
  drawn.background = renderer.gui().palette().panel;
  return drawn;
}

// A font's size is its em; ImGui's is the height from ascender to descender. The one as a share of the other.
double em_of(const std::string& family) {
  constexpr double kOfInter = 0.826;
  if (family.empty()) return kOfInter;
  const auto [path, face] = widgets::font_file(family, 400);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return FontFace(std::make_shared<FontFile>(FontFile{family, bytes, face})).em(1);
}

}  // namespace

double dots_per_inch(const state::PictureForm& form) {
  constexpr double kPrinted = 300;
  return form.column_cm > 0 ? form.scale * kPrinted : 0;
}

PageForm page_of(const state::PictureForm& form, bool vectors) {
  constexpr double kPointsAnInch = 72, kTextPixels = 15 * kFigureTextScale;
  constexpr double kHeight = 0.75;  // of the width, on paper
  constexpr int kLeastHeight = 400;
  // Of vectors the maps alone have pixels: a page is printed, and looked at closely.
  constexpr double kSharper = 2;
  const state::PictureForm usual;
  PageForm page;
  page.theme = form.theme;
  page.colors = form.colors;
  page.font = form.font;
  page.parts.head = form.head;
  page.width = form.width;
  page.height = form.height;
  page.grows = form.width == usual.width && form.height == usual.height;
  page.scale = static_cast<float>(form.scale * (vectors ? kSharper : 1));
  if (form.column_cm <= 0) return page;
  page.on_paper = page.grows = true;
  const double points = form.column_cm / 2.54 * kPointsAnInch;
  page.width =
      static_cast<int>(std::lround(points / form.font_pt * kTextPixels * em_of(form.font)));
  page.height = std::max(kLeastHeight, static_cast<int>(std::lround(kHeight * page.width)));
  page.points = points / page.width;
  if (!vectors) page.scale = static_cast<float>(page.points * dots_per_inch(form) / kPointsAnInch);
  return page;
}

void wait_until_idle(state::Workspace& workspace, const CancelToken& cancel) {
  while (workspace.answers.busy()) {
    cancel.throw_if_cancelled();
    if (workspace.answers.deliver() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

namespace {

struct Settled {
  std::string problem;
  bool computed = false;  // anything at all
};

// A request is made by asking: ask, wait, and ask again until nothing new is wanted.
Settled settled(state::Workspace& workspace, const state::ViewInfo& view,
                const CancelToken& cancel) {
  Settled all;
  for (int round = 0; round < 64; ++round) {
    workspace.begin_frame();
    all.problem = view.problem(workspace);
    if (!workspace.answers.busy()) break;
    all.computed = true;
    wait_until_idle(workspace, cancel);
  }
  return all;
}

}  // namespace

void settle(state::Workspace& workspace, const state::ViewInfo& view, const CancelToken& cancel) {
  if (settled(workspace, view, cancel).problem.empty()) return;
  // What failed is tried once more; where that computes nothing, nothing has failed.
  workspace.answers.forget_failures();
  const Settled again = settled(workspace, view, cancel);
  if (again.problem.empty()) return;
  const Error error = cannot_export(view.id, again.problem);
  if (again.computed) throw error;
  throw NothingToShow(error);
}

Image page_image(state::Workspace& workspace, const state::ViewState& what, const PageForm& form,
                 const CancelToken& cancel) {
  return draw_page(workspace, what, form, false, cancel, image_of);
}

Scene page_scene(state::Workspace& workspace, const state::ViewState& what, const PageForm& form,
                 const CancelToken& cancel) {
  return draw_page(workspace, what, form, true, cancel, scene_of_page);
}

Image content_image(const PageForm& form, const Content& draw) {
  return draw_content(form, false, draw, image_of);
}

Scene content_scene(const PageForm& form, const Content& draw) {
  return draw_content(form, true, draw, scene_of_page);
}

Image legend_image(const std::vector<widgets::LegendItem>& legend, const PageForm& form) {
  return content_image(one_line(form), drawing(legend));
}

Scene legend_scene(const std::vector<widgets::LegendItem>& legend, const PageForm& form) {
  return content_scene(one_line(form), drawing(legend));
}

}  // namespace kvloupe::figure
