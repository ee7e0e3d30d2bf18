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

// The same, ready to be drawn at any zoom. A sketch of a large one is there sooner: of most keys every
// eighth query is asked.
struct AttentionStripQuestion : OfPlace<At::Cell> {
  static constexpr const char* kName = "attention strip";
  bool is_sketch = false;
  struct Answer {
    std::int32_t query_begin = 0;  // of the first row
    std::int64_t num_broken = 0;   // of the rows' visible values: NaN
    // The rows as they are, or of very many values the largest of `step` keys side by side; the other one
    // is empty. Who looks closer then asks for the rows themselves.
    std::shared_ptr<const analysis::Matrix> rows;
    analysis::Matrix coarse;
    std::int64_t step = 1;
  };

  bool is_large() const;  // more than is drawn as it is
  std::string key() const { return key_of_members(OfPlace::key(), is_sketch); }
  std::string title() const { return AttentionRowsQuestion{place}.title(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.coarse.values) + (answer.rows ? bytes_in(answer.rows->values) : 0);
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

}  // namespace kvloupe::state
