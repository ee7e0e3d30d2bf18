// The view miss_inspector: what became of a key or span (a needle) in every chunk.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/selected_vs_true.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::state {

// The watched span in all rows of a layer.
struct SpanFateQuestion : OfMethod<At::Layer | At::Keys> {
  static constexpr const char* kName = "span fate";
  static constexpr Pace kPace = Pace::Patient;
  struct Answer {
    std::vector<analysis::SpanFate> fates;  // of every row and chunk that has keys of the span
    // By row: the chunks after which keys of the span died, and how many did.
    std::vector<std::map<int, int>> deaths;
  };

  std::string title() const { return "Following the span through the chunks"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer.fates, answer.deaths); }
};

// The same for the row of one query head, with what the method did around it.
struct MissQuestion : OfMethod<At::Head | At::Keys> {
  static constexpr const char* kName = "miss";
  static constexpr Pace kPace = Pace::Patient;
  struct Chunk {
    std::int32_t kept = 0, total = 0;  // keys of the span; total 0: it does not lie before it
    double span_mass = 0;              // share of the candidates' mass
    std::int32_t best_true_rank = -1;  // from 0
    std::int64_t num_candidates = 0, num_kept = 0;  // of all keys
    bool dense = false;                             // everything was kept
  };
  // One bar of the chart: one chunk, or several where there are very many.
  struct Bar {
    int first = 0, last = 0;  // chunks, half-open
    std::int64_t kept = 0, total = 0;
    double span_mass = 0;  // the largest
  };
  struct Answer {
    std::vector<Chunk> chunks;
    std::vector<Bar> bars;
    double top_mass = 0;
    std::string deaths;    // one sentence; empty if no key of the span died
    std::string axis;      // "chunk", or which of them are decode steps
    std::string row_name;  // "KV head 1", "query heads 4 to 7"
    MethodFacts facts;
  };

  std::string title() const { return SpanFateQuestion{place, method}.title(); }
  std::string obstacle() const { return SpanFateQuestion{place, method}.obstacle(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.chunks, answer.bars, answer.facts.chunks);
  }
};

// Of A and B those that the view shows and that are chosen; once where they are one method.
class Workspace;
std::vector<Slot> inspected_slots(const Workspace& workspace);
// What one chunk says of the span, as a sentence.
std::string sentence_of(const MissQuestion& question, const MissQuestion::Answer& answer);
// The same in two parts: what attention makes of the span, whatever the method (empty where nothing was
// chosen), and what the method kept of it.
std::string mass_sentence_of(const MissQuestion& question, const MissQuestion::Answer& answer);
std::string kept_sentence_of(const MissQuestion& question, const MissQuestion::Answer& answer);

}  // namespace kvloupe::state
