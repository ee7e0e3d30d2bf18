// Over which chunks numbers are: one choice that every view follows. A mean over chunks in which nobody
// asks for a key says nothing of the chunk that does.
#pragma once

#include <string>

namespace kvloupe::state {

struct NumberScope {
  enum class Kind {
    Own,       // of each view: what it is over where nothing is said
    Chunk,     // the chunk shown
    Question,  // those that hold the trace's question, and all later ones
    All,
    Range,  // first to last
  };
  Kind kind = Kind::Own;
  int first = 0, last = 0;  // of Range, both in
  bool operator==(const NumberScope&) const = default;
};

// "chunk", "question", "all", "12-15"; "own" of what is not said.
std::string text_of(const NumberScope& scope);
NumberScope parse_number_scope(const std::string& text);  // throws Error{Usage}

}  // namespace kvloupe::state
