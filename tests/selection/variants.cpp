#include "tests/selection/variants.h"

#include "core/selection/spec/method_spec.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::selection::testing {
namespace {

// Values of one parameter that are worth a test in sequences of some 60 tokens.
std::vector<std::string> values_of(const ParamInfo& param) {
  if (param.type == ParamType::Enum) return param.choices;
  if (param.type == ParamType::Bool) return {"0", "1"};
  std::vector<std::string> values;
  const auto allowed = [&](double value) {
    return (param.min_exclusive ? value > param.min : value >= param.min) && value <= param.max;
  };
  // Numbers of channels have to fit the smallest head of the tests, of 8.
  const bool channels = param.default_text.starts_with("head_dim");
  if (param.type == ParamType::Int)
    for (const int value : {0, 1, 3, 5, 16, 63})
      if (allowed(value) && !(param.odd && value % 2 == 0) && !(channels && value > 8))
        values.push_back(fmt::format("{}", value));
  if (param.type == ParamType::Float)
    for (const double value : {0.0, 0.1, 0.5, 0.9, 1.0})
      if (allowed(value)) values.push_back(fmt::format("{}", value));
  return values;
}

// `base` with one parameter at a time changed.
void add_changes(const MethodInfo& info, const std::string& base, char separator,
                 std::vector<std::string>& specs) {
  for (const ParamInfo& param : info.params)
    for (const std::string& value : values_of(param))
      if (value != param.default_text)
        specs.push_back(fmt::format("{}{}{}={}", base, separator, param.name, value));
}

// Block methods: parameters that fit sequences of some 60 tokens.
const std::vector<std::string>& block_methods() {
  static const std::vector<std::string> specs = {
      "flash_prefill:block_size=8,alpha=0.3,sink_blocks=1,window_blocks=1",
      "flash_prefill:block_size=3,alpha=0.2,sink_blocks=0,window_blocks=0,last_full_blocks=1",
      "xattention:block_size=8,stride=4,tau=0.5",
      "xattention:block_size=5,stride=5,tau=0.7",
      "seer_attention:block_size=8,threshold=0.1,gate=FILE",
      "flex_prefill:block_size=4,gamma=0.5,tau=0.3,min_budget=8",
      "flex_prefill:block_size=8,gamma=0.4,tau=1,min_budget=8"};
  return specs;
}

bool keeps_blocks(const MethodInfo& info) { return info.granularity == trace::Granularity::Block; }

}  // namespace

std::vector<std::string> variants(const std::string& budget) {
  std::vector<std::string> specs;
  for (const MethodInfo& info : catalogue()) {
    if (info.budget == BudgetUse::None || keeps_blocks(info)) continue;
    const std::string base = fmt::format("{}:{}", info.id, budget);
    specs.push_back(base);
    if (info.accepts_scope_all) specs.push_back(base + ",budget_scope=all");
    add_changes(info, base, ',', specs);
  }
  // Parameters that matter together.
  const std::vector<std::string> pairs = {
      "quoka:{},num_queries=3,group_query_mode=shared_tokens",
      "quoka:{},num_queries=3,group_query_mode=post_agg",
      "quoka:{},num_queries=3,group_query_mode=post_agg,query_reduce=mean",
      "quoka:{},num_queries=3,group_query_mode=post_agg,metric=dot",
      "quoka:{},num_queries=3,metric=dot,query_reduce=mean",
      "quoka:{},num_queries=3,budget_scope=all",
      "quoka:{},num_queries=3,query_ratio=0.29",
      "quoka:{},query_ratio=0.01,group_query_mode=post_agg",
      "sample_attention:{},num_queries=3,mode=coverage,coverage=0.5",
      "sample_attention:{},mode=coverage,coverage=0.2",
      "sample_attention:{},mode=coverage,coverage=1",
      "sparq:{},num_channels=3,agg=prob_mean",
      "sparq:{},agg=prob_mean,budget_scope=all",
      "loki:{},num_channels=3,agg=prob_mean",
      "loki:{},agg=prob_mean,budget_scope=all",
      "less_is_more:{},recent_ratio=0.6,sink_tokens=3,sel_layers=set",
      "less_is_more:{},sel_layers=set,first_layer=5",
      "tidal_decode:{},sel_layers=set,first_layer=5",
      "tidal_decode:{},sel_layers=set,correction_layer=5",
      "snapkv:{},window=5,state=select,pool=avg",
      "snapkv:{},window=5,pool=avg,kernel=5",
      "snapkv:{},window=5,state=select,kernel=1",
      "h2o:{},recent_ratio=0,normalise=by_age",
      "h2o:{},recent_ratio=0,normalise=by_age,start=decode",
      "tova:{},force_last=0,per_kv_head=1",
      "quest:{},page_size=3,gqa_reduce=union",
      "quest:{},page_size=3,gqa_reduce=mean_score,rule=kernel",
      "quest:{},page_size=3,gqa_reduce=max_score,force_last_page=0",
      "quest:{},page_size=3,prefill=per_query",
      "quest:{},page_size=3,prefill=per_query,force_last_page=0",
      "quest:{},page_size=3,prefill=per_query,gqa_reduce=mean_score,force_last_page=0",
      "quest:{},page_size=5,prefill=per_query,gqa_reduce=union,rule=kernel"};
  for (const std::string& pair : pairs) specs.push_back(fmt::format(fmt::runtime(pair), budget));
  for (const std::string& method : block_methods())
    specs.push_back(fmt::format("{},lowering=budget,{}", method, budget));
  return specs;
}

std::vector<std::string> variants_without_budget() {
  std::vector<std::string> specs;
  for (const MethodInfo& info : catalogue()) {
    if (info.budget != BudgetUse::None || keeps_blocks(info)) continue;
    specs.push_back(info.id);
    add_changes(info, info.id, ':', specs);
  }
  for (const std::string& method : block_methods()) {
    specs.push_back(method);
    specs.push_back(method + ",lowering=union");
  }
  for (const char* compact :
       {"compact_attention:block_size=4,alpha=0.3,sink_blocks=0",
        "compact_attention:selector=xattention,block_size=4,stride=2,tau=0.6",
        "compact_attention:selector=seer_attention,block_size=4,threshold=0.1,gate=FILE"})
    specs.emplace_back(compact);
  return specs;
}

}  // namespace kvloupe::selection::testing
