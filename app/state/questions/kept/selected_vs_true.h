// The view selected_vs_true: the keys of one cell by their true attention, and which of them the
// method kept.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "app/state/questions/kept/kv_map.h"
#include "core/analysis/selected_vs_true.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// Which of by_true_rank a table lists, by the view's option "filter".
class ListedKeys {
 public:
  void add(std::int32_t index, analysis::KeyVerdict verdict);
  void add(std::int32_t index, analysis::KeyVerdict in_a, analysis::KeyVerdict in_b);
  // Null: all.
  const std::vector<std::int32_t>* by(const std::string& filter) const;
  std::uint64_t bytes() const { return bytes_in(misses_, wastes_, kept_by_one_); }

 private:
  std::vector<std::int32_t> misses_, wastes_, kept_by_one_;
  bool of_two_ = false;
};

struct SelectedVsTrueQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "selected vs true";
  struct Answer {
    analysis::SelectedVsTrue cell;
    double total_mass = 0;   // of the candidates
    double least_share = 0;  // the smallest share of mass above 0
    ListedKeys listed;
    MethodFacts facts;

    double share_of(const analysis::KeyRank& key) const {
      return total_mass > 0 ? key.mass / total_mass : 0;
    }
    double share_at(std::int32_t position) const {
      const auto index = static_cast<std::size_t>(position);
      return index < cell.mass.size() && total_mass > 0 ? cell.mass[index] / total_mass : 0;
    }
    std::int64_t kept() const { return cell.hits + cell.wastes; }
    // The mass recall over all candidates but key 0, which many heads use as a sink. Nothing where it is no
    // candidate, nothing else has mass, or the recall counts pairs of a mask (docs/metrics.md).
    std::optional<double> recall_without_sink;
  };

  std::string title() const { return "Ranking the keys by true attention mass"; }
  // Of very many keys it takes seconds, for which nothing else should wait.
  Lane lane() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.cell.by_true_rank, answer.cell.mass, answer.cell.verdict) +
           answer.listed.bytes();
  }
};

// As of the map, by the verdicts on one cell. Nothing where no watched key was up for choice.
std::optional<KeptOfSpan> kept_of_span(const SelectedVsTrueQuestion::Answer& answer,
                                       const Place& place);

// A and B, key by key, in the order of A's true ranks.
struct SelectedByBothQuestion : OfTwoMethods<At::Cell> {
  static constexpr const char* kName = "selected by both";
  struct Answer {
    std::shared_ptr<const SelectedVsTrueQuestion::Answer> of_a, of_b;
    bool same_order = true;  // B's rows hold the same query heads: its ranks are A's
    ListedKeys listed;       // of of_a->cell.by_true_rank

    analysis::KeyVerdict in_b(std::int32_t position) const;  // Neither where it is no candidate
  };

  std::string title() const { return SelectedVsTrueQuestion{place, a}.title(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};
// "19 of needle's 22 keys are kept, at a recall of 0.693." Empty where nothing is watched.
std::string verdict_of(const SelectedVsTrueQuestion::Answer& answer, const Place& place);
// "Of needle A keeps 19 of 22 keys, B none, at nearly the same recall (0.693 and 0.697)."
std::string verdict_of_both(const SelectedByBothQuestion::Answer& answer, const Place& place);
class Workspace;
SelectedByBothQuestion selected_by_both_question(const Workspace& workspace);

}  // namespace kvloupe::state
