// Hirschberg's division (1975) on rows of bits (Hyyro 2004). Differs of Myers' kind take time that grows with the
// difference's square, and libraries that have such rows (rapidfuzz) keep all of them in memory.
#include "core/replay/token_alignment.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace kvloupe::replay {
namespace {

using Tokens = std::span<const std::int32_t>;

enum class From { Front, Back };

// [a.size() + 1]: the length of a longest common subsequence of `b` and each prefix of `a`, from the back
// each suffix.
std::vector<std::int32_t> lengths(Tokens a, Tokens b, From from, const CancelToken& cancel) {
  const std::size_t n = a.size();
  const auto at = [&](Tokens tokens, std::size_t i) {
    return from == From::Front ? tokens[i] : tokens[tokens.size() - 1 - i];
  };
  std::unordered_map<std::int32_t, std::vector<std::size_t>> places;  // in `a`
  for (const std::int32_t token : b) places.try_emplace(token);
  for (std::size_t i = 0; i < n; ++i)
    if (const auto found = places.find(at(a, i)); found != places.end()) found->second.push_back(i);
  // A bit is 0 where the subsequence of the prefix that ends there is one longer than before.
  std::vector<std::uint64_t> row(n / 64 + 1, ~std::uint64_t{0}), match(row.size(), 0);
  for (std::size_t j = 0; j < b.size(); ++j) {
    if (j % 256 == 0) cancel.throw_if_cancelled();
    const std::vector<std::size_t>& here = places.at(at(b, j));
    if (here.empty()) continue;
    for (const std::size_t i : here) match[i / 64] |= std::uint64_t{1} << (i % 64);
    std::uint64_t carry = 0;
    for (std::size_t w = here.front() / 64; w < row.size(); ++w) {
      const std::uint64_t old = row[w], hits = old & match[w];
      const std::uint64_t half = old + hits, sum = half + carry;
      carry = half < old || sum < half;
      row[w] = sum | (old & ~match[w]);
    }
    for (const std::size_t i : here) match[i / 64] = 0;
  }
  std::vector<std::int32_t> result(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i)
    result[i + 1] = result[i] + ((row[i / 64] >> (i % 64) & 1) == 0);
  return result;
}

struct Aligner {
  Tokens whole_a, whole_b;
  const CancelToken& cancel;
  std::vector<std::int32_t> partner;

  void pair(Tokens a, Tokens b) {
    partner[static_cast<std::size_t>(a.data() - whole_a.data())] =
        static_cast<std::int32_t>(b.data() - whole_b.data());
  }

  void align(Tokens a, Tokens b) {
    for (; !a.empty() && !b.empty() && a.front() == b.front(); a = a.subspan(1), b = b.subspan(1))
      pair(a, b);
    for (; !a.empty() && !b.empty() && a.back() == b.back();
         a = a.first(a.size() - 1), b = b.first(b.size() - 1))
      pair(a.last(1), b.last(1));
    if (a.empty() || b.empty()) return;
    if (b.size() == 1) {
      const auto found = std::find(a.begin(), a.end(), b.front());
      if (found != a.end()) pair(a.subspan(static_cast<std::size_t>(found - a.begin())), b);
      return;
    }
    const std::size_t middle = b.size() / 2;
    const auto before = lengths(a, b.first(middle), From::Front, cancel);
    const auto after = lengths(a, b.subspan(middle), From::Back, cancel);
    std::size_t best = 0;
    for (std::size_t i = 1; i <= a.size(); ++i)
      if (before[i] + after[a.size() - i] > before[best] + after[a.size() - best]) best = i;
    align(a.first(best), b.first(middle));
    align(a.subspan(best), b.subspan(middle));
  }
};

}  // namespace

std::vector<std::int32_t> align_tokens(const std::vector<std::int32_t>& a,
                                       const std::vector<std::int32_t>& b,
                                       const CancelToken& cancel) {
  Aligner aligner{a, b, cancel, std::vector<std::int32_t>(a.size(), -1)};
  aligner.align(a, b);
  return std::move(aligner.partner);
}

}  // namespace kvloupe::replay
