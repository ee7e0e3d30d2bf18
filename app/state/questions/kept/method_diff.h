// The view method_diff: in which layers and chunks A and B keep other keys.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/matrix.h"
#include "core/replay/diff.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

struct MethodDiffQuestion : OfTwoMethods<At::Trace> {
  static constexpr const char* kName = "method diff";
  static constexpr Pace kPace = Pace::Patient;
  TracePtr other = {};  // that B is of; null: both are of the place's

  // A layer and chunk, over its rows.
  struct Cell {
    int layer = 0, chunk = 0, chunk_b = 0;
    std::int64_t both = 0, only_a = 0, only_b = 0;  // sums
    double jaccard = 0, mass_a = 0, mass_b = 0;     // means
  };
  struct Answer {
    replay::Diff diff;
    std::vector<int> layers, chunks;  // of the cells
    std::vector<Cell> cells;          // by layer and chunk
    analysis::Matrix jaccard;         // [layers, chunks], means of the rows
    std::vector<std::int32_t>
        by_jaccard;         // indices into `cells` of those that differ, lowest first
    std::int64_t same = 0;  // cells in which every row keeps the same keys

    const Cell& at(std::size_t layer, std::size_t chunk) const {
      return cells[layer * chunks.size() + chunk];
    }
  };

  // Where B is: the place itself, or the other trace.
  Place place_b() const;
  std::string key() const { return OfTwoMethods::key() + "|" + (other ? other->key() : ""); }
  std::string title() const { return "Comparing what A and B keep"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

class Workspace;
// What the view compares now. Where it asks for another trace and none can be compared, `why` says why.
MethodDiffQuestion method_diff_question(const Workspace& workspace, std::string& why);
// "chunk 2, layer 0, KV head 1: only A keeps 31 keys, only B 31"; empty: they keep the same everywhere.
std::string words_of_divergence(const replay::Diff& diff);

}  // namespace kvloupe::state
