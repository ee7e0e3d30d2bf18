// Random: B distinct candidates, uniform without replacement, independent for every (seed, layer,
// KV head, chunk). Counter-based, so any cell can be redone alone and on any device:
//   Philox 4x32-10, key = seed, counter = (position, chunk, layer, KV head); the keys with the
//   largest 64-bit words are kept.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/visibility_selector.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvloupe::selection {
namespace {

// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". The first 64 bits.
std::uint64_t philox(std::array<std::uint32_t, 4> counter, std::uint64_t seed) {
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return std::uint64_t{counter[0]} << 32 | counter[1];
}

class Random final : public VisibilitySelector {
 public:
  using VisibilitySelector::VisibilitySelector;

 protected:
  std::vector<SelectedRow> choose(const Cell& cell, std::int64_t num_candidates,
                                  std::int64_t budget) override {
    std::vector<SelectedRow> rows(static_cast<std::size_t>(cell.num_kv_heads()));
    for (std::size_t head = 0; head < rows.size(); ++head) {
      std::vector<Draw> draws = draws_of(cell, head, num_candidates);
      std::nth_element(draws.begin(), draws.begin() + budget, draws.end(), std::greater<>());
      for (std::int64_t i = 0; i < budget; ++i) rows[head].positions.push_back(draws[i].second);
      std::sort(rows[head].positions.begin(), rows[head].positions.end());
    }
    return rows;
  }

  std::vector<RowEvidence> evidence_of(const Cell& cell, std::int64_t num_candidates,
                                       std::int64_t budget) override {
    std::vector<RowEvidence> rows;
    for (std::int64_t head = 0; head < cell.num_kv_heads(); ++head) {
      RowEvidence& row = rows.emplace_back();
      for (const auto& [word, position] : draws_of(cell, head, num_candidates)) {
        row.begin.push_back(position);
        row.scores.push_back(static_cast<double>(word));
      }
      row.num_kept = budget;
    }
    return rows;
  }

 private:
  using Draw = std::pair<std::uint64_t, std::int32_t>;  // the word of a position

  std::vector<Draw> draws_of(const Cell& cell, std::size_t kv_head,
                             std::int64_t num_candidates) const {
    const auto seed = static_cast<std::uint64_t>(spec().integer("seed"));
    std::vector<Draw> draws;
    for (std::int64_t position = 0; position < num_candidates; ++position)
      draws.emplace_back(
          philox({static_cast<std::uint32_t>(cell.first_key + position),
                  static_cast<std::uint32_t>(cell.chunk), static_cast<std::uint32_t>(cell.layer),
                  static_cast<std::uint32_t>(kv_head)},
                 seed),
          static_cast<std::int32_t>(position));
    return draws;
  }
};

}  // namespace

std::unique_ptr<Selector> make_random(const Setup& setup) {
  return std::make_unique<Random>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_random(Method& method) {
  method.title = "Random";
  method.paper_spec = "random:budget_tokens=1024";
  method.summary = "Keeps keys drawn by lot: what any method must beat.";
  method.paper = "reference, no paper";
  method.evidence = "uniform without replacement, Philox 4x32-10";
  method.accepts_scope_all = true;
  method.params = {int_param("seed", 0, 0, (std::int64_t{1} << 53) - 1,
                             "of the draws; every layer, KV head and chunk draws anew")};
}

}  // namespace kvloupe::selection

#endif
