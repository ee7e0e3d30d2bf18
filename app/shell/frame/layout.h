// How a workspace of the window is arranged, as a value: what lies where, the options and the locks of
// the views. Layouts that are saved by name are this (saved/layout_file.h).
#pragma once

#include "app/state/view_state.h"

#include <map>
#include <string>
#include <vector>

namespace kvloupe::shell {

// A part of a dock space: cut in two, or views behind tabs.
struct DockTree {
  enum class Cut { None, Beside, Below };
  Cut cut = Cut::None;
  float share = 0.5F;           // of the first side
  std::vector<DockTree> sides;  // two where it is cut, the left or upper one first
  std::vector<std::string> views;
  std::string front;   // of these, in front of the others
  bool large = false;  // a view that lies nowhere yet comes here
  bool operator==(const DockTree&) const = default;
};

// Views that were torn off. Numbers are shares of the window.
struct TornOff {
  float x = 0, y = 0, width = 0.4F, height = 0.4F;
  std::vector<std::string> views;  // behind tabs
  bool operator==(const TornOff&) const = default;
};

struct Layout {
  std::string name;
  std::string perspective;  // the workspace
  DockTree docks;
  std::vector<TornOff> torn_off;
  std::map<std::string, state::ViewState> locks;  // by view
  std::map<std::string, std::string> options;     // of the views that are open
  bool operator==(const Layout&) const = default;
};

// The views that are open in it, those in docks first.
std::vector<std::string> views_in(const DockTree& docks);
std::vector<std::string> views_in(const Layout& layout);

}  // namespace kvloupe::shell
