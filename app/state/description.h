// What a figure shows, as words: the command line, the window's export and its "copy the command"
// all speak it, so that a figure is what stood on screen.
#pragma once

#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/output_file.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct Description {
  std::string trace;                           // file
  std::string view;                            // id
  std::vector<std::string> methods;            // SPECs: A, B, then any more; empty: recorded runs
  std::string go_to;                           // "layer=3,q_head=5,chunk=12"
  std::map<std::string, std::string> options;  // of the view, by name
  std::string device = "cpu";                  // where it is computed
  std::string other_trace = {};                // file; drawn beside by the option `beside`
  std::optional<int> chunk_size = {};          // the prompt is cut anew, and no run is as recorded
};

// Throws Error{Usage}: unknown view, option, device or value, a place or method that is not understood,
// more methods than a view shows, another trace for a view that draws one alone; Error{Input}: a device that cannot be used. No trace is opened, but
// for a method of a run that this version does not know, which the trace may hold.
void check(const Description& what);
// The files that such a figure is made of, and those that belong to its trace.
InputFiles files_read(const Description& what);
// The view as the window shows it now.
Description describe(const Workspace& workspace, const ViewInfo& view);
// Applies all but the trace, which is open.
void show(Workspace& workspace, const Description& what);
// "export", the trace, "--view", ... without the file to write.
std::vector<std::string> export_arguments(const Description& what);

}  // namespace kvloupe::state
