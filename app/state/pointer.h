// What the mouse points at, as the view under it says it: for the text line, for copying and for the menu
// of a right click.
#pragma once

#include "app/state/place.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace kvloupe::state {

struct Pointed {
  std::string words = {};           // value and place, as in the tooltip
  std::string row = {};             // of a table: its cells, with a tab between them
  std::string view = {};            // id of the view, or name of the window
  std::optional<Place> place = {};  // where it leads; none: the place shown
  std::optional<Place> shown = {};  // by the view; none: it shows none
  trace::KeySet keys = {};
  std::int32_t query = -1;          // the token that asks, of what is no key
  std::function<void()> menu = {};  // draws what this thing alone has in its menu

  bool has_keys() const { return !keys.empty(); }
  const std::optional<Place>& where() const { return place ? place : shown; }
  bool is_of(const TracePtr& trace) const { return where() && where()->trace == trace; }
  std::int32_t token() const { return has_keys() ? keys.first() : query; }
};

class Pointer {
 public:
  // Once a frame, before the views.
  void begin_frame() { last_ = std::exchange(now_, std::nullopt); }
  void at(Pointed what) { now_ = std::move(what); }
  // One key of a place.
  void at(const Place& place, std::int32_t key) {
    now_ = Pointed{.place = place, .keys = {key, key + 1}};
  }
  std::optional<Pointed>& now() { return now_; }                // in this frame
  const std::optional<Pointed>& last() const { return last_; }  // in the frame before

 private:
  std::optional<Pointed> now_, last_;
};

}  // namespace kvloupe::state
