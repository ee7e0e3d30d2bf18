// The text around the token under the mouse, one line that is always in sight: what the method shown kept
// and lost of it, and below each token what the other one did, where a view shows both.
#pragma once

#include "app/state/questions/kept/text_line.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <array>
#include <cstdint>

namespace kvloupe::shell {

class TextLine {
 public:
  // As high whatever it shows.
  void draw(state::Workspace& workspace, const widgets::Palette& palette);
  // The token in its middle.
  std::int32_t token() const { return token_; }
  // Nothing of a closed trace.
  void forget() { *this = {}; }

 private:
  using Looks = state::Result<state::TextLineQuestion>;
  void follow(const state::Workspace& workspace);
  void tokens_ui(state::Workspace& workspace, const widgets::Palette& palette, const Looks& above,
                 const Looks* below) const;

  state::Place followed_;
  std::int32_t token_ = 0;
  std::array<state::LastAnswer<state::TextLineQuestion>, 2> looks_;  // of A and B
};

}  // namespace kvloupe::shell
