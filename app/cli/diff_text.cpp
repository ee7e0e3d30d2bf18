#include "app/cli/diff_text.h"

#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace kvloupe::cli {

using replay::Diff;
using replay::DiffRow;
using table::Table;

Table layer_means(const Diff& diff) {
  Table table{{"layer",
               {"cells", "cells", "", 0},
               {"differ", "that differ", "", 0},
               {"jaccard", "Jaccard", "", 3},
               {"only_a", "only A", "", 1},
               {"only_b", "only B", "", 1},
               {"mass_a", "mass A", "", 3},
               {"mass_b", "mass B", "", 3}},
              {}};
  for (auto row = diff.rows.begin(); row != diff.rows.end();) {
    const auto end = std::find_if(row, diff.rows.end(),
                                  [&](const DiffRow& other) { return other.layer != row->layer; });
    const int layer = row->layer;
    const auto count = static_cast<double>(end - row);
    std::int64_t differ = 0;
    double jaccard = 0, only_a = 0, only_b = 0, mass_a = 0, mass_b = 0;
    for (; row != end; ++row) {
      differ += row->differs();
      jaccard += row->jaccard() / count;
      only_a += static_cast<double>(row->only_a) / count;
      only_b += static_cast<double>(row->only_b) / count;
      mass_a += row->mass_a / count;
      mass_b += row->mass_b / count;
    }
    table.rows.push_back({layer, count, differ, jaccard, only_a, only_b, mass_a, mass_b});
  }
  return table;
}

namespace {

std::string keys_text(const char* side, std::int64_t count,
                      const std::vector<std::int32_t>& first) {
  if (count == 0) return fmt::format("{} keeps none alone", side);
  return fmt::format("only {} keeps {} key{}, {} {}", side, format_count(count),
                     count == 1 ? "" : "s", count > std::ssize(first) ? "first" : "namely",
                     fmt::join(first, ", "));
}

}  // namespace

std::string divergence_text(const Diff& diff) {
  if (diff.rows.empty()) return "No chunk of A has a token of B.\n";
  const DiffRow* const first = diff.first_divergence();
  if (first == nullptr) return "No divergence: A and B keep the same keys in every cell.\n";
  return fmt::format("First divergence: chunk {}{}, layer {}, {} {}.\nThere {}; {}.\n",
                     first->chunk, diff.two_traces ? fmt::format(" ({} of B)", first->chunk_b) : "",
                     first->layer, replay::words_of_axis(diff.layout.axis), first->row,
                     keys_text("A", first->only_a, first->first_only_a),
                     keys_text("B", first->only_b, first->first_only_b));
}

std::vector<const DiffRow*> most_different(const Diff& diff) {
  constexpr std::size_t kMost = 10;
  std::vector<const DiffRow*> rows = replay::pointers_to(diff.rows);
  std::erase_if(rows, [](const DiffRow* row) { return !row->differs(); });
  std::sort(rows.begin(), rows.end(), [](const DiffRow* x, const DiffRow* y) {
    return std::tuple(x->jaccard(), x->chunk, x->layer, x->row) <
           std::tuple(y->jaccard(), y->chunk, y->layer, y->row);
  });
  rows.resize(std::min(rows.size(), kMost));
  return rows;
}

}  // namespace kvloupe::cli
