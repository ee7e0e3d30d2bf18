// What a method does to keys, as far as anyone else must know it: replay, recorder, latency, views.
// The method's own file declares it (Method::traits), so that nobody reads a property off the name
// of a parameter or of a method. Torch-free.
#pragma once

#include "core/trace/basis_file.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kvloupe::selection {

class MethodSpec;

// Which query heads a row of a selection speaks for.
struct RowLayout {
  trace::RowAxis axis = trace::RowAxis::KvHead;
  int q_heads_per_row = 1;
};

// The directions that queries and keys are rotated by.
struct BasisTrait {
  trace::BasisKind kind = trace::BasisKind::Loki;
  std::string where = "auto";  // "auto": calibrated; "self": fitted on the trace; or a file

  bool is_auto() const { return where == "auto"; }
  bool is_self() const { return where == "self"; }
};

// Lanes that a method leaves out of the dot product.
struct LaneTrait {
  double kept = 1;       // share of the stored lanes that enters each product
  double sliced = 0;     // share of a key's lanes that is never stored
  bool leading = false;  // the same leading lanes for all queries, not each query's strongest
  // A value is stored with as few lanes as a key, in a basis of the values' own.
  bool slices_values = false;

  // Share of a key's lanes that enters each product: AQUA's E_ratio.
  double effective_ratio() const { return (1 - sliced) * kept; }
};

// What a method must hold of one KV head and layer, beside the K and V that it keeps, so that it can
// choose. Not what a chunk computes and drops.
struct Metadata {
  std::int64_t lanes_per_key =
      0;  // numbers of the cache's precision for each past key: copies of K
  std::int64_t lanes_per_page = 0;  // for each page or block of past keys: bounds, means
  std::int64_t lanes = 0;           // once: the directions of a basis
  std::int64_t words_per_kept = 0;  // of 4 bytes, for each page kept, or key: tallies, tables, sets
};

struct Traits {
  trace::StateAction state_action = trace::StateAction::Visibility;
  trace::Granularity granularity = trace::Granularity::Token;
  std::int64_t page_size = 0;  // tokens of a page or block; 0: it selects single keys
  bool block_tables = false;   // its rows are the block tables that paged attention walks
  // Block methods run as their own kernels run: each query block of each query head reads the blocks
  // of its own mask, those of the chunk included. Rows are query heads.
  bool native_masks = false;
  // Page methods: the page of the newest key that is seen is kept, whatever it scores.
  bool forces_last_page = false;
  // Page methods: a prompt's chunk is judged by its past alone, not key by key up to each query.
  bool prefill_sees_past_only = false;
  std::optional<LaneTrait> lanes;   // set: it prunes lanes, in every cell
  std::optional<BasisTrait> basis;  // set: it cannot do without one
  bool acts_in_decode = true;       // else a decoded token attends to all keys left and evicts none
  // Eviction: the first decode chunk is the first after which keys die; until then all are kept by rule.
  bool begins_in_decode = false;
  bool needs_probe = false;  // the probe queries and novelty that only some captures record
  // A few rows of a chunk stand for the others: Selector::sampled_rows() says which.
  bool samples_rows = false;
  // Keys are scored against those rows, one slot of each head at a time: Selector::slots().
  bool has_slots = false;
  // Keys are scored by something else than logits where logits could be had (Ablation::ExactLogits).
  bool approximates = false;
  // A row that speaks for several query heads has what any of them keeps: no score of theirs is merged.
  bool unites_heads = false;
  // Eviction: the rows of a layer are not chosen each by itself.
  bool decides_by_layer = false;
  // A larger budget keeps all that a smaller one does.
  bool grows_with_budget = true;
  // Attention sees the kept keys at the positions they have inside the cache (reassigned_keys.h).
  bool reassigns_positions = false;
  // Share of all tokens seen that stays cached, where the method counts by a share of its own; 0:
  // the SPEC's budget counts.
  double cache_share = 0;
  int dense_layers = 0;  // the model's first ones, in which it does not choose

  bool evicts() const { return state_action == trace::StateAction::Eviction; }
  // In every cell: it prunes lanes and nothing else.
  bool keeps_every_key() const { return lanes && !evicts(); }
  // The page with past keys that a page method keeps by rule at a step that begins at past_len; none
  // where the last page holds nothing but the step's own keys.
  std::optional<std::int64_t> forced_page(std::int64_t past_len, trace::Phase phase) const;
};

// One thing changed about a selection, to see whether that is what lost a key (docs/explain.md).
enum class Ablation {
  None,
  AllRows,      // all rows of the chunk in place of those that samples_rows speaks of
  ExactLogits,  // in place of a cosine, of a few channels or directions
  HeadsApart,   // block methods: each query head has a row of its own
};

// Those of a SPEC. MethodSpec::traits() has them at hand.
Traits traits_of(const MethodSpec& spec);

}  // namespace kvloupe::selection
