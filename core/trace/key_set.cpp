#include "core/trace/key_set.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::trace {
namespace {

std::string text_of(const std::vector<TokenRange>& ranges) {
  std::string text;
  for (const TokenRange& range : ranges) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", range.begin);
    if (range.end > range.begin + 1) text += fmt::format("-{}", range.end - 1);
  }
  return text;
}

}  // namespace

KeySet::KeySet(std::int32_t begin, std::int32_t end) {
  if (begin < 0 || end <= begin) return;
  const std::vector<TokenRange> ranges{{begin, end}};
  parts_ = std::make_shared<Parts>(Parts{ranges, end - begin, text_of(ranges)});
}

KeySet KeySet::of(std::vector<TokenRange> ranges) {
  std::erase_if(ranges, [](const TokenRange& r) { return r.begin < 0 || r.end <= r.begin; });
  std::ranges::sort(ranges, {}, &TokenRange::begin);
  Parts parts;
  for (const TokenRange& range : ranges) {
    if (!parts.ranges.empty() && range.begin <= parts.ranges.back().end)
      parts.ranges.back().end = std::max(parts.ranges.back().end, range.end);
    else
      parts.ranges.push_back(range);
  }
  KeySet set;
  if (parts.ranges.empty()) return set;
  for (const TokenRange& range : parts.ranges) parts.size += range.end - range.begin;
  parts.text = text_of(parts.ranges);
  set.parts_ = std::make_shared<Parts>(std::move(parts));
  return set;
}

KeySet KeySet::of(const std::vector<std::int32_t>& positions) {
  std::vector<TokenRange> ranges;
  for (const std::int32_t position : positions) ranges.push_back({position, position + 1});
  return of(std::move(ranges));
}

const std::vector<TokenRange>& KeySet::ranges() const {
  static const std::vector<TokenRange> none;
  return empty() ? none : parts_->ranges;
}

bool KeySet::meets(std::int64_t begin, std::int64_t end) const {
  const auto& all = ranges();
  const auto found = std::ranges::upper_bound(all, begin, {}, &TokenRange::end);
  return begin < end && found != all.end() && found->begin < end;
}

std::vector<TokenRange> KeySet::ranges_in(std::int64_t begin, std::int64_t end) const {
  std::vector<TokenRange> inside;
  const auto& all = ranges();
  auto range = std::ranges::upper_bound(all, begin, {}, &TokenRange::end);
  for (; range != all.end() && range->begin < end; ++range)
    inside.push_back({static_cast<std::int32_t>(std::max<std::int64_t>(range->begin, begin)),
                      static_cast<std::int32_t>(std::min<std::int64_t>(range->end, end))});
  return inside;
}

std::vector<std::int32_t> KeySet::positions_in(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int32_t> positions;
  for (const TokenRange& range : ranges_in(begin, end))
    for (std::int32_t position = range.begin; position < range.end; ++position)
      positions.push_back(position);
  return positions;
}

std::int64_t KeySet::count_in(std::int64_t begin, std::int64_t end) const {
  std::int64_t count = 0;
  for (const TokenRange& range : ranges_in(begin, end)) count += range.end - range.begin;
  return count;
}

const std::string& KeySet::text() const {
  static const std::string none;
  return empty() ? none : parts_->text;
}

bool KeySet::operator==(const KeySet& other) const {
  return parts_ == other.parts_ || text() == other.text();
}

}  // namespace kvloupe::trace
