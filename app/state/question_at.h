// What most questions are asked of: a part of the place, and one method there or two. These bases hold
// the members, make the key of them and say what is missing, so that a question says what it adds, its
// answer and its work:
//
//   struct RunSummaryQuestion : OfMethod<At::Layer> {
//     static constexpr const char* kName = "run summary";
//     NumberChunks chunks = {};
//     using Answer = replay::CompareRow;
//
//     std::string key() const { return OfMethod::key(chunks); }  // where it adds a member
//     std::string title() const;
//     Answer work(Steps& steps) const;
//   };
#pragma once

#include "app/state/answers.h"
#include "app/state/method_choice.h"
#include "app/state/place.h"

#include <optional>
#include <string>
#include <type_traits>

namespace kvloupe::state {

// What stands in the way of a question; empty: nothing.
std::string missing(const Place& place);
std::string missing(const Place& place, const MethodChoice& method);
std::string missing(const Place& place, const MethodChoice& a, const MethodChoice& b);
// Of a method that cannot be run again: "This version does not know the method custom:mine: " and what follows.
std::string unknown_method(const MethodChoice& method, const std::string& consequence);
inline constexpr const char* kNoKeyChosen =
    "Click a key in any view, or select a word in the token strip.";

// "Reading quoka in layer 3", "Selecting with quoka in all layers".
std::string title_of_run(const MethodChoice& method, const std::string& where);

// A member as a part of a key.
std::string key_part(const std::optional<trace::NamedKeys>& span);
inline const std::string& key_part(const std::string& text) { return text; }
template <typename T>
std::string key_part(const T& member) {
  if constexpr (requires { member.key(); })
    return member.key();
  else if constexpr (std::is_enum_v<T>)
    return std::to_string(static_cast<int>(member));
  else
    return std::to_string(member);
}
template <typename... Members>
std::string key_of_members(std::string key, const Members&... members) {
  ((key += "|", key += key_part(members)), ...);
  return key;
}

template <PlaceParts kParts>
struct OfPlace {
  Place place;

  // Of the members here and those that a question adds.
  template <typename... Added>
  std::string key(const Added&... added) const {
    return key_of_members(place.key(kParts), added...);
  }
  std::string obstacle() const { return missing(place); }
};

template <PlaceParts kParts>
struct OfMethod {
  Place place;
  MethodChoice method;

  template <typename... Added>
  std::string key(const Added&... added) const {
    return key_of_members(place.key(kParts), method, added...);
  }
  std::string obstacle() const { return missing(place, method); }
  bool selects() const { return !method.recorded(); }
};

// By selecting anew, also where the method was recorded: for both the answer is the same.
template <PlaceParts kParts>
struct OfMethodAnew : OfMethod<kParts> {
  template <typename... Added>
  std::string key(const Added&... added) const {
    return key_of_members(this->place.key(kParts), this->method.text, added...);
  }
  bool selects() const { return true; }
};

// By the sets of a run: where it is recorded they are only read.
template <PlaceParts kParts>
struct OfRun : OfMethod<kParts> {
  Lane lane() const { return this->method.recorded() ? Lane::TraceIo : Lane::Whole; }
  std::string title() const {
    return title_of_run(this->method, (kParts & At::Layer) != 0
                                          ? "layer " + std::to_string(this->place.layer)
                                          : "all layers");
  }
};

template <PlaceParts kParts>
struct OfTwoMethods {
  Place place;
  MethodChoice a, b;

  std::string key() const { return key_of_members(place.key(kParts), a, b); }
  std::string obstacle() const { return missing(place, a, b); }
  bool selects() const { return !a.recorded() || !b.recorded(); }
};

}  // namespace kvloupe::state
