// How a workspace of the window is cut into docks. Each has a dock space of its own, which ImGui's
// layout file knows by its id; it keeps what the user made of it.
#pragma once

#include "app/shell/frame/layout.h"
#include "app/state/perspectives.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

// What a window is too small for.
struct WindowForm {
  bool narrow = false;  // no room beside the large view, and none for words on the rail
  bool low = false;     // no room below the large view
};
WindowForm window_form();

// "KV map###kv_map@kept": a window can lie in one dock alone, so each workspace has its own.
std::string window_name(const std::string& title, const std::string& view,
                        const state::Perspective& perspective);
// "###kv_map@kept": the same window, whatever its title.
std::string window_of_view(const std::string& view, const state::Perspective& perspective);

// Its id, as ImGui counts it.
unsigned dock_space_of(const state::Perspective& perspective);
// Once a frame: the dock space of what is shown fills what the bars leave; those of the others are
// kept, for one that is not submitted forgets its windows.
// Of no workspace: the docks stay as they are, unseen.
void submit_dock_spaces(const state::Perspective* shown);
// It has no layout yet, of this start or an earlier one.
bool needs_layout(const state::Perspective& perspective);

// What the docks of a workspace fill.
struct Room {
  float width = 0, height = 0;
};
Room room_of_docks();                                            // in this frame
Room last_room_of_docks(const state::Perspective& perspective);  // when they were last drawn
bool is_other_room(Room a, Room b);
// Docks made for another room keep their shares. ImGui alone gives what a window loses to the large view.
void fit_docks(const state::Perspective& perspective, Room from, Room to);

struct DockedView {
  std::string id;
  state::Spot spot;
};
// How a workspace is cut at first.
DockTree first_docks(const state::Perspective& perspective, const std::vector<DockedView>& views);
// Before Begin of a window that lies nowhere yet, or where no dock is any more: it will stand behind
// the large view.
void dock_if_homeless(const state::Perspective& perspective, const std::string& window);

// Before Begin of a window that is to be seen: focus alone would bring only one tab of all docks to
// the front in a frame.
void bring_to_front(const std::string& window);
// Before submit_dock_spaces: its tab stands before the others of its dock.
void make_first_tab(const std::string& window);

}  // namespace kvloupe::shell
