// What is known of the methods.
#include "core/selection/spec/method.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/selection/spec/lowering.h"
#include "core/selection/spec/method_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace kvloupe::selection {

#define KVLOUPE_DECLARE(id) void describe_##id(Method& method);
KVLOUPE_METHODS(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE

namespace {

// In the order of the contract's table.
const std::vector<Method>& methods() {
  const auto described = [](std::string id, void (*describe)(Method&)) {
    Method method;
    method.id = std::move(id);
    describe(method);
    return method;
  };
#define KVLOUPE_CALL(id) described(#id, describe_##id),
  static const std::vector<Method> all = {KVLOUPE_METHODS(KVLOUPE_CALL)};
#undef KVLOUPE_CALL
  return all;
}

}  // namespace

const std::vector<MethodInfo>& catalogue() {
  static const std::vector<MethodInfo> infos = [] {
    std::vector<MethodInfo> result;
    for (const Method& method : methods()) result.push_back(method);
    return result;
  }();
  return infos;
}

const MethodInfo* find_method(std::string_view id) {
  for (const MethodInfo& info : catalogue())
    if (info.id == id) return &info;
  return nullptr;
}

const Method& method_named(std::string_view id) {
  for (const Method& method : methods())
    if (method.id == id) return method;
  fail_check("a method of the catalogue", __FILE__, __LINE__);
}

std::string title_of(const MethodSpec& spec) {
  const Method& method = method_named(spec.id());
  return method.title_of ? method.title_of(spec) : method.title;
}

Traits traits_of(const MethodSpec& spec) {
  const Method& method = method_named(spec.id());
  Traits traits;
  traits.state_action = method.state_action;
  traits.granularity = method.granularity;
  traits.acts_in_decode = method.active_in_decode;
  traits.needs_probe = method.needs_probe;
  if (method.basis) traits.basis = BasisTrait{*method.basis};
  traits.dense_layers = spec.skip_layers();
  traits.native_masks = spec.native_lowering();
  if (method.traits) method.traits(spec, traits);
  // A key evicted at one chunk is missing from the sums of the next, except where only positions count.
  if (traits.evicts()) traits.grows_with_budget = method.needs.empty();
  return traits;
}

std::optional<std::int64_t> Traits::forced_page(std::int64_t past_len, trace::Phase phase) const {
  if (!forces_last_page) return std::nullopt;
  const bool past_only = phase == trace::Phase::Prefill && prefill_sees_past_only;
  const std::int64_t page = (past_len - (past_only ? 1 : 0)) / page_size;
  if (page * page_size >= past_len) return std::nullopt;
  return page;
}

RowLayout row_layout(const MethodSpec& spec, const ModelShape& shape) {
  const Method& method = method_named(spec.id());
  if (method.row_layout) return method.row_layout(spec, shape);
  const bool per_kv_head = method.row_axis == trace::RowAxis::KvHead;
  return {method.row_axis, per_kv_head ? shape.num_q_heads / shape.num_kv_heads : 1};
}

std::optional<Metadata> metadata_of(const MethodSpec& spec, const ModelShape& shape) {
  const Method& method = method_named(spec.id());
  return method.metadata ? method.metadata(spec, shape) : Metadata();
}

trace::RunInfo describe_run(const MethodSpec& spec, const ModelShape& shape) {
  const RowLayout layout = row_layout(spec, shape);
  const Traits& traits = spec.traits();
  trace::RunInfo run;
  run.method = spec.canonical();
  run.row_axis = layout.axis;
  run.q_heads_per_row = layout.q_heads_per_row;
  run.granularity = traits.granularity;
  run.state_action = traits.state_action;
  run.budget_scope = spec.scope();
  run.decode_dense = !traits.acts_in_decode;
  if (const auto lowering = lowering_of(spec)) {
    run.block_size = static_cast<int>(traits.page_size);
    run.block_tables = traits.block_tables;
    run.lowering = *lowering;
  }
  return run;
}

std::optional<MethodSpec> ablated(const MethodSpec& spec, Ablation ablation, std::int64_t chunk_len,
                                  const ModelShape& shape) {
  const Method& method = method_named(spec.id());
  if (!method.ablated) return std::nullopt;
  const auto changes = method.ablated(ablation, chunk_len, shape.head_dim);
  return changes ? std::optional(spec.with(*changes)) : std::nullopt;
}

std::optional<int> source_layer(const MethodSpec& spec, const ModelShape&, int layer) {
  const Method& method = method_named(spec.id());
  if (!method.source_layer) return std::nullopt;
  return method.source_layer(spec, layer);
}

namespace {

ParamInfo param_of(ParamType type, std::string name, std::string default_text, std::string meaning,
                   double min = 0, double max = 0) {
  ParamInfo param;
  param.name = std::move(name);
  param.type = type;
  param.default_text = std::move(default_text);
  param.min = min;
  param.max = max;
  param.meaning = std::move(meaning);
  return param;
}

}  // namespace

ParamInfo int_param(std::string name, std::int64_t value, std::int64_t min, std::int64_t max,
                    std::string meaning) {
  return formula_param(std::move(name), fmt::format("{}", value), min, max, std::move(meaning));
}

ParamInfo float_param(std::string name, double value, double min, double max, std::string meaning) {
  return param_of(ParamType::Float, std::move(name), format_shortest(value), std::move(meaning),
                  min, max);
}

ParamInfo flag_param(std::string name, bool value, std::string meaning) {
  return param_of(ParamType::Bool, std::move(name), value ? "1" : "0", std::move(meaning), 0, 1);
}

ParamInfo enum_param(std::string name, std::vector<std::string> choices, std::string meaning) {
  ParamInfo param = param_of(ParamType::Enum, std::move(name), choices.front(), std::move(meaning));
  param.choices = std::move(choices);
  return param;
}

ParamInfo formula_param(std::string name, std::string formula, std::int64_t min, std::int64_t max,
                        std::string meaning) {
  return param_of(ParamType::Int, std::move(name), std::move(formula), std::move(meaning),
                  static_cast<double>(min), static_cast<double>(max));
}

ParamInfo basis_param() {
  return param_of(
      ParamType::Path, "basis", "auto",
      "auto: the calibrated basis of this model; self: fitted on the trace itself (leakage); or a "
      "file made by kvloupe calibrate");
}

ParamInfo path_param(std::string name, std::string meaning) {
  ParamInfo param = param_of(ParamType::Path, std::move(name), "", std::move(meaning));
  param.required = true;
  return param;
}

std::vector<std::string> MethodInfo::deviations() const {
  constexpr std::string_view kBetween = "; ";
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < deviation.size();) {
    const std::size_t end = std::min(deviation.find(kBetween, begin), deviation.size());
    parts.push_back(deviation.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  return parts;
}

void set_row_count_param(Method& method, std::string name) {
  method.ablated = [name = std::move(name)](Ablation ablation, std::int64_t chunk_len,
                                            int) -> std::optional<ParamValues> {
    if (ablation != Ablation::AllRows) return std::nullopt;
    return ParamValues{{name, fmt::format("{}", chunk_len)}};
  };
}

void add_lowering(Method& method) {
  method.params.push_back(enum_param(
      "lowering", {"native", "union", "budget"},
      "native: as in the paper, each query head and query block reads the blocks of its own mask, "
      "those of the chunk included and its own always; union (an extension): a KV head reads all "
      "blocks that any query block of the chunk and head of the group keeps; budget (an "
      "extension): the floor(B/block_size) past blocks of the best mean score over the group's "
      "heads and the chunk's query blocks, and beside the budget the past keys of a block in which "
      "the chunk begins"));
  method.granularity = trace::Granularity::Block;
  method.row_axis = trace::RowAxis::QHead;
  method.budget = BudgetUse::Optional;
  method.active_in_decode = false;
  method.row_layout = [](const MethodSpec& spec, const ModelShape& shape) -> RowLayout {
    if (spec.native_lowering()) return {trace::RowAxis::QHead, 1};
    return {trace::RowAxis::KvHead, shape.num_q_heads / shape.num_kv_heads};
  };
  method.title_of = [](const MethodSpec& spec) {
    const std::string& title = spec.info().title;
    if (spec.native_lowering()) return title;
    return fmt::format("{}, {}", title,
                       spec.has_budget() ? "best blocks of a budget" : "union of blocks");
  };
}

}  // namespace kvloupe::selection
