// Base of the methods that evict: the set alive per layer and KV head, which a chunk attends to and
// which is cut down after the chunk. An evicted key never returns.
#pragma once

#include "core/selection/lanes/lanes.h"
#include "core/selection/operators/operators.h"
#include "core/selection/selector.h"

#include <map>
#include <span>
#include <vector>

namespace kvloupe::selection {

class EvictionSelector : public Selector {
 public:
  explicit EvictionSelector(MethodSpec spec) : spec_(std::move(spec)) {}
  CellSelection select(const Cell& cell) final;
  std::vector<std::vector<std::int32_t>> evict(const Cell& cell) final;
  std::vector<std::vector<std::int32_t>> alive(int layer) const final;
  std::vector<RowEvidence> evidence(const Cell& cell) final;
  void keep_evidence() final { keeps_evidence_ = true; }

 protected:
  // Keys at hand after a chunk, per KV head: positions alive before it, then the chunk's, ascending.
  using Pools = std::vector<std::vector<std::int32_t>>;

  // Once for each cell in which the method may evict, before it does, whether or not anything will
  // die: for tallies over all chunks and for what all heads share.
  virtual void observe(const Cell& cell, const Pools& pools);
  // Keys at hand after a chunk in one KV head, ascending. All but the first of them stay where a
  // layer's window has moved on.
  struct Pool {
    std::span<const std::int32_t> at_hand;  // what the chunk's queries attended to
    std::span<const std::int32_t> staying;  // its end: what the next query may see
  };
  // What speaks for each key of pool.staying.
  struct Reasons {
    std::vector<float> scores;        // NaN: nothing does; empty: positions alone decide
    std::vector<std::uint8_t> first;  // kept before scores count; empty: those that are forced
  };
  struct Survivors {
    SelectedRow row;  // positions that are known at once, and the forced ones
    KeptRows kept =
        {};  // those before them, as one row of indices into pool.staying; undefined: none
  };
  // What survives of pool.staying, which holds more than `budget` keys. `reasons` is null unless they
  // are asked for. May be called from several threads, after observe().
  virtual Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& pool,
                              std::int64_t budget, Reasons* reasons) const = 0;
  // Keys that may be alive of `num_tokens` seen and still inside the window; the default is the
  // SPEC's budget.
  virtual std::int64_t capacity(std::int64_t num_tokens) const;
  // Whether the first decode chunk is the first that counts and after which keys die; until then all
  // are kept by rule.
  virtual bool begins_in_decode() const { return false; }
  // Methods that prune lanes as well.
  virtual std::optional<PrunedLanes> lanes(const Cell& cell);
  // The capacity after the cell's chunk.
  std::int64_t budget_after(const Cell& cell) const {
    return capacity(cell.kv_len() - cell.softmax.first_visible(cell.kv_len()));
  }
  const MethodSpec& spec() const { return spec_; }

 private:
  // Nothing is tallied and nothing dies after the cell's chunk.
  bool rests(const Cell& cell) const;
  // Those of all heads, for which a device is waited for once.
  static std::vector<SelectedRow> rows_of_all(std::vector<Survivors> survivors,
                                              const std::vector<Pool>& pools);

  struct LayerState {
    std::int64_t num_tokens = 0;    // seen so far
    bool begun = false;             // a chunk has come after which keys may die
    std::vector<SelectedRow> rows;  // alive, as the eviction left them that made the set
    std::vector<RowEvidence>
        evidence;  // per KV head, of the last evict(); no units where nothing was cut
  };

  MethodSpec spec_;
  std::map<int, LayerState> layers_;
  bool keeps_evidence_ = false;
};

// For survivors(): the members of `pool` that `indices` (ascending) point at.
std::vector<std::int32_t> members_at(std::span<const std::int32_t> pool,
                                     const std::vector<std::int32_t>& indices);

}  // namespace kvloupe::selection
