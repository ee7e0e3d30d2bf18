// What the bar on top chooses for all views beside the place: the span that is followed, and the chunks
// that numbers are over.
#pragma once

#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <string>

namespace kvloupe::shell {

class SpanPicker {
 public:
  void draw(state::Workspace& workspace, const widgets::Palette& palette, float width);

 private:
  void choices_ui(state::Workspace& workspace, const widgets::Palette& palette);
  void search_ui(state::Workspace& workspace, const widgets::Palette& palette);

  std::string search_;
  bool found_ = true;  // what was searched for last
};

void numbers_picker_ui(state::Workspace& workspace, const widgets::Palette& palette, float width);

// A line of a list, which opens where the chosen one is in sight.
bool choice_ui(const std::string& name, bool chosen);
// The item drawn last is to explain itself.
bool is_explained();

}  // namespace kvloupe::shell
