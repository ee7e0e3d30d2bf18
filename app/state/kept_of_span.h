// How many keys of the watched span a row keeps, and the words for it: the same in every view.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

// Of the keys of the watched span that lie before the chunk, within the layer's window: how many the row
// keeps there.
struct KeptOfSpan {
  std::string span;  // "needle", "key 412"
  std::int32_t kept = 0, total = 0;
};

// "19 of needle's 22 keys are kept", "key 412 is lost".
std::string words_of(const KeptOfSpan& kept);

struct KeptBy {
  std::string who;  // "A", "quoka"
  KeptOfSpan kept;
};

// "Of needle's 22 keys A keeps 19, B none", "A keeps key 412, B loses it". At least one.
std::string words_of(const std::vector<KeptBy>& each);

}  // namespace kvloupe::state
