// The workspaces of the window, each composed for one question: which views it has, and where they
// lie. In code a workspace is a perspective, for state::Workspace is all that is open.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

// Windows of the shell that lie among the views.
inline constexpr const char* kRunsWindow = "Runs";
inline constexpr const char* kMemoryWindow = "Memory";
inline constexpr const char* kMethodWindow = "The method";

// Where a view lies. What shares a spot stands behind tabs.
enum class Spot {
  Large,        // the answer: most of the width, never less than 60 % of the height
  Beside,       // right of it
  BesideBelow,  // under what lies beside
  Below         // under all
};

struct PlacedView {
  std::string id;  // of a view, or the name of a window
  Spot spot = Spot::Large;
  // Where a narrow window, which has no room beside the large view, has it.
  Spot narrow = Spot::Below;
  bool open = true;  // at first
};

enum class RailIcon { Grid, Rows, Search, Bars, Dots, Pulse };

struct Perspective {
  std::string id;        // "kept": in kept files and in the names of windows
  std::string word;      // on the rail
  std::string question;  // "What is kept?"
  std::string summary;   // one sentence
  RailIcon icon = RailIcon::Grid;
  float beside = 0.27F;           // share of the width of what lies beside
  std::vector<PlacedView> views;  // the first of each spot is in front

  const PlacedView* find(const std::string& view) const;
};

// In the order of the rail; a trace opens in the first.
const std::vector<Perspective>& perspectives();
const Perspective* find_perspective(const std::string& id);
// The one that is shown.
const Perspective& current_perspective(const Workspace& workspace);
// Where a view lives: where it is large, else where it lies at all, else the first.
const Perspective& home_of(const std::string& view);

// Whether the view has something to say of what is shown: views of one kind of methods only about
// such a method, the drift of a closed loop only where the trace has losses.
bool concerns(const std::string& view, const Workspace& workspace);
// The view that was made for the method shown; empty: none was.
std::string own_view(const Workspace& workspace);

}  // namespace kvloupe::state
