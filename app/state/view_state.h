// All that makes a figure what it is, as one value in words. The command line of `export`, the command
// that the window copies, links, places.json and the session carry it (view_fields.h); the window shows
// it on a trace that is open (selection.h).
#pragma once

#include "app/state/goto_target.h"
#include "app/state/number_scope.h"
#include "app/state/slot.h"
#include "app/state/theme.h"
#include "core/base/output_file.h"
#include "core/device/default_device.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct ReadResults;
struct ResultsSight;
class Workspace;
struct TraceTab;
struct ViewInfo;

// How an exported picture looks.
struct PictureForm {
  ThemeKind theme = ThemeKind::Light;
  Colors colors = Colors::Usual;
  int width = 1600, height = 900;  // pixels at scale 1
  double scale = 1;                // multiplies the size and sharpens
  double column_cm = 0;            // the width on paper; 0: none is asked for
  double font_pt = 6;              // the text's size on paper, where a width is
  std::string font{};              // a family in place of Inter
  bool head = true;                // title, caption and chips
  bool operator==(const PictureForm&) const = default;
};

// The part that means the same in every trace: the window keeps it as it is.
struct ViewSettings {
  Slot shown = Slot::A;                        // the slot that single-method views show
  std::map<std::string, std::string> options;  // of views, by "view.option"
  NumberScope numbers;                         // the chunks that they are over
  PictureForm picture;
  std::string
      perspective;  // id of the workspace shown (perspectives.h); empty: as it is, or the first
  std::string other_trace;  // file, for views that draw one beside; empty: the first that is open
                            // beside this one. In a Selection absolute, as tabs name their files
  bool operator==(const ViewSettings&) const = default;
};

struct ViewState : ViewSettings {
  std::string trace;  // file
  std::string view;   // id; empty: none before the others
  GotoTarget place;
  std::vector<std::string> methods;  // SPECs or runs: A, B, then any more; empty: recorded runs
  std::vector<std::string> tried;    // on the spot, newest last
  std::string device = device::kDefault;  // where it is computed
  std::optional<int> chunk_size;          // the prompt is cut anew, and no run is as recorded
  std::vector<std::string>
      panels;  // links: the figure has one panel each, this state where they say
               // nothing else; empty: it is one view
  bool operator==(const ViewState&) const = default;
};

// Throws Error{Usage}: unknown view, option, device or value, a method that is not understood, more
// methods than a view shows, another trace for a view that draws one alone; Error{Input}: a device that
// cannot be used. No trace is opened, but for a method of a run that this version does not know, which
// the trace may hold.
void check(const ViewState& what);
// The part of it that methods and devices have no share in: it needs no engine.
void check_view(const ViewState& what);
// Of that the options of views alone.
void check_options(const ViewState& what);
// The states of the panels in turn; the state itself where it has none. Throws Error{Usage}.
std::vector<ViewState> panels_of(const ViewState& what);
// The files that such a figure is made of, and those that belong to its trace.
InputFiles files_read(const ViewState& what);
// All that a tab shows.
ViewState state_of(const TraceTab& tab);
// All that is shown of the trace that is ready.
ViewState state_of(const Workspace& workspace);
// One view as the window shows it now, without what the view does not draw.
ViewState describe(const Workspace& workspace, const ViewInfo& view);
// The file, methods and options of the results that are open. What this file or this version lacks of them is left out when
// it is opened again.
ViewState state_of_results(const Workspace& workspace);
ResultsSight sight_of(const ViewState& what, const ReadResults& results);

// What to do about a place, a method or an option that the trace or this version does not know.
enum class Unknown { Refuse, PassOver };
// Shows it in a tab whose trace is open. What names a place alone moves there and changes nothing else.
// Throws Error where it refuses, and leaves the tab as it is.
void show(TraceTab& tab, const ViewState& what, Unknown unknown);
// The same in the active tab, as one step of its history.
void show(Workspace& workspace, const ViewState& what);

}  // namespace kvloupe::state
