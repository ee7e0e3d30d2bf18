// The view worst_misses: the keys that a method lost in every layer and head and why, and those that it
// dropped and that a later chunk wanted, over the chunks of the scope of numbers.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/question_at.h"
#include "core/replay/lost_keys.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// Why what a method loses cannot be asked; empty: it can.
std::string why_no_losses(const Place& place, const MethodChoice& method,
                          const std::optional<trace::NamedKeys>& span);

// Of all keys, or of a span alone. The method is selected anew, also where the trace holds a run of it: a
// recorded set does not say what would have kept a key.
template <PlaceParts kParts>
struct OfLostKeys : OfMethodAnew<kParts> {
  std::optional<trace::NamedKeys> span = {};
  NumberChunks chunks = {};  // whose queries count
  // Where chunks are chosen a key may have been dropped before them: it takes longer.
  bool regrets = false;

  std::string key() const { return OfMethodAnew<kParts>::key(span, chunks, regrets); }
  std::string obstacle() const { return why_no_losses(this->place, this->method, span); }
};

// Of one layer: what is done stays known when the rest is cancelled.
struct LayerMissesQuestion : OfLostKeys<At::Layer> {
  static constexpr const char* kName = "layer misses";
  using Answer = replay::LostKeys;

  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return sizeof(answer) + bytes_in(answer.keys, answer.regrets, answer.by_layer);
  }
};

// Of all layers, shown as they come.
struct WorstMissesQuestion : OfLostKeys<At::Trace> {
  static constexpr const char* kName = "worst misses";
  static constexpr Pace kPace = Pace::Patient;
  struct Answer {
    replay::LostKeys lost;  // of the layers done
    int num_layers = 0;     // of the trace
    // Those that lost mass, most first.
    std::vector<replay::Stage> causes;

    bool finished() const { return static_cast<int>(lost.layers.size()) == num_layers; }
  };

  std::string title() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return LayerMissesQuestion::bytes(answer.lost);
  }
};

class Workspace;
WorstMissesQuestion worst_misses_question(const Workspace& workspace);
bool lists_regrets(const Workspace& workspace);

// "61 %", "0.4 %", "< 0.1 %".
std::string rough_percent(double share);
// M in a list: "12.30", "0.004".
std::string mass_text(double mass);
// "256", "10 %", "" where it has none.
std::string budget_words(const selection::MethodSpec& spec);
// What all of it says in one line or two: how much is lost, and to which causes.
std::string sentence_of(const WorstMissesQuestion& question,
                        const WorstMissesQuestion::Answer& answer);

// Where a line of a list stands, to go there.
struct MissPlace {
  int layer = 0, row = 0, chunk = 0;
  std::int64_t key = 0;
};
inline MissPlace place_of(const replay::LostKey& lost) {
  return {lost.layer, lost.row, lost.chunk, lost.key};
}
// The chunk that wanted the key.
inline MissPlace place_of(const replay::Regret& regret) {
  return {regret.layer, regret.row, regret.wanted, regret.key};
}
// Moves layer, head, chunk and keys there; a query head of the row stays.
void go_to(Workspace& workspace, const MissPlace& there, const selection::RowLayout& layout);
bool is_at(const Place& place, const MissPlace& there, const selection::RowLayout& layout);

// Which lines a list shows.
struct MissFilter {
  std::optional<int> layer, row;
  std::optional<replay::Stage> cause;  // of lost keys
  std::optional<trace::TokenSpan> span;
};

// A column of a list. The first holds the token.
template <typename Line>
struct MissColumn {
  const char* title;
  const char* meaning;
  float weight;  // of its width
  // What it is sorted by; null: the token's text.
  std::function<double(const Line& line)> value;
  std::function<std::string(const Line& line, const selection::RowLayout& layout)> text;
  bool falling;  // at first
};
const std::vector<MissColumn<replay::LostKey>>& lost_columns();
const std::vector<MissColumn<replay::Regret>>& regret_columns();
// The number of the column that lines are sorted by at first: the mass.
inline constexpr int kLostByMass = 5, kRegretsByMass = 6;

// Indices of the lines that pass, sorted.
template <typename Line>
std::vector<std::int32_t> lines_of(const std::vector<Line>& lines, const MissFilter& filter,
                                   const MissColumn<Line>& by, bool falling,
                                   const std::vector<std::string>& tokens);

}  // namespace kvloupe::state
