// Why a method kept or lost a key in one cell: what it decided by, and what would have kept the key. All
// of it by running the selection again with one thing changed; docs/explain.md says what exactly. Free
// of Torch.
#pragma once

#include "core/base/cancel.h"
#include "core/device/default_device.h"
#include "core/selection/spec/method_spec.h"
#include "core/session/session.h"
#include "core/trace/key_set.h"
#include "core/trace/runs/selection_record.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// What a method does to a key on its way to the set, in the order in which a cause is looked for.
enum class Stage {
  Evicted,
  ReusedSet,
  QuerySampling,
  HeadMerge,
  Unit,
  Approximation,
  Threshold,
  Budget,
};
inline constexpr int kNumStages = 8;
const char* name_of(Stage stage);   // "query_sampling"
const char* words_of(Stage stage);  // "query sampling", as one says it
// The stages that lost something, most first.
template <typename Amount>
std::vector<Stage> causes_of(const std::array<Amount, kNumStages>& lost) {
  std::vector<Stage> causes;
  for (int i = 0; i < kNumStages; ++i)
    if (lost[static_cast<std::size_t>(i)] > 0) causes.push_back(static_cast<Stage>(i));
  std::ranges::stable_sort(causes, std::greater(),
                           [&](Stage stage) { return lost[static_cast<std::size_t>(stage)]; });
  return causes;
}

// A row of heads as a table or a sentence calls it: "KV head 1", "query head 5", "query heads 4 to 7".
std::string row_words(const selection::RowLayout& layout, int row);

// The stages that a method has in a layer, in order.
std::vector<Stage> stages_of(const selection::MethodSpec& spec, const selection::ModelShape& shape,
                             int layer);

struct StageOutcome {
  Stage stage;
  bool passed = true;  // false: changing it alone would have kept the key
  std::string detail;  // what was changed, and with what result
};

// One selection that was run to find out.
struct Counterfactual {
  std::optional<selection::MethodSpec>
      spec;  // the method that does it; none where no SPEC can say it
  std::string change;
  bool kept = false;
};

struct ExplainRequest {
  selection::MethodSpec spec;  // resolved
  int layer = 0, chunk = 0;
  int row = 0;  // of the method's rows: row_of_heads()
  std::int64_t key = 0;
  // It takes all budgets to find where a larger one need not keep what a smaller one does.
  bool want_needed_budget = true;
  std::string device = device::kDefault;
};

struct Explanation {
  std::string method;          // canonical, or as recorded
  std::optional<int> run;      // whose recorded sets are spoken of; none: selected anew
  selection::MethodSpec spec;  // none of a recorded run
  int layer = 0, chunk = 0, row = 0;
  selection::RowLayout layout;
  std::int64_t key = 0;
  bool kept = true, forced = false;
  std::optional<trace::DenseReason> dense_reason;
  // What the key's unit was given, against the lowest score that was kept by score. Empty where
  // nothing was ranked.
  std::optional<double> score, cut;
  std::optional<std::int64_t> rank;  // from 1, among keys
  std::int64_t candidates = 0;
  std::optional<std::int64_t> budget;
  double true_mass = 0;        // M
  double whole_mass = 0;       // of all candidates
  std::int64_t true_rank = 0;  // from 1
  std::optional<std::int64_t> needed_budget;
  std::optional<Stage> lost_at;
  std::vector<StageOutcome> stages;
  std::vector<Counterfactual> counterfactuals;

  // The page or block of the key; single keys have none.
  struct Unit {
    std::int64_t begin = 0, end = 0;  // positions
    std::int64_t rank = 0, of = 0;    // from 1
    std::int64_t kept = 0;
  };
  std::optional<Unit> unit;
  // Where it was decided, if not in this cell: the layer whose set is reused, the chunk after which
  // a set was cut down.
  struct DecidedAt {
    int layer = 0, chunk = 0;
    std::int64_t at_hand = 0;  // keys that were ranked
  };
  std::optional<DecidedAt> decided_at;
  // The keys that were kept with the lowest scores, lowest first (units: their first keys).
  struct Rival {
    std::int64_t key = 0;
    double score = 0;
    double true_mass = 0;
  };
  std::vector<Rival> rivals;
  // The queries with most attention on the key, most first.
  struct Voter {
    int q_head = 0;
    std::int64_t position = 0;
    double attention = 0;
    std::optional<bool> sampled;  // none where the method asks all rows
  };
  std::vector<Voter> voters;

  // The keys that `rank` is among: methods that evict rank what was at hand after a chunk.
  std::int64_t num_ranked() const {
    return decided_at && decided_at->layer == layer ? decided_at->at_hand : candidates;
  }
  std::optional<double> margin() const {
    return score && cut ? std::optional(*score - *cut) : std::nullopt;
  }
};

// "kept from a budget of 1,217 on"; where a larger budget may lose the key again, that it is the smallest.
// `needed_budget` is known.
std::string budget_words(const Explanation& why);

// The row that speaks for a KV head or a query head, one of which is given. Throws Error{Usage} where
// the KV head has several rows, Error{Input} where the model has no such head.
int row_of_heads(const selection::RowLayout& layout, const selection::ModelShape& shape,
                 std::optional<int> kv_head, std::optional<int> q_head);

// The same of a recorded run, whatever made it: what became of the key, and its true mass. Stages and
// counterfactuals are not recorded; an eviction is, and the scores of some that were brought in.
Explanation explain_recorded(const session::TraceSession& session, int run,
                             const ExplainRequest& request);

// Throws Error{Input} for a key that is no candidate (one of the chunk itself, of a later one, hidden by
// a window), and as replay() does.
Explanation explain(const session::TraceSession& session, const ExplainRequest& request,
                    const WorkContext& context);

// A budget with which the method, which has one, keeps all of the watched keys that are up for choice in the
// cell, and does not with one less (docs/explain.md). `request.key` is not read.
struct SpanBudget {
  std::int64_t num_keys = 0;           // up for choice
  std::optional<std::int64_t> budget;  // none: no budget keeps them all
};
SpanBudget budget_of_span(const session::TraceSession& session, const ExplainRequest& request,
                          const trace::KeySet& watched, const WorkContext& context);

}  // namespace kvloupe::replay
