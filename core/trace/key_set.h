// Positions of keys that are watched or counted together: a span of the trace, or keys picked one by one.
#pragma once

#include "core/trace/trace_types.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::trace {

// Ascending positions, kept as ranges that neither touch nor overlap. A value that is cheap to copy.
class KeySet {
 public:
  KeySet() = default;
  KeySet(std::int32_t begin, std::int32_t end);  // half-open; empty unless 0 <= begin < end
  // In any order, also more than once.
  static KeySet of(const std::vector<std::int32_t>& positions);
  static KeySet of(std::vector<TokenRange> ranges);

  bool empty() const { return parts_ == nullptr; }
  std::int64_t size() const { return empty() ? 0 : parts_->size; }
  const std::vector<TokenRange>& ranges() const;
  // The lowest position, and one more than the highest; -1 of an empty set.
  std::int32_t first() const { return empty() ? -1 : parts_->ranges.front().begin; }
  std::int32_t bound() const { return empty() ? -1 : parts_->ranges.back().end; }
  // Whether they are just [begin, end).
  bool is(std::int32_t begin, std::int32_t end) const {
    return ranges().size() == 1 && first() == begin && bound() == end;
  }
  bool contains(std::int64_t position) const { return meets(position, position + 1); }
  // Whether one of them is in [begin, end).
  bool meets(std::int64_t begin, std::int64_t end) const;
  // Those in [begin, end), as ranges and one by one.
  std::vector<TokenRange> ranges_in(std::int64_t begin, std::int64_t end) const;
  std::vector<std::int32_t> positions_in(std::int64_t begin, std::int64_t end) const;
  std::int64_t count_in(std::int64_t begin, std::int64_t end) const;
  // "40-52+60+71-73": first and last of each range; "" of an empty set.
  const std::string& text() const;

  bool operator==(const KeySet& other) const;

 private:
  struct Parts {
    std::vector<TokenRange> ranges;
    std::int64_t size = 0;
    std::string text;
  };
  std::shared_ptr<const Parts> parts_;  // null: empty
};

// Keys with the name that they are spoken of by.
struct NamedKeys {
  std::string name;
  KeySet keys;

  NamedKeys() = default;
  NamedKeys(std::string called, KeySet of) : name(std::move(called)), keys(std::move(of)) {}
  NamedKeys(const TokenSpan& span) : NamedKeys(span.name, {span.begin, span.end}) {}
  bool operator==(const NamedKeys&) const = default;
};

}  // namespace kvloupe::trace
