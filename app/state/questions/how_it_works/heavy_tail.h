// The view heavy_tail: how few queries and keys carry a head's attention, and the chunk's rows of
// the attention map by S_q.
#pragma once

#include "app/state/questions/kept/attention_map.h"
#include "core/analysis/heavy_tail.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

struct HeavyTailQuestion : OfPlace<At::Cell> {
  static constexpr const char* kName = "heavy tail";
  // What falls with rank.
  struct Curve {
    analysis::Ranking ranking;
    // (rank from 1, height) of a line on log axes: of each of the first ranks, then of ever fewer.
    std::vector<std::pair<double, double>> line;
    std::optional<analysis::PowerTail> tail;  // of the heights
  };
  // Shares of the mass: heights sum to 1, or there is no line where there is no mass.
  struct Shares : Curve {
    double total = 0;
    std::int64_t half = 0;  // how many hold half of it

    double share(double mass) const { return mass / total; }
    double height(std::size_t rank) const { return share(ranking.value[rank]); }
  };
  struct Answer {
    std::shared_ptr<const analysis::Matrix> rows;
    std::shared_ptr<const AttentionStripQuestion::Answer> map;  // the same, as it is drawn
    analysis::HeavyTail spread;
    Curve relevance;  // items: rows of the chunk; heights 1 + S_q, the cosine distance to the mean
    Shares queries;   // items: rows of the chunk
    Shares keys;      // items: keys less one, for position 0 is left out
    double sink_share = 0;     // of the mass on all past keys, what position 0 holds
    double quarter_share = 0;  // of the mass, what the quarter of the rows with largest S_q gives
    std::int64_t quarter = 0;  // rows in it
    // Of the keys that hold half of the mass, how many are among as many of the largest score by any
    // query, and of the largest mean score; nothing in a chunk of one query.
    std::optional<std::int64_t> found_by_largest, found_by_mean;

    std::int64_t num_queries() const { return static_cast<std::int64_t>(queries.ranking.size()); }
    std::int64_t num_keys() const { return static_cast<std::int64_t>(keys.ranking.size()); }
    bool has_mass() const { return keys.total > 0; }
  };

  std::string title() const { return "Ranking queries and keys by their attention"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// The chunk's rows from the top of the picture, for a choice of the option `order`; null: as they
// come.
const std::vector<std::int32_t>* row_order(const HeavyTailQuestion::Answer& answer,
                                           const std::string& order);

}  // namespace kvloupe::state
