// Selectors whose choices follow from chunks before: what is alive, tallies, sets that pass from layer to layer. All
// others choose by the cell alone (what they keep beside it, they find anew from its keys).
#pragma once

#include "core/selection/selector.h"

#include <memory>

namespace kvloupe::selection {

class Remembers {
 public:
  virtual ~Remembers() = default;
  // The same selector with the same memory. Neither changes the other's.
  virtual std::unique_ptr<Selector> copy() const = 0;
};

}  // namespace kvloupe::selection
