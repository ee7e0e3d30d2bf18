// A tour as the text of its file, for tours that are not written by hand.
#pragma once

#include "app/state/tour.h"

#include <string>

namespace kvloupe::state {

// What parse_tour() reads again as the same, but for goals, which are left out. Traces are named from the
// folder of the tour's file.
std::string text_of(const Tour& tour);
// A page of a note: its first line is the title, "Page 3" where it is empty; the rest is the text.
TourPage page_of_note(const std::string& note, const ViewState& at, std::size_t number);

}  // namespace kvloupe::state
