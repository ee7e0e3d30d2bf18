// Views of one kind of methods show a method of that kind where the one chosen is of another.
#pragma once

#include "app/state/method_choice.h"
#include "app/state/place.h"

#include <string>

namespace kvloupe::state {

struct StandIn {
  MethodChoice method;
  std::string why;  // a sentence
};
// `id` with the budget of the method chosen, or with the default one. `kind`: what that method lacks, as in
// "snapkv does not select pages", and `things` of it that this version does not know.
StandIn stand_in_for(const MethodChoice& chosen, const Place& place, const std::string& id,
                     const std::string& kind, const std::string& things);

}  // namespace kvloupe::state
