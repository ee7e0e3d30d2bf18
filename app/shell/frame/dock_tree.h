// Reads how the docks of a workspace lie, and lays them out so again; and what is torn off of them.
#pragma once

#include "app/shell/frame/dock_layout.h"
#include "app/shell/frame/layout.h"
#include "app/state/perspectives.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

// `room`: the size for which they were laid out. In another size ImGui changes the large view alone, so that shares of
// what is on the screen would be others.
DockTree docks_of(const state::Perspective& perspective, Room room);
// Cut alike, with the same views in each part, whatever the order of the tabs.
bool lie_alike(const DockTree& a, const DockTree& b);
bool float_alike(const std::vector<TornOff>& a, const std::vector<TornOff>& b);
void build_docks(const state::Perspective& perspective, const DockTree& docks);

// Whether it lies in no dock of the workspaces.
bool is_torn_off(const std::string& window);
// As shares of `room`, the size of the workspace for which they lie as they do.
std::vector<TornOff> torn_off_of(const state::Perspective& perspective, Room room);
// Before Begin of the windows.
void tear_off(const std::vector<std::string>& windows, const TornOff& where);
// Before Begin of the windows: what is torn off has these shares of a window of another size.
void fit_torn_off(const state::Perspective& perspective, const std::vector<TornOff>& all);
// Before Begin: it does not leave the window, and is not larger.
void keep_inside(const std::string& window);

// Where what lies nowhere comes.
unsigned central_dock_of(const state::Perspective& perspective);
// The id of the dock in which a window lies, as ImGui counts it; 0: none.
unsigned dock_of(const std::string& window);
// Among those of the workspace: ImGui gives the id of a dock that is gone to another one.
bool dock_exists(const state::Perspective& perspective, unsigned dock);
void dock_in(unsigned dock, const std::string& window);
// The new window beside the other one where there is room, else below it, else behind its tab.
void dock_beside(const std::string& other, const std::string& window);

}  // namespace kvloupe::shell
