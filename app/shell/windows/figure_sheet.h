// The figure of a view as it will be written: its form at the left, the picture itself at the right, drawn
// by the command line as the file is.
#pragma once

#include "app/figure/image.h"
#include "app/shell/windows/exporter.h"
#include "app/widgets/map_texture.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::shell {

class FigureSheet {
 public:
  FigureSheet(state::Workspace& workspace, Exporter& exporter)
      : workspace_(workspace), exporter_(exporter) {}

  // Of what the view shows now; what is looked at later changes nothing.
  void open(const state::ViewInfo& view);
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  // `folder` is where the dialog for a file begins.
  void draw(const widgets::Palette& palette, const std::string& folder);

  struct Preview {
    std::string of;  // the command line
    figure::Image image;
    std::string problem;  // why there is none
  };
  // The last one; null: none was drawn yet. It may be of a form before that of now.
  const Preview* preview() const { return preview_.get(); }
  bool is_current() const { return preview_ != nullptr && preview_->of == wanted(); }

 private:
  std::string wanted() const;
  void form_ui(const widgets::Palette& palette);
  void files_ui(const std::string& folder);
  void picture_ui(const widgets::Palette& palette);
  void ask();
  bool was_cancelled() const;

  state::Workspace& workspace_;
  Exporter& exporter_;
  bool open_ = false;
  state::ViewState what_;
  state::PictureForm last_form_;
  std::string title_;
  std::vector<state::Format> formats_;
  std::string asked_;  // the command line that was drawn last, or is now; empty: none
  std::shared_ptr<const Preview> preview_;
  widgets::MapTexture texture_;
  double changed_at_ = 0;
  std::string seen_;
};

}  // namespace kvloupe::shell
