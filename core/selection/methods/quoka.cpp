// QuoKA (query-oriented KV selection for chunked prefill, arXiv 2602.08722), Algorithm 1:
//   S_q[h,i]  = -cos(mean_i Q[h,i], Q[h,i])      queries far from the mean matter most
//   I[h]      = the num_queries rows of largest S_q, by rank; with query_ratio max(1,
//               floor(query_ratio m)) of the chunk's m
//   Qbar[g,r] = mean over the group's heads h of Q[h, I[h][r]] / |Q[h, I[h][r]]|, not renormalised
//   S[g,j]    = max over r of <Qbar[g,r], K[g,j] / |K[g,j]|>
//   keep the best B of [0, P), one set per KV head
// group_query_mode: which rows the heads of a group pair up. rank_paired pairs rows of equal rank;
// shared_tokens ranks once, by the group's mean S_q; post_agg reduces over each head's own rows
// before the mean over heads.
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/base/rounded_down.h"
#include "core/selection/cell_rows.h"
#include "core/selection/slot_selector.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace kvloupe::selection {
namespace {

class Quoka final : public SlotSelector {
 public:
  using SlotSelector::SlotSelector;

 protected:
  SlotScoring slots_of(const Cell& cell) override {
    SlotScoring slots{choose_queries(cell), {}};
    slots.form.metric = spec().text("metric") == "dot" ? KeyMetric::Dot : KeyMetric::Cosine;
    slots.form.query_reduce =
        spec().text("query_reduce") == "mean" ? QueryReduce::Mean : QueryReduce::Max;
    slots.form.group_reduce = spec().text("group_query_mode") == "post_agg"
                                  ? GroupReduce::ScoresFirst
                                  : GroupReduce::RowsFirst;
    return slots;
  }

 private:
  std::int64_t num_queries(std::int64_t chunk_len) const {
    const double ratio = spec().real("query_ratio");
    if (ratio == 0) return spec().integer("num_queries");
    const double share = rounded_down(ratio * static_cast<double>(chunk_len));
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(share));
  }

  // I, slot by slot: int32 [num_q_heads, slots].
  at::Tensor choose_queries(const Cell& cell) const {
    const std::int64_t count = num_queries(cell.chunk_len);
    if (count >= cell.chunk_len)
      return on_device(in_every_head(cell, all_rows(cell)), cell.q.device());
    const at::Tensor relevance = query_relevance(cell.q);
    if (spec().text("group_query_mode") != "shared_tokens") return ranked_rows(relevance, count);
    const std::int64_t group = cell.gqa_group_size();
    const at::Tensor mean = relevance.view({-1, group, cell.chunk_len}).mean(1);
    return ranked_rows(mean, count).repeat_interleave(group, 0);
  }
};

}  // namespace

std::unique_ptr<Selector> make_quoka(const Setup& setup) {
  return std::make_unique<Quoka>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

#include <fmt/format.h>

namespace kvloupe::selection {

void describe_quoka(Method& method) {
  method.title = "QuoKA";
  method.paper_spec = "quoka:budget_tokens=1024,num_queries=16";
  method.deviation =
      "the texts have different budget scopes: the repository CompactAttention chooses among past "
      "keys "
      "and leaves the chunk's own outside the budget (budget_scope=past, the default), a summary "
      "of "
      "the paper has all keys of the cache compete, the chunk's included (budget_scope=all, where "
      "each query also sees its own key here), and the paper itself leaves it open; heads of a "
      "group pair "
      "their chosen queries by rank, where the repository leaves their order open; a chunk of at "
      "most num_queries rows is used whole, row by row";
  method.summary = "Keeps the keys closest to the chunk's most unusual queries.";
  method.paper =
      "Jones, Park, Morse, Lee, Lott, Langston: QuoKA: query-oriented KV selection for efficient "
      "LLM "
      "prefill, 2026, arXiv 2602.08722";
  method.evidence =
      "Algorithm 1; slot pairing and past-only candidates as in the repository CompactAttention";
  method.needs = {"q", "k"};
  method.accepts_scope_all = true;
  ParamInfo query_ratio = float_param(
      "query_ratio", 0, 0, 1,
      "chosen query rows as a share of the chunk's, at least 1, in place of num_queries; 0 when "
      "unused, 0.25 in the repository CompactAttention");
  query_ratio.named_when_set = true;
  method.params = {
      int_param("num_queries", 16, 1, 1 << 20, "query rows of the chunk that represent it"),
      enum_param("metric", {"cosine", "dot"},
                 "similarity of query and key; queries are ranked by cosine in any case"),
      enum_param("query_reduce", {"max", "mean"}, "over the chosen queries"),
      enum_param("group_query_mode", {"rank_paired", "shared_tokens", "post_agg"},
                 "how the query heads of a group are brought together"),
      enum_param("decode", {"select", "dense"}, "what a decoded token does"),
      query_ratio,
  };
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.acts_in_decode = spec.text("decode") == "select";
    traits.samples_rows = true;
    traits.has_slots = true;
    traits.approximates = spec.text("metric") == "cosine";
  };
  method.ablated = [](Ablation ablation, std::int64_t chunk_len,
                      int) -> std::optional<ParamValues> {
    if (ablation == Ablation::ExactLogits) return ParamValues{{"metric", "dot"}};
    return ParamValues{{"num_queries", fmt::format("{}", chunk_len)}, {"query_ratio", "0"}};
  };
}

}  // namespace kvloupe::selection

#endif
