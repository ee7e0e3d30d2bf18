// What a method keeps of a span of keys, head by head, and why it loses the rest (docs/explain.md): the
// question "why was it lost?" of more than one key. Free of Torch.
#pragma once

#include "core/device/default_device.h"
#include "core/replay/explain.h"
#include "core/replay/method_choice.h"
#include "core/replay/replay.h"
#include "core/replay/span_kept.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

struct SpanLossRequest {
  // A run of a known method is selected anew by its SPEC. Of an unknown one what it recorded is counted,
  // and no cause is known but evictions.
  MethodChoice method;
  trace::NamedKeys span;
  std::vector<int> layers;  // empty: all captured
  std::vector<int> chunks;  // empty: all
  bool want_budgets = true;
  std::string device = device::kDefault;
};

// A row of one layer, a KV head, a query head or several, over the chunks in which it chose among keys and
// some of the span's came before the chunk.
struct SpanHead {
  int layer = 0, row = 0;
  std::int64_t kept = 0, keys = 0;  // of the span, chunk after chunk
  // Known with the causes: M of the span's keys, of those lost, of all candidates.
  double mass = 0, lost_mass = 0, whole_mass = 0;
  std::array<std::int64_t, kNumStages> lost_to{};  // keys; the rest has no cause that is known
  // With this budget all of the span is kept, with one less it is not.
  std::optional<std::int64_t> enough = {};

  bool keeps_all() const { return kept == keys; }
  std::int64_t lost() const { return keys - kept; }
  std::vector<Stage> causes() const { return causes_of(lost_to); }
};

// One thing changed, in the rows that lose some of the span.
struct SpanChange {
  Stage stage;
  std::string change;  // "all rows of the chunk"
  std::optional<selection::MethodSpec>
      spec;               // the method that does it; none where no SPEC can say it
  int heads = 0;          // that would then keep all of the span
  std::int64_t keys = 0;  // lost ones that would be kept
};

struct SpanLoss {
  MethodChoice method;
  trace::NamedKeys span;
  selection::RowLayout layout;
  std::vector<int> layers;
  std::vector<int> chunks;          // those looked at
  std::vector<SpanHead> heads;      // by layer and row
  int dense_heads = 0;              // that kept everything in every one of the chunks
  int idle_heads = 0;               // that chose, but never among the span's keys
  bool comes_before = false;        // some of the span, before the last of the chunks
  bool has_causes = false;          // and masses
  std::vector<SpanChange> changes;  // most heads first
  bool has_budgets = false;
  // Whether all larger budgets than SpanHead::enough keep the span, too. Where a larger budget need not
  // keep what a smaller one does, those that were tried do.
  bool exact_budgets = true;

  // Of all heads, or of one layer's.
  struct Sums {
    int heads = 0, whole = 0, nothing = 0;  // that keep all, that keep none
    std::int64_t kept = 0, keys = 0;
    double mass = 0, lost_mass = 0;
    std::array<std::int64_t, kNumStages> lost_to{};
    std::optional<std::int64_t> enough;  // in all of them; none: unknown, or no budget is

    std::int64_t lost() const { return keys - kept; }
    std::vector<Stage> causes() const { return causes_of(lost_to); }
  };
  Sums sums() const;
  Sums sums_of_layer(int layer) const;
  // The fewest heads, most first, that hold this share of the mass that the span receives.
  std::vector<const SpanHead*> heads_of_mass(double share) const;
  // Adds the layers of another answer to the same question.
  void add(const SpanLoss& other);
};

inline constexpr double kShareThatMatters = 0.8;  // of heads_of_mass()

// Of sets that are at hand: what is kept, without causes.
SpanLoss count_span(const ReplayResult& run, const MethodChoice& method,
                    const trace::NamedKeys& span);
// Throws as replay().
SpanLoss span_loss(const session::TraceSession& session, const SpanLossRequest& request,
                   const WorkContext& context);

// "quoka 256 keeps all 7 keys of needle_value in 9 of 90 heads ...": what is kept, which heads matter, and
// the causes, as far as they are known.
std::string sentence_of(const SpanLoss& loss);
// The same for a reader who looks before reading: its first clause, and numbers in place of the others.
std::string headline_of(const SpanLoss& loss);
struct SpanNumber {
  std::string value, name;  // "0 of 90", "KV heads keep all"
  std::string explained;    // may be empty
};
std::vector<SpanNumber> numbers_of(const SpanLoss& loss);
// What would keep all of it: the budget and the changes. Empty where nothing is known of that, or lost.
std::string remedy_of(const SpanLoss& loss);

}  // namespace kvloupe::replay
