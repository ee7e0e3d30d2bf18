// A tour: a Markdown file that leads through the window page by page. docs/tours.md says how one is
// written.
#pragma once

#include "app/state/traces.h"
#include "app/state/view_state.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::state {

// What must be so before a page counts as done.
struct TourGoal {
  enum class Kept { Any, All, Some, None };
  // Of a number among the parameters of method A.
  struct Bound {
    std::string param;
    bool at_most = true;  // else at least
    double value = 0;
  };

  ViewState at;           // what differs from the default must be shown
  std::string view;       // id; must be in front
  Kept kept = Kept::Any;  // of the watched keys, by the method shown
  std::vector<Bound> bounds;
  std::string text;  // as it was written
};

struct TourPage {
  std::string title;
  ViewState at;                    // what the page shows, its trace too
  std::string body;                // Markdown
  std::string to_try, to_see;      // one sentence each; may be empty
  std::vector<std::string> knobs;  // parameters of the method that the page has controls of
  std::vector<TourGoal> goals;     // all of them; none: the page is done when it was seen
};

struct Tour {
  std::filesystem::path file;
  std::string title;
  std::filesystem::path trace;  // absolute
  std::vector<TourPage> pages;  // one at least
};

// Throws Error{Input} with the file and its line: no front part, no page, a name or value that is not
// understood, a view or workspace that is not there.
Tour parse_tour(std::string_view text, const std::filesystem::path& file);
// The same; Error{Input} also where the file cannot be read or is larger than a megabyte.
Tour load_tour(const std::filesystem::path& file);

// The one that comes with the program.
std::filesystem::path first_tour();

// A tab of a trace that was opened, as the window first shows it.
TraceTab tab_of(const TracePtr& trace);
// Shows the page in the tab of its trace, as the pages before have left it. Why it cannot be, or its goals cannot be
// reached there: a place, a method or chunks that the trace does not have, a knob that method A does not have. Empty
// where it can.
std::string problem_of(const TourPage& page, TraceTab& tab);

class Workspace;
// Whether the goal is reached, but for the view in front, which the window knows. Asks for answers as
// it needs them.
bool is_reached(const TourGoal& goal, Workspace& workspace);

}  // namespace kvloupe::state
