// All numbers that say what a method keeps, each once: what it is called, what it means, how it is written
// and which way is better. Tables, sweeps, targets, views, files and tooltips read this table; the formulas
// stand in docs/metrics.md under the same names, and in averages.cpp. Known without Torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace kvloupe::replay {

// In the order of the CSV's columns; those that `compare` does not average come last.
enum class Number : std::uint8_t {
  RequestedBudget,
  EffectiveBudget,
  MassRecall,
  TopkOverlap,
  OutputError,
  Density,
  Forced,
  KvBytes,
  NativeDensity,
  NativeDensityCausal,
  NativeDensityRectangle,
  DensityCausal,
  DensityRectangle,
  Gap,
  SpanKept,
  VisibleRecall,
  MetadataBytes,
  RecallAt1,
  RecallAt10,
  RecallAt64,
  MergeLoss,
  RelevancePearson,
  Entropy,
};

enum class Unit : std::uint8_t { Keys, Share, Relative, Bytes, Correlation, Nats };
enum class Better : std::uint8_t { Higher, Lower, Neither };
// Which rows of `compare` have it.
enum class InRows : std::uint8_t { All, Decode, None };
// When the table of `compare` has a column for it, unless --columns asks for others.
enum class Column : std::uint8_t { Always, WhereKnown, OnRequest };
// The heading of docs/metrics.md that has the formula.
enum class Section : std::uint8_t { WhatIsKept, HowMuch, LostKeys, Queries };

struct NumberInfo {
  Number number;
  const char* id;        // in files and options
  const char* title;     // in the window
  const char* heading;   // of a narrow column
  const char* brief;     // a few words after the title
  const char* sentence;  // of a tooltip
  Unit unit;
  int digits;  // after the point, in a table
  Better better;
  InRows rows;
  Column column;
  Section section;

  constexpr bool is_share() const { return unit == Unit::Share; }
  constexpr bool higher_is_better() const { return better == Better::Higher; }
};

inline constexpr std::array kNumbers = {
    NumberInfo{Number::RequestedBudget, "requested_budget", "budget", "budget", "KVs asked for",
               "KVs asked for, a row and chunk.", Unit::Keys, 0, Better::Lower, InRows::All,
               Column::WhereKnown, Section::HowMuch},
    NumberInfo{Number::EffectiveBudget, "effective_budget", "kept", "kept", "KVs kept",
               "KVs kept, a row and chunk.", Unit::Keys, 1, Better::Lower, InRows::All,
               Column::Always, Section::HowMuch},
    NumberInfo{Number::MassRecall, "mass_recall", "mass recall", "recall",
               "share of attention mass kept",
               "The share of true attention mass on past keys that the kept keys carry, 0 to 1.",
               Unit::Share, 4, Better::Higher, InRows::All, Column::Always, Section::WhatIsKept},
    NumberInfo{Number::TopkOverlap, "topk_overlap", "top-k overlap", "overlap",
               "share of kept keys that are true top keys",
               "Of the keys kept, the share that is among as many true top keys, 0 to 1.",
               Unit::Share, 4, Better::Higher, InRows::All, Column::OnRequest, Section::WhatIsKept},
    NumberInfo{
        Number::OutputError, "output_error", "output error", "error",
        "relative error of the head's output",
        "How far the attention output moves when only the kept keys are attended to, relative "
        "to its norm.",
        Unit::Relative, 4, Better::Lower, InRows::All, Column::Always, Section::WhatIsKept},
    NumberInfo{Number::Density, "density", "density", "density", "share of past keys kept",
               "Kept past keys as a share of all past keys, 0 to 1.", Unit::Share, 4, Better::Lower,
               InRows::All, Column::Always, Section::HowMuch},
    NumberInfo{Number::Forced, "forced", "by rule", "by rule", "KVs kept by rule",
               "Of those kept, the ones kept by rule: sinks, windows, recent keys. Runs of earlier "
               "versions do not say.",
               Unit::Keys, 1, Better::Neither, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{Number::KvBytes, "kv_bytes", "KV read", "KV bytes", "bytes of K and V read",
               "K and V of the kept past keys in the trace's precision, a row.", Unit::Bytes, 0,
               Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{Number::NativeDensity, "native_density", "native density", "native density",
               "pairs in the method's own masks, of all past pairs",
               "Pairs of query and past key in the block masks of the method itself, as a share of "
               "all such pairs.",
               Unit::Share, 4, Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{
        Number::NativeDensityCausal, "native_density_causal", "native density, causal",
        "native of causal", "pairs in the method's own masks, of all that are causal",
        "Pairs of query and key in the block masks of the method itself, as a share of those "
        "in which the key is not later.",
        Unit::Share, 4, Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{Number::NativeDensityRectangle, "native_density_rectangle",
               "native density, rectangle", "native of rectangle",
               "pairs in the method's own masks, of all",
               "Pairs of query and key in the block masks of the method itself, as a share of all "
               "pairs, later keys included.",
               Unit::Share, 4, Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{Number::DensityCausal, "density_causal", "density, causal", "density of causal",
               "pairs read, of all that are causal",
               "Pairs of query and key that are read, as a share of those in which the key is not "
               "later.",
               Unit::Share, 4, Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{
        Number::DensityRectangle, "density_rectangle", "density, rectangle", "density of rectangle",
        "pairs read, of all",
        "Pairs of query and key that are read, as a share of all pairs, later keys included.",
        Unit::Share, 4, Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{Number::Gap, "gap", "gap", "gap", "mass recall that the true top keys would add",
               "What as many true top keys would recall, less what the kept keys do: 0 is the best "
               "choice.",
               Unit::Share, 4, Better::Lower, InRows::All, Column::Always, Section::WhatIsKept},
    NumberInfo{
        Number::SpanKept, "span_kept", "watched kept", "span kept",
        "share of the watched keys that is kept",
        "Of the watched keys before the chunk (those chosen, else the needle), the share kept, "
        "0 to 1. A mean is of the chunks from the question on, where the trace has one.",
        Unit::Share, 4, Better::Higher, InRows::All, Column::WhereKnown, Section::WhatIsKept},
    NumberInfo{Number::VisibleRecall, "visible_recall", "visible recall", "visible recall",
               "share of all attention mass that the queries still see",
               "The share of all attention mass on the kept keys and on those of the chunk itself.",
               Unit::Share, 4, Better::Higher, InRows::All, Column::OnRequest, Section::WhatIsKept},
    NumberInfo{Number::MetadataBytes, "metadata_bytes", "metadata", "metadata bytes",
               "bytes held to choose with",
               "What the method holds of a KV head beside the K and V kept, to choose with.",
               Unit::Bytes, 0, Better::Lower, InRows::All, Column::OnRequest, Section::HowMuch},
    NumberInfo{Number::RecallAt1, "recall_at_1", "recall at 1", "at 1",
               "steps that keep the top key", "The share of steps that keep the true top key.",
               Unit::Share, 4, Better::Higher, InRows::Decode, Column::WhereKnown,
               Section::WhatIsKept},
    NumberInfo{Number::RecallAt10, "recall_at_10", "recall at 10", "at 10",
               "share of the 10 top keys kept", "The share kept of the 10 true top keys.",
               Unit::Share, 4, Better::Higher, InRows::Decode, Column::WhereKnown,
               Section::WhatIsKept},
    NumberInfo{Number::RecallAt64, "recall_at_64", "recall at 64", "at 64",
               "share of the 64 top keys kept", "The share kept of the 64 true top keys.",
               Unit::Share, 4, Better::Higher, InRows::Decode, Column::WhereKnown,
               Section::WhatIsKept},
    NumberInfo{Number::MergeLoss, "merge_loss", "merge loss", "merge loss",
               "recall lost by one set for several query heads",
               "What each query head would recall with a set of its own, less what it recalls with "
               "the one that its row keeps for all: mean over the heads.",
               Unit::Share, 4, Better::Lower, InRows::None, Column::OnRequest, Section::LostKeys},
    NumberInfo{Number::RelevancePearson, "relevance_pearson", "Pearson r of S_q", "Pearson r",
               "r of S_q against largest attention",
               "Where r is above 0.5, queries far from the mean query are the ones that attend "
               "sharply: QuoKA's premise holds.",
               Unit::Correlation, 4, Better::Higher, InRows::None, Column::OnRequest,
               Section::Queries},
    NumberInfo{Number::Entropy, "entropy", "entropy", "entropy", "mean row entropy in nats",
               "How spread the head's attention is.", Unit::Nats, 4, Better::Neither, InRows::None,
               Column::OnRequest, Section::Queries},
};
inline constexpr std::size_t kNumRowNumbers = static_cast<std::size_t>(Number::RecallAt64) + 1;

constexpr std::size_t index_of(Number number) { return static_cast<std::size_t>(number); }
constexpr const NumberInfo& info_of(Number number) { return kNumbers[index_of(number)]; }
constexpr const char* name_of(Number number) { return info_of(number).id; }

namespace detail {
constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kNumbers.size(); ++i)
    if (index_of(kNumbers[i].number) != i ||
        (kNumbers[i].rows != InRows::None) != (i < kNumRowNumbers))
      return false;
  return true;
}
}  // namespace detail
static_assert(detail::is_in_order(), "one row of the table for each Number, in their order");

const NumberInfo* find_number(const std::string& id);  // null: none is called so
const char* heading_of(Section section);               // in docs/metrics.md
// With a capital letter.
std::string headline_of(Number number);

// Of a row: one of each that `compare` averages, where it is known.
class Numbers {
 public:
  constexpr Numbers() { values_.fill(kUnknown); }

  constexpr std::optional<double> operator[](Number number) const {
    const double value = values_[index_of(number)];
    return value == value ? std::optional(value) : std::nullopt;
  }
  constexpr void set(Number number, std::optional<double> value) {
    values_[index_of(number)] = value.value_or(kUnknown);
  }
  bool operator==(const Numbers&) const = delete;  // what is not known equals nothing

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::array<double, kNumRowNumbers> values_{};
};

}  // namespace kvloupe::replay
