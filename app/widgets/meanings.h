// The legend of meanings: what each colour says in every view and figure. Views name a meaning and get
// its mark; Help > Colours shows them all.
#pragma once

#include "app/widgets/figure.h"

#include <string>
#include <vector>

namespace kvloupe::widgets {

enum class Meaning {
  Kept,
  Lost,
  Waste,
  Evicted,
  ByRule,
  AllKept,
  NotKept,
  Current,
  Watched,
  MethodA,
  MethodB,
  BothKeep
};

// In the order in which they are explained.
const std::vector<Meaning>& all_meanings();
const char* name_of(Meaning meaning);      // "kept by rule"
const char* sentence_of(Meaning meaning);  // what that is
ImU32 color_of(const Palette& palette, Meaning meaning);
// Its mark, with its name or with words of the view's own.
LegendItem legend_of(const Palette& palette, Meaning meaning, const std::string& words = "");

// All of them, and the causes of a loss, each with its sentence.
void meanings_ui(const Palette& palette);

}  // namespace kvloupe::widgets
