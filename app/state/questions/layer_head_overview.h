// The view layer_head_overview: one number for every layer and head.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/questions/run.h"
#include "core/analysis/overview.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct OverviewQuestion {
  static constexpr const char* kName = "overview";
  static constexpr Pace kPace = Pace::Patient;
  Place place;  // trace, chunk; of SpanKept the keys watched
  MethodChoice method;
  replay::Number asked = replay::Number::MassRecall;
  // Of a method: the mean over those of them that selected (Overview::phase). Attention is of the
  // place's chunk.
  NumberChunks chunks = {};
  struct Answer {
    analysis::Overview overview;
    int q_heads_per_column = 1;
    float highest = 0;  // of the values that are known; 0 where none is
    int num_known = 0, num_dense = 0;
    int above_half = 0;    // values above 0.5
    analysis::Matrix gap;  // as the values; only beside recall, else empty
    // Known cells, row-major, the worst first. Recall goes by its gap: a head whose attention is
    // diffuse has little recall whatever is kept.
    std::vector<std::int32_t> by_worth;
  };

  // What is measured. Recalls, overlap and shares of keys have no meaning for methods that keep every
  // key and cut lanes; for those it is the output error.
  replay::Number number() const;
  bool of_method() const { return analysis::needs_method(number()); }
  bool mean_of_chunks() const { return of_method() && !(chunks.range && chunks.range->is_one()); }
  // The keys that SpanKept is of; empty: it is another number, or nothing is watched.
  std::optional<trace::TokenSpan> watched() const;

  std::string key() const;
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// The ends of the colours. Shares and r have fixed ends; an open end grows with the largest value
// seen of one trace and method and never shrinks, so that one colour means one number while the
// chunks play.
class OverviewScale {
 public:
  struct Range {
    double low = 0, high = 1;
  };
  Range of(const OverviewQuestion& question, const OverviewQuestion::Answer& answer);

 private:
  std::string content_;
  double highest_ = 0;
};

// What the view asks now, by the workspace's place, method and options.
class Workspace;
OverviewQuestion overview_question(const Workspace& workspace);

}  // namespace kvloupe::state
