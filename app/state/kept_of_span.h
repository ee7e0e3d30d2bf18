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

// So many of the keys that are called so: "needle's 22 keys", "the 37 keys from 3 to 39", "the 12 picked keys".
std::string keys_of(const std::string& name, std::int64_t total);
// Whether keys here and there are called so: they have no name but their number.
bool is_picked(const std::string& name);
// "12 picked keys"
std::string picked_words(std::int64_t count);

// "19 of needle's 22 keys are kept", "key 412 is lost".
std::string words_of(const KeptOfSpan& kept);

struct KeptBy {
  std::string who;  // "A", "quoka"
  KeptOfSpan kept;
};

// "Of needle's 22 keys A keeps 19, B none", "A keeps key 412, B loses it". At least one.
std::string words_of(const std::vector<KeptBy>& each);

}  // namespace kvloupe::state
