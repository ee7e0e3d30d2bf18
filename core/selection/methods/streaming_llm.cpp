// StreamingLLM: attention sinks at the start and the most recent keys (Xiao et al. 2023).
//   keep {0 .. s-1} and the newest B - s;  B <= s keeps the first B
// `positions` changes what attention computes, not what is kept: with `reassigned` the kept keys
// are rotated to the positions they have inside the cache (reassigned_keys.h).
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/remembers.h"

#include <algorithm>

namespace kvloupe::selection {
namespace {

class StreamingLlm final : public EvictionSelector, public Remembers {
 public:
  using EvictionSelector::EvictionSelector;
  std::unique_ptr<Selector> copy() const override { return std::make_unique<StreamingLlm>(*this); }

 protected:
  Survivors survivors(const Cell&, std::int64_t, const Pool& keys, std::int64_t budget,
                      Reasons*) const override {
    const std::span<const std::int32_t> pool = keys.staying;
    const std::int64_t wanted = spec().integer("sink_tokens");
    // A growing budget (by ratio) may exceed the sinks that are left.
    const std::int64_t sinks =
        budget <= wanted ? budget
                         : std::lower_bound(pool.begin(), pool.end(), wanted) - pool.begin();
    SelectedRow row;
    row.positions.assign(pool.begin(), pool.begin() + sinks);
    row.positions.insert(row.positions.end(), pool.end() - (budget - sinks), pool.end());
    row.forced = row.positions;
    return {std::move(row)};
  }
};

}  // namespace

std::unique_ptr<Selector> make_streaming_llm(const Setup& setup) {
  return std::make_unique<StreamingLlm>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_streaming_llm(Method& method) {
  method.title = "StreamingLLM";
  method.paper_spec = "streaming_llm:budget_tokens=1024,sink_tokens=4,positions=reassigned";
  method.deviation =
      "the chunk is outside the budget, so recents do not shrink to make room for it; "
      "positions=original is the default, where the repository re-assigns them";
  method.summary = "Keeps the first tokens and the most recent ones.";
  method.paper = "Xiao et al. 2023, arXiv 2309.17453";
  method.evidence = "repository mit-han-lab/streaming-llm, kv_cache.py";
  method.needs = {};
  method.state_action = trace::StateAction::Eviction;
  method.params = {
      int_param("sink_tokens", 4, 0, 1 << 20, "first tokens always kept"),
      enum_param("positions", {"original", "reassigned"},
                 "positions that attention sees: of the text, or inside the cache"),
  };
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.reassigns_positions = spec.text("positions") == "reassigned";
  };
}

}  // namespace kvloupe::selection

#endif
