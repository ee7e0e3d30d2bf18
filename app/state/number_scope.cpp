#include "app/state/number_scope.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <cstdint>

namespace kvloupe::state {
namespace {

using Kind = NumberScope::Kind;

struct Name {
  Kind kind;
  const char* text;
};
constexpr Name kNames[] = {
    {Kind::Own, "own"}, {Kind::Chunk, "chunk"}, {Kind::Question, "question"}, {Kind::All, "all"}};

}  // namespace

std::string text_of(const NumberScope& scope) {
  for (const Name& name : kNames)
    if (scope.kind == name.kind) return name.text;
  return scope.first == scope.last ? std::to_string(scope.first)
                                   : fmt::format("{}-{}", scope.first, scope.last);
}

NumberScope parse_number_scope(const std::string& text) {
  for (const Name& name : kNames)
    if (text == name.text) return {name.kind};
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::size_t dash = text.find('-');
  const auto first = parse_int(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_int(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last > kMost)
    throw usage_error(fmt::format("--numbers {} is not valid", printable(text)),
                      "numbers are over chunk (the one shown), question (from the question on), "
                      "all, or chunks such as 12-15",
                      "write for example --numbers question");
  return {Kind::Range, static_cast<int>(*first), static_cast<int>(*last)};
}

}  // namespace kvloupe::state
