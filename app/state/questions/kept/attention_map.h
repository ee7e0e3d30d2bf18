// The view attention_map: where one query head attends, as a whole and exactly for one chunk.
#pragma once

#include "app/state/question_at.h"
#include "core/analysis/attention_map.h"

#include <cstdint>
#include <memory>
#include <string>

namespace kvloupe::state {

// The attention of the chunk's queries, exact: [chunk length, keys up to its end], NaN above the
// diagonal.
struct AttentionRowsQuestion : OfPlace<At::Cell> {
  static constexpr const char* kName = "attention rows";
  using Answer = analysis::Matrix;

  std::string title() const { return "Recomputing the chunk's attention"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer.values); }
};

// The same, ready to be drawn at any zoom.
struct AttentionStripQuestion : OfPlace<At::Cell> {
  static constexpr const char* kName = "attention strip";
  struct Answer {
    std::shared_ptr<const analysis::Matrix> rows;
    std::int32_t query_begin = 0;  // of the first row
    std::int64_t num_broken = 0;   // of the rows' visible values: NaN
    // Of very large ones only, else empty: the largest of `step` keys side by side.
    analysis::Matrix coarse;
    std::int64_t step = 1;
  };

  std::string title() const { return AttentionRowsQuestion{place}.title(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.rows->values, answer.coarse.values);
  }
};

// The attention of one query, for a tooltip: [1, query + 1].
struct AttentionRowQuestion : OfPlace<At::Head | At::Query> {
  static constexpr const char* kName = "attention row";
  using Answer = analysis::Matrix;

  std::string title() const { return "Recomputing one query"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer.values); }
};

// The whole map of the head, reduced to a picture's size.
struct AttentionMapQuestion : OfPlace<At::Head> {
  static constexpr const char* kName = "attention map";
  static constexpr Pace kPace = Pace::Patient;
  using Answer = analysis::AttentionMap;

  std::string title() const { return "Reducing the whole attention map"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.max.values, answer.mean.values);
  }
};

// The largest of `step` columns side by side that the query of the row can see; a NaN where one of
// them is, and where it sees none.
analysis::Matrix largest_of_columns(const analysis::Matrix& matrix, std::int64_t step,
                                    std::int32_t query_begin);

}  // namespace kvloupe::state
