// How one view sees the selection. Most views see it as it is; a copy of a view ("kv_map#2") has options
// of its own, and a view that is locked a trace, a place and methods of its own, which stay while the
// rest follows the selection. Panels know nothing of it: they ask the cursor (Cursor::Through).
#pragma once

#include "app/state/selection.h"

#include <array>
#include <optional>
#include <string>

namespace kvloupe::state {

struct TraceTab;
struct ViewInfo;

inline constexpr int kMostCopies = 9;  // of a view, itself counted
// "kv_map#2"; of 1 the view itself.
std::string copy_id(const std::string& view, int number);
// "kv_map" of "kv_map#2"; of all that names no copy the id itself.
std::string view_of(const std::string& id);

// The options of one are those of the other from here on, and the other way round.
void swap_options(std::map<std::string, std::string>& options, const std::string& one,
                  const std::string& other);

// A lock in words, as files keep it: the trace, the place without the keys that are watched, A and B, and
// which of the two is shown.
ViewState lock_words(const TraceTab& tab, const Selection& seen);

// The same on its trace, which is open in a tab.
struct Lock {
  int tab = 0;
  Place place;
  std::array<MethodChoice, 2> method;
  Slot shown = Slot::A;
};
// Throws Error for a place or a method that the trace does not know.
Lock lock_on(const TraceTab& tab, const ViewState& words);
// Of the place and the methods what the view looks at: "layer 21, query head 3, chunk 15, A quoka".
std::string words_of(const Lock& lock, const ViewInfo& view);

struct Sight {
  std::string id;  // of the view or its copy
  std::optional<Lock> lock;

  // What the view is to draw.
  Selection seen(Selection of_tab) const;
  // Around a change that the view makes: what is its own (its options; of a locked view, A or B) is
  // changed as the view sees it and stays with it, the rest is the selection's.
  void enter(Selection& changing) const;
  void leave(Selection& changed, Slot shown_of_tab);
};

}  // namespace kvloupe::state
