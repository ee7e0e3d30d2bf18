// Selection by rank without sorting: a radix search for the value at the cut, then one pass in
// position order, which also breaks ties by position.
#include "core/selection/ranking.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

namespace kvloupe::selection {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000U;

// The value of the `count`-th largest of `values`, 1 <= count <= size. Two histograms, one for the
// upper and one for the lower half of the bits.
std::uint32_t value_at_rank(const std::vector<std::uint32_t>& values, std::int64_t count) {
  constexpr std::size_t kBuckets = 1U << 16;
  // Clearing the histograms would cost more than a few values do (the lanes of a query row).
  if (values.size() < kBuckets / 32) {
    std::vector<std::uint32_t> parted = values;
    std::nth_element(parted.begin(), parted.begin() + (count - 1), parted.end(), std::greater<>());
    return parted[static_cast<std::size_t>(count - 1)];
  }
  std::vector<std::uint32_t> histogram(kBuckets, 0);
  auto find_bucket = [&](std::int64_t& left) {
    std::size_t bucket = kBuckets - 1;
    while (left > histogram[bucket]) left -= histogram[bucket--];
    return static_cast<std::uint32_t>(bucket);
  };
  for (const std::uint32_t value : values) ++histogram[value >> 16];
  const std::uint32_t upper = find_bucket(count);
  std::fill(histogram.begin(), histogram.end(), 0);
  for (const std::uint32_t value : values)
    if (value >> 16 == upper) ++histogram[value & 0xFFFFU];
  return upper << 16 | find_bucket(count);
}

// Appends the best `count` of the candidates `members` (ascending; values parallel to it).
void keep_best_of(const std::vector<std::int32_t>& members,
                  const std::vector<std::uint32_t>& values, std::int64_t count, Kept& kept) {
  const auto total = static_cast<std::int64_t>(members.size());
  if (count >= total) {
    kept.indices.insert(kept.indices.end(), members.begin(), members.end());
    return;
  }
  if (count <= 0) return;
  const std::uint32_t cut = value_at_rank(values, count);
  std::int64_t equal = 0;
  std::int64_t above = 0;
  for (const std::uint32_t value : values) {
    above += value > cut;
    equal += value == cut;
  }
  std::int64_t equal_left = count - above;
  kept.ties_at_cut = equal - equal_left;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (values[i] > cut || (values[i] == cut && equal_left-- > 0))
      kept.indices.push_back(members[i]);
}

}  // namespace

std::uint32_t rank_value(float score) {
  if (score != score) return 0;  // below every number: -inf maps to 0x007FFFFF
  // Adding +0 turns -0 into +0 and leaves every other value.
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return bits & kSignBit ? ~bits : bits | kSignBit;
}

Kept keep_best(std::span<const float> scores, std::int64_t budget,
               std::span<const std::uint8_t> forced) {
  std::array<std::vector<std::int32_t>, 2> members;  // not forced, forced
  std::array<std::vector<std::uint32_t>, 2> values;
  members[0].reserve(scores.size());
  values[0].reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::size_t kind = !forced.empty() && forced[i] != 0;
    members[kind].push_back(static_cast<std::int32_t>(i));
    values[kind].push_back(rank_value(scores[i]));
  }
  Kept kept;
  keep_best_of(members[1], values[1], budget, kept);
  kept.forced = static_cast<std::int64_t>(kept.indices.size());
  if (kept.forced < budget) keep_best_of(members[0], values[0], budget - kept.forced, kept);
  if (kept.forced > 0)
    std::inplace_merge(kept.indices.begin(), kept.indices.begin() + kept.forced,
                       kept.indices.end());
  return kept;
}

std::vector<std::int32_t> ranked(std::span<const float> scores, std::int64_t count) {
  // Score in the upper half, inverted position in the lower: one number orders both.
  std::vector<std::uint64_t> keys(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i)
    keys[i] =
        static_cast<std::uint64_t>(rank_value(scores[i])) << 32 | ~static_cast<std::uint32_t>(i);
  const auto size = std::min<std::int64_t>(std::max<std::int64_t>(count, 0),
                                           static_cast<std::int64_t>(keys.size()));
  if (size == static_cast<std::int64_t>(keys.size()))  // several times faster
    std::sort(keys.begin(), keys.end(), std::greater<>());
  else
    std::partial_sort(keys.begin(), keys.begin() + size, keys.end(), std::greater<>());
  std::vector<std::int32_t> order;
  for (std::int64_t i = 0; i < size; ++i)
    order.push_back(static_cast<std::int32_t>(~static_cast<std::uint32_t>(keys[i])));
  return order;
}

}  // namespace kvloupe::selection
