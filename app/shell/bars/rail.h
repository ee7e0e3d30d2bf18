// The rail on the left: what a person can want to know, each a workspace of the window. A dot marks one
// that has something to say about the keys that are watched, or about the trace.
#pragma once

#include "app/state/questions/why_lost/span_dot.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <array>
#include <map>
#include <string>

namespace kvloupe::state {
struct Perspective;
}

namespace kvloupe::shell {

class Rail {
 public:
  void draw(state::Workspace& workspace, const state::Perspective& shown,
            const widgets::Palette& palette);
  // Why a workspace has a dot, by its id; of the last frame.
  const std::map<std::string, std::string>& dots() const { return dots_; }
  // Nothing of a closed trace.
  void forget() { spans_ = {}; }

 private:
  void find_dots(state::Workspace& workspace);

  std::array<state::LastAnswer<state::SpanDotQuestion>, 2> spans_;  // of A and B
  std::map<std::string, std::string> dots_;
};

}  // namespace kvloupe::shell
