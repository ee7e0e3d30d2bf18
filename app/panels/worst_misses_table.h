// The two lists of the view worst_misses: lost keys and regrets, sorted and filtered.
#pragma once

#include "app/panels/view_frame.h"
#include "app/state/questions/why_lost/worst_misses.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::panels {

// Combo boxes that choose which lines are shown; they fall back to all where what was chosen is not
// there any more.
class MissFilterBar {
 public:
  void draw(DrawContext& context, const state::Result<state::WorstMissesQuestion>& result,
            bool causes);
  const state::MissFilter& filter() const { return filter_; }
  // Differs where the filter does.
  std::string key() const;

 private:
  state::MissFilter filter_;
  std::string content_;  // that it was chosen for
};

// One list. A click on a line goes there.
template <typename Line>
class MissTable {
 public:
  void draw(DrawContext& context, const state::Result<state::WorstMissesQuestion>& result,
            const std::vector<Line>& lines, const std::vector<state::MissColumn<Line>>& columns,
            int first_column, const state::MissFilter& filter, const std::string& filter_key);

 private:
  void sort(const state::Result<state::WorstMissesQuestion>& result, const std::vector<Line>& lines,
            const std::vector<state::MissColumn<Line>>& columns, const state::MissFilter& filter,
            const std::string& filter_key);

  std::vector<std::int32_t> order_;
  std::string content_;  // that was sorted
  std::size_t num_lines_ = 0;
  int column_ = 0;
  bool falling_ = true;
};

extern template class MissTable<replay::LostKey>;
extern template class MissTable<replay::Regret>;

}  // namespace kvloupe::panels
