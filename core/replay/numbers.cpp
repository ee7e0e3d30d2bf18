#include "core/replay/numbers.h"

#include "core/base/error.h"
#include "core/base/letters.h"

#include <algorithm>

namespace kvloupe::replay {

const NumberInfo* find_number(const std::string& id) {
  const auto* const found = std::find_if(kNumbers.begin(), kNumbers.end(),
                                         [&](const NumberInfo& info) { return id == info.id; });
  return found == kNumbers.end() ? nullptr : found;
}

const char* heading_of(Section section) {
  switch (section) {
    case Section::WhatIsKept: return "What is kept of attention";
    case Section::HowMuch: return "How much is kept";
    case Section::LostKeys: return "Lost keys";
    case Section::Queries: return "Queries, keys and heads";
  }
  fail_check("a known section", __FILE__, __LINE__);
}

std::string headline_of(Number number) { return capitalised(info_of(number).title); }

}  // namespace kvloupe::replay
