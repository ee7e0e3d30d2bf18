#include "core/analysis/kv_difference.h"

#include "core/base/error.h"

#include <algorithm>
#include <cstddef>

namespace kvloupe::analysis {
namespace {

bool is_candidate(KeyState state) {
  return state != KeyState::Future && state != KeyState::Current && state != KeyState::Hidden;
}

}  // namespace

bool is_kept(KeyState state) {
  return is_candidate(state) && state != KeyState::Dropped && state != KeyState::Evicted;
}

KeptBy kept_by(KeyState a, KeyState b) {
  if (!is_candidate(a) || !is_candidate(b)) return KeptBy::NoCandidate;
  return static_cast<KeptBy>((is_kept(a) ? 1 : 0) + (is_kept(b) ? 2 : 0));
}

KeptBy KvDifference::at(std::size_t chunk, std::int32_t token) const {
  return cells[chunk * static_cast<std::size_t>(num_tokens) + static_cast<std::size_t>(token)];
}

std::int32_t KvDifference::kept(std::size_t chunk) const {
  return count(chunk, KeptBy::AOnly) + count(chunk, KeptBy::BOnly) + count(chunk, KeptBy::Both);
}

double KvDifference::jaccard(std::size_t chunk) const {
  const std::int32_t any = kept(chunk);
  return any == 0 ? 1 : static_cast<double>(count(chunk, KeptBy::Both)) / any;
}

KvDifference difference_of(const KvMap& a, const KvMap& b) {
  KVLOUPE_CHECK(a.num_tokens == b.num_tokens);
  // The chunks of which both may know something.
  KvDifference difference{
      a.chunks.size() < b.chunks.size() ? a.chunks : b.chunks, a.num_tokens, {}, {}};
  difference.cells.reserve(std::min(a.states.size(), b.states.size()));
  std::size_t cell = 0;
  for (std::size_t chunk = 0; chunk < difference.chunks.size(); ++chunk) {
    std::array<std::int32_t, kNumKeptBy> counts{};
    for (std::int32_t token = 0; token < a.num_tokens; ++token, ++cell) {
      const KeptBy what = kept_by(a.states[cell], b.states[cell]);
      ++counts[static_cast<std::size_t>(what)];
      difference.cells.push_back(what);
    }
    difference.counts.push_back(counts);
  }
  return difference;
}

KvDifferenceGrid reduce_kv_difference(const KvDifference& difference, int max_rows, int max_cols) {
  return reduced<kNumKeptBy>(difference.cells, static_cast<std::int64_t>(difference.chunks.size()),
                             difference.num_tokens, max_rows, max_cols);
}

}  // namespace kvloupe::analysis
