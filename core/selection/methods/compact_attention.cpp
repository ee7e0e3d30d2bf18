// CompactAttention: the block masks of a selector become one block table per KV head, which dense
// paged attention walks without a copy.
//   Mbar[h,j]  = OR over the query blocks I of M[h,I,j]           (those that vote)
//   keep[r,j]  = OR over the query heads h of row r of Mbar[h,j]; a row is a KV head's group if that
//                has at most subgroup_size heads, else subgroup_size consecutive heads of it
//   keep[r,j]  = 1 for all j >= J_cur = floor(P / b): the chunk stays open
// (jiwonsong-dev/CompactAttention, compact_attn/modules/flashprefill_prefill.py.)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/base/error.h"
#include "core/selection/blocks/block_selector.h"

namespace kvloupe::selection {
namespace {

std::unique_ptr<BlockMasker> make_source(const Setup& setup) {
  const std::string& source = setup.spec.text("selector");
  if (source == "flash_prefill") return make_flash_prefill_masker(setup);
  if (source == "xattention") return make_xattention_masker(setup);
  KVLOUPE_CHECK(source == "seer_attention");
  return make_seer_attention_masker(setup);
}

}  // namespace

std::unique_ptr<Selector> make_compact_attention(const Setup& setup) {
  return make_block_selector(setup, make_source(setup));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it
#include "core/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace kvloupe::selection {
namespace {

RowLayout rows_of(const MethodSpec& spec, const ModelShape& shape) {
  const int group = shape.num_q_heads / shape.num_kv_heads;
  const auto subgroup = static_cast<int>(spec.integer("subgroup_size"));
  if (group <= subgroup) return {trace::RowAxis::KvHead, group};
  if (group % subgroup == 0) return {trace::RowAxis::Subgroup, subgroup};
  std::vector<int> divisors;
  for (int i = 1; i <= group; ++i)
    if (group % i == 0) divisors.push_back(i);
  throw input_error(
      fmt::format("compact_attention cannot run on this model with subgroup_size={}", subgroup),
      fmt::format("{} does not divide the {} query heads that share a KV head", subgroup, group),
      fmt::format("use a subgroup_size of {}, or one above {}", fmt::join(divisors, ", "), group));
}

// That of its selector, and the block table.
std::optional<Metadata> metadata(const MethodSpec& spec, const ModelShape& shape) {
  const Method& source = method_named(spec.text("selector"));
  std::optional<Metadata> held = source.metadata ? source.metadata(spec, shape) : Metadata();
  if (held) held->words_per_kept = 1;
  return held;
}

std::vector<ParamInfo> all_params() {
  // A union reads far more than each mask, so the paper is stricter than the selectors are by
  // themselves: alpha 0.06 in place of 0.01, threshold 0.0005 in place of 0.0003.
  struct Source {
    const char* id;
    std::vector<ParamInfo> params;
    std::string stricter = {}, value = {};
  };
  const Source sources[] = {{"flash_prefill", flash_prefill_params(), "alpha", "0.06"},
                            {"xattention", xattention_params()},
                            {"seer_attention", seer_attention_params(), "threshold", "0.0005"}};
  std::vector<std::string> ids;
  for (const Source& source : sources) ids.emplace_back(source.id);
  std::vector<ParamInfo> params = {
      enum_param("selector", ids, "the method whose block masks are united"),
      int_param("subgroup_size", 4, 1, 1 << 16,
                "query heads that share a block table, where a KV head has more")};
  for (const Source& source : sources)
    for (ParamInfo param : source.params) {
      param.only_for = fmt::format("selector={}", source.id);
      if (param.name == source.stricter) param.default_text = source.value;
      params.push_back(std::move(param));
    }
  return params;
}

}  // namespace

void describe_compact_attention(Method& method) {
  method.title = "CompactAttention";
  method.paper_spec = "compact_attention:selector=flash_prefill,subgroup_size=4";
  method.deviation =
      "selector=xattention is an extension of KVLoupe: the paper has FlashPrefill and "
      "SeerAttention only; a block that straddles the chunk's begin counts as current (the code "
      "rounds the past up for FlashPrefill and down for SeerAttention), so chunks may begin "
      "anywhere, where the code falls back to dense attention for some; a group of at most "
      "subgroup_size heads is not cut; last_full_blocks is 0 (the code's scripts use 2, which "
      "takes the prompt's last 256 queries out of the vote), and SeerAttention's last two blocks "
      "of queries are not made dense either";
  method.summary =
      "Unites the blocks that the heads of a group and the queries of a chunk want into one table, "
      "and attends to those blocks in place.";
  method.paper =
      "Song et al.: CompactAttention: accelerating chunked prefill with block-union KV selection, "
      "2026, code at github.com/jiwonsong-dev/CompactAttention";
  method.evidence =
      "the paper's sections on block-union selection and appendix B.1 (sub-groups), repository "
      "jiwonsong-dev/CompactAttention (compact_attn/modules/flashprefill_prefill.py)";
  method.needs = {"q", "k"};
  method.granularity = trace::Granularity::Block;
  method.budget = BudgetUse::None;
  method.active_in_decode = false;
  method.params = all_params();
  method.row_layout = rows_of;
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
    traits.block_tables = true;
  };
  method.metadata = metadata;
}

}  // namespace kvloupe::selection

#endif
