// The view trace_info: what the open trace holds.
#pragma once

#include "app/state/question_at.h"

#include <string>
#include <vector>

namespace kvloupe::state {

struct TraceInfoQuestion : OfPlace<At::Trace> {
  static constexpr const char* kName = "trace info";
  static constexpr Lane kLane = Lane::TraceIo;
  struct Fact {
    std::string name, value;
    std::optional<trace::TokenSpan> span{};  // that it tells of
    std::optional<int> run{};                // the same, its id
    std::string words{};                     // the value for who looks; empty: as it is
    std::string quote{};                     // of a span: what it says, its begin
    bool said = false;                       // by the finding, or by a chip above it
  };
  struct Answer {
    std::vector<Fact> facts;
    std::vector<float> chunk_seconds;  // [chunks], NaN where it is not known; empty: nowhere
  };

  std::string title() const { return "Listing what the trace holds"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// "SmolLM2-135M-Instruct read 2,048 tokens in 16 chunks (579 a second in chunk 0, 309 in chunk 15). 7 runs of
// methods are recorded." `seconds`: as in the answer.
std::string trace_finding(const trace::TraceInfo& info, const std::vector<float>& seconds);

}  // namespace kvloupe::state
