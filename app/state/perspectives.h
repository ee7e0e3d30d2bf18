// The workspaces of the window, each composed for one question: which views it has, and where they
// lie. In code a workspace is a perspective, for state::Workspace is all that is open.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::state {

// Windows of the shell that lie among the views.
inline constexpr const char* kRunsWindow = "Runs";
inline constexpr const char* kMemoryWindow = "Memory";
inline constexpr const char* kMethodWindow = "The method";
inline constexpr const char* kNotesWindow = "Notes";

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

enum class RailIcon { Grid, Rows, Search, Bars, Dots, Pulse, Marks };

struct Perspective {
  std::string id;        // "kept": in kept files and in the names of windows
  std::string word;      // on the rail
  std::string question;  // "What is kept?"
  std::string summary;   // one sentence
  RailIcon icon = RailIcon::Grid;
  float beside = 0.27F;        // share of the width of what lies beside
  float beside_below = 0.36F;  // and of its height that of what lies below it
  float below = 0.36F;         // share of the height of what lies below the large view
  // The large view has the whole width; what lies below and beside below shares the room under it.
  bool wide = false;
  std::vector<PlacedView> views;  // the first of each spot is in front
  bool of_results =
      false;  // there while results of an evaluation are open, with a trace or without

  const PlacedView* find(const std::string& view) const;
};

// In the order of the rail; a trace opens in the first.
const std::vector<Perspective>& perspectives();
const Perspective* find_perspective(const std::string& id);
const Perspective& results_perspective();
// "", as of a trace that was never shown, and an id that no workspace has: the first.
const Perspective& perspective_or_first(const std::string& id);
// Where a view lives: where it is large, else where it has most room, else the first.
const Perspective& home_of(const std::string& view);

}  // namespace kvloupe::state
