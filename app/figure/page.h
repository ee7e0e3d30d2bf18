// One view drawn on a page of its own, as pixels or as shapes.
#pragma once

#include "app/figure/image.h"
#include "app/figure/scene.h"
#include "app/state/view_state.h"
#include "app/state/workspace.h"
#include "app/widgets/figure.h"
#include "core/base/cancel.h"
#include "core/base/error.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::figure {

struct PageForm {
  int width = 0, height = 0;  // pixels at scale 1
  bool grows = false;         // downwards, where the view needs more
  float scale = 1;            // pixels of a picture for each
  double points = 0.75;       // of each on paper: 1/72 inch
  state::ThemeKind theme = state::ThemeKind::Light;
  state::Colors colors = state::Colors::Usual;
  std::string font;    // a family in place of Inter
  std::string letter;  // of a panel among others; may be empty
  widgets::FigureParts parts{};
  bool on_paper = false;  // so wide and no wider: what has no room makes it higher
};
PageForm page_of(const state::PictureForm& form, bool vectors);
// Of pixels on paper; 0 where no width on paper was asked for.
double dots_per_inch(const state::PictureForm& form);

// Nothing stands in the way but that a place has nothing to show: an answer, and no failure.
class NothingToShow : public Error {
 public:
  explicit NothingToShow(const Error& error) : Error(error) {}
};

// Asks until the view has all that it needs. Throws NothingToShow, and Error{Input} for what could not be computed.
void settle(state::Workspace& workspace, const state::ViewInfo& view, const CancelToken& cancel);
void wait_until_idle(state::Workspace& workspace, const CancelToken& cancel);

// Of a workspace at which the trace is open and the state is shown already. Throw as settle() does, and
// as HeadlessRenderer.
Image page_image(state::Workspace& workspace, const state::ViewState& what, const PageForm& form,
                 const CancelToken& cancel);
Scene page_scene(state::Workspace& workspace, const state::ViewState& what, const PageForm& form,
                 const CancelToken& cancel);
// What `draw` draws in the colours that it is given, on a page of its own.
using Content = std::function<void(const widgets::Palette&)>;
Image content_image(const PageForm& form, const Content& draw);
Scene content_scene(const PageForm& form, const Content& draw);
// As wide, and as high as the legend needs.
Image legend_image(const std::vector<widgets::LegendItem>& legend, const PageForm& form);
Scene legend_scene(const std::vector<widgets::LegendItem>& legend, const PageForm& form);

}  // namespace kvloupe::figure
