// The scores of one chunk of a layer, kept for methods that differ in their budget alone: a sweep over
// budgets finds them once.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>

namespace kvloupe::selection {

class ScoreMemo {
 public:
  using Scores = at::Tensor;
  // What `find` finds, or found for this chunk and method before. Chunks come one after the other;
  // those of the one before are forgotten. `method` is all that the scores depend on beside the cell.
  const Scores& get(int chunk, const std::string& method, const std::function<Scores()>& find) {
    if (chunk != chunk_) scores_.clear();
    chunk_ = chunk;
    const auto known = scores_.find(method);
    return known != scores_.end() ? known->second : scores_.emplace(method, find()).first->second;
  }

 private:
  int chunk_ = -1;
  std::map<std::string, Scores> scores_;
};

}  // namespace kvloupe::selection
