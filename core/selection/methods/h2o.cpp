// H2O: heavy hitters, the keys that received most attention so far, and the most recent ones
// (Zhang et al. 2023).
//   acc[g,j] += sum over the chunk's rows t of mean over the group's heads h of p_{A+chunk}[h,t,j]
//   recents   = the newest floor(B * recent_ratio) of alive + chunk
//   heavy     = the best B - recents of the rest, by acc[g,j], or by acc[g,j] / (T - j)
// p is computed anew over the surviving set and the chunk; an evicted key takes its sum with it.
// start=decode: sums and evictions begin with the first decode chunk; the prompt stays whole until then.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/eviction/eviction_selector.h"
#include "core/selection/eviction/heavy_hitters.h"
#include "core/selection/remembers.h"

namespace kvloupe::selection {
namespace {

class H2o final : public EvictionSelector, public Remembers {
 public:
  explicit H2o(const MethodSpec& spec)
      : EvictionSelector(spec),
        hitters_(spec.real("recent_ratio"), spec.text("normalise") == "by_age") {}
  std::unique_ptr<Selector> copy() const override { return std::make_unique<H2o>(*this); }

 protected:
  void observe(const Cell& cell, const Pools& pools) override { hitters_.observe(cell, pools); }

  Survivors survivors(const Cell& cell, std::int64_t kv_head, const Pool& pool, std::int64_t budget,
                      Reasons* reasons) const override {
    return {hitters_.survivors(cell, kv_head, pool.staying, budget,
                               reasons != nullptr ? &reasons->scores : nullptr)};
  }

  bool begins_in_decode() const override { return spec().text("start") == "decode"; }

 private:
  HeavyHitters hitters_;
};

}  // namespace

std::unique_ptr<Selector> make_h2o(const Setup& setup) { return std::make_unique<H2o>(setup.spec); }

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_h2o(Method& method) {
  method.title = "H2O";
  method.paper_spec = "h2o:budget_tokens=1024,recent_ratio=0.5";
  method.deviation =
      "evicts after every chunk of the prompt; scores are the mean over the query heads of a "
      "group, where the repository knows no shared KV heads; the budget is one number split by "
      "recent_ratio; by_age is an addition; start=decode is the H2O of Quest's comparison, which "
      "collects scores in decoding alone, and not the paper's";
  method.summary = "Keeps the keys that were attended to most so far, and the most recent ones.";
  method.paper = "Zhang et al. 2023, arXiv 2306.14048";
  method.evidence =
      "repository FMInference/H2O, utils_real_drop (real eviction; not the mask simulations "
      "utils_hh and utils_lm_eval)";
  method.needs = {"q", "k"};
  method.state_action = trace::StateAction::Eviction;
  method.params = {
      float_param("recent_ratio", 0.5, 0, 1, "share of the budget that the newest keys get"),
      enum_param("normalise", {"none", "by_age"},
                 "by_age divides a key's attention by the number of queries that have seen it"),
      enum_param("start", {"prefill", "decode"},
                 "the first chunk whose attention counts and after which keys are evicted; decode: "
                 "the whole prompt is kept, and attended to, until the first decoded token"),
  };
  method.metadata = [](const MethodSpec&, const ModelShape&) {
    return Metadata{.words_per_kept = 1};
  };
}

}  // namespace kvloupe::selection

#endif
