// Shows a trace while it is recorded: opens its .part as soon as a chunk can be read, and reads it anew
// when there are more. The files are read in jobs.
#pragma once

#include "app/state/workspace.h"

#include <memory>
#include <string>

namespace kvloupe::shell {

class GrowingTrace {
 public:
  explicit GrowingTrace(state::Workspace& workspace) : workspace_(workspace) {}

  // `span`: of the trace, to be watched as soon as it is there; empty: as in any other trace.
  void begin(const std::string& output, const std::string& span);
  void tick(double now);  // once a frame while it grows
  void watch_span();      // once a frame
  // It grows no more. `there`: under its own name.
  void end(bool there);

  const std::string& output() const { return output_; }  // under its own name
  // The trace was shown.
  bool opened() const { return opened_; }
  // The path is the one that it grows under.
  bool is_part(const std::string& path) const { return !part_.empty() && path == part_; }

 private:
  void found(int chunks);

  state::Workspace& workspace_;
  std::string output_, part_;
  std::string span_;  // not watched yet
  int round_ = 0;     // of begin(): an answer of an earlier one is no news
  bool opened_ = false;
  int chunks_ = 0;  // shown
  double next_ = 0;
};

}  // namespace kvloupe::shell
