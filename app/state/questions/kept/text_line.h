// The look of every token in one cell, for the line of text that is always in sight.
#pragma once

#include "app/state/questions/kept/token_strip.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

// Asked for when nothing else is: no view waits for it.
struct TextLineQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "text line";
  static constexpr Pace kPace = Pace::Patient;
  struct Answer {
    std::vector<std::uint8_t> looks;  // TokenLook of each token
    TokenLook at(std::int32_t token) const {
      return static_cast<TokenLook>(looks[static_cast<std::size_t>(token)]);
    }
  };

  std::string title() const { return "Colouring the text line"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return sizeof(answer) + answer.looks.size(); }
};

}  // namespace kvloupe::state
