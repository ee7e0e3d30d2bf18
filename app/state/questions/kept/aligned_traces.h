// Which tokens of two traces are the same ones, and so which keys, positions and chunks: a longest common
// subsequence of the prompts.
#pragma once

#include "app/state/answers.h"
#include "app/state/open_trace.h"
#include "core/replay/diff.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

enum class Side { Begin, End };  // of a range

struct AlignedTracesQuestion {
  static constexpr const char* kName = "aligned traces";
  static constexpr Lane kLane = Lane::TraceIo;
  TracePtr a, b;

  class Answer {
   public:
    Answer() = default;
    Answer(replay::KeyPairs pairs, const std::vector<trace::ChunkInfo>& of_a,
           const std::vector<trace::ChunkInfo>& of_b);

    const replay::KeyPairs& keys() const { return keys_; }
    bool same_prompt() const { return same_prompt_; }
    double length_a() const { return corners_.back().a; }
    double length_b() const { return corners_.back().b; }
    // The chunk that holds most of its tokens; -1: none of them is there, or there is no such chunk.
    int chunk_in_b(int chunk) const { return partner(chunks_in_b_, chunk); }
    int chunk_in_a(int chunk) const { return partner(chunks_in_a_, chunk); }
    // A place between tokens, for axes that move together; never falling. What stands in one prompt alone
    // has no extent in the other.
    double in_b(double position, Side side) const;
    double in_a(double position, Side side) const;

   private:
    // Where a run of same tokens begins or ends, and the ends of the prompts.
    struct Corner {
      double a = 0, b = 0;
    };
    replay::KeyPairs keys_;
    bool same_prompt_ = false;
    std::vector<int> chunks_in_b_, chunks_in_a_;
    std::vector<Corner> corners_;  // ascending in both
    double moved(double position, Side side, double Corner::*from, double Corner::*to) const;
    static int partner(const std::vector<int>& chunks, int chunk) {
      return chunk >= 0 && chunk < std::ssize(chunks) ? chunks[static_cast<std::size_t>(chunk)]
                                                      : -1;
    }
  };

  std::string key() const { return a->key() + "|" + b->key(); }
  std::string title() const { return "Matching the tokens of two traces"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};
using AlignedTraces = AlignedTracesQuestion::Answer;

}  // namespace kvloupe::state
