// The view layer_head_overview: one number for every layer and head, of a method, of several, or of A
// less B.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/questions/how_it_ran/run.h"
#include "app/state/shown_methods.h"
#include "core/analysis/overview.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// Of SpanKept the keys watched count, of attention alone the chunk.
struct OverviewQuestion : OfMethod<At::Trace> {
  static constexpr const char* kName = "overview";
  static constexpr Pace kPace = Pace::Patient;
  replay::Number asked = replay::Number::MassRecall;
  // Of a method: the mean over those of them that selected (Overview::phase). Attention is of the
  // place's chunk.
  NumberChunks chunks = {};
  struct Answer {
    analysis::Overview overview;
    int q_heads_per_column = 1;
    float highest = 0;  // of the values that are known; 0 where none is
    int num_known = 0, num_dense = 0;
    int above_half = 0;  // values above 0.5
    // As the values, beside recall and the share of a span alone, else empty: what the oracle of as many
    // keys has more. At least 0; NaN where the value is.
    analysis::Matrix gap;
    // Known cells, row-major, the worst first. Where there is a gap they go by it: a head whose attention is
    // diffuse has little recall whatever is kept, and one that does not read the span need not keep it.
    std::vector<std::int32_t> by_worth;
  };

  // What is measured. Recalls, overlap and shares of keys have no meaning for methods that keep every
  // key and cut lanes; for those it is the output error.
  replay::Number number() const;
  bool of_method() const { return analysis::needs_method(number()); }
  bool mean_of_chunks() const { return of_method() && !(chunks.range && chunks.range->is_one()); }
  // The keys that SpanKept is of; empty: it is another number, or nothing is watched.
  std::optional<trace::NamedKeys> watched() const;
  // Those of `chunks` that count (docs/metrics.md): of a span, where none were chosen, from the question on.
  // Empty: all.
  std::vector<int> counted_chunks() const;
  std::string counted_key() const;  // of these chunks
  replay::ReplayResult replayed(const WorkContext& context) const;

  std::string key() const;
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// A less B, by layer and head, in the finer of their two layouts, over the cells in which both choose. The
// answer's values are the differences; `by_worth` begins with those in which A is worst against B.
struct OverviewDifferenceQuestion {
  static constexpr const char* kName = "overview difference";
  static constexpr Pace kPace = Pace::Patient;
  OverviewQuestion a, b;
  struct Answer {
    OverviewQuestion::Answer less;
    int a_better = 0, b_better = 0;  // heads; where no direction is better: higher
    std::vector<float> of_a, of_b;   // as less.overview.values
  };

  const Place& asked_at() const { return a.place; }
  std::string key() const { return key_of_members(a.key(), b); }
  std::string title() const { return a.title(); }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};
OverviewDifferenceQuestion::Answer difference_of(const OverviewQuestion::Answer& a,
                                                 const OverviewQuestion::Answer& b);

// What a column of the values stands for.
const char* head_word(const OverviewQuestion::Answer& answer);

// The cell that the finding names; of a watched span none where no head loses what the oracle keeps of it.
std::optional<std::int32_t> framed_cell(const OverviewQuestion& question,
                                        const OverviewQuestion::Answer& answer);

// What is to be seen, in a sentence: where the number is worst, or how many heads keep the span. Empty where
// no head has a number.
std::string overview_finding(const OverviewQuestion& question,
                             const OverviewQuestion::Answer& answer);
// Of A and B: their means over the heads that both know, and who is better in how many.
std::string overview_finding(const OverviewDifferenceQuestion& question,
                             const OverviewDifferenceQuestion::Answer& answer);

// The ends of the colours. Shares and r have fixed ends; an open end grows with the largest value
// seen of one number in one trace and never shrinks, so that one colour means one number while the
// chunks play and A and B are flipped.
class OverviewScale {
 public:
  struct Range {
    double low = 0, high = 1;
  };
  Range of(const OverviewQuestion& question, const OverviewQuestion::Answer& answer);
  // Of A less B: 0 is in the middle.
  Range of(const OverviewDifferenceQuestion& question,
           const OverviewDifferenceQuestion::Answer& answer);

 private:
  double grown(const std::string& content, double highest);

  std::map<std::string, double> highest_;  // by number and trace
};

// What the view asks now, by the workspace's place and options, of the method shown or of another.
class Workspace;
OverviewQuestion overview_question(const Workspace& workspace);
OverviewQuestion overview_question(const Workspace& workspace, const MethodChoice& method);
// At another place, of another trace too.
OverviewQuestion overview_question(const Workspace& workspace, const Drawn& one);
// What it draws of methods and traces.
AllDrawn overview_drawn(Workspace& workspace);
OverviewDifferenceQuestion overview_difference_question(const Workspace& workspace);
// What the view's option says; a number of attention alone is the same for all methods: One, or two
// traces.
Show overview_show(const Workspace& workspace);

}  // namespace kvloupe::state
