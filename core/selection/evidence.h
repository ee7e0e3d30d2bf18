// What a row of a selection was decided by: the units that could be kept and what spoke for each. The
// order is the ranking rule: by rule first, then score descending, then position ascending; a NaN ranks
// last. Free of Torch. docs/explain.md says what a score is in each method.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvloupe::selection {

struct RowEvidence {
  // Units, ascending: single keys, pages or blocks [begin, end). `end` is empty where all are single keys.
  std::vector<std::int32_t> begin, end;
  std::vector<double> scores;        // NaN: it had none
  std::vector<std::uint8_t> forced;  // 1: kept first, by rule or by a step before; empty: none is
  std::int64_t num_kept = 0;         // units that were kept
  // Many choices are united: a score is minus the unit's best rank, from 1, in any of them.
  bool unites_choices = false;

  std::int64_t num_units() const { return static_cast<std::int64_t>(begin.size()); }
  std::int32_t end_of(std::int64_t unit) const {
    return end.empty() ? begin[static_cast<std::size_t>(unit)] + 1
                       : end[static_cast<std::size_t>(unit)];
  }
  bool is_forced(std::int64_t unit) const {
    return !forced.empty() && forced[static_cast<std::size_t>(unit)] != 0;
  }
  // Something was left out.
  bool was_cut() const { return num_kept < static_cast<std::int64_t>(scores.size()); }
  // The unit that holds the key.
  std::optional<std::int64_t> unit_of(std::int64_t position) const;
  // Units that each choice must keep until this one, which has a score, is among them, from 1.
  std::int64_t units_needed(std::int64_t unit) const;
  // The units, best first; asks for scores and forced alone.
  std::vector<std::int32_t> order() const;
  // The lowest score that was kept by score; nothing where all that was kept is forced,
  // or where nothing was left out.
  std::optional<double> cut() const;
};

// Single keys [first, first + scores), none forced.
RowEvidence evidence_of_keys(std::int64_t first, std::span<const float> scores,
                             std::int64_t num_kept);

}  // namespace kvloupe::selection
