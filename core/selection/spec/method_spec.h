// Method SPECs ("quoka:budget_tokens=256") and what is known of each method and its parameters.
// Torch-free: the command line and the window's controls and help are built from it.
#pragma once

#include "core/selection/spec/traits.h"
#include "core/trace/basis_file.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe::selection {

enum class ParamType { Int, Float, Bool, Enum, Path };
enum class BudgetUse { None, Required, Optional };
using trace::BudgetScope;

struct ParamInfo {
  std::string name;
  ParamType type = ParamType::Int;
  // Text of the default. For an Int it may be a formula of the model ("head_dim/4",
  // "floor(0.4*num_layers)"), which resolve() turns into a number.
  std::string default_text;
  double min = 0;  // declared range, inclusive unless min_exclusive; Int and Float
  double max = 0;
  bool min_exclusive = false;
  bool odd = false;                  // Int: even values are refused
  std::vector<std::string> choices;  // Enum, the default first
  // Path: there is no default, a SPEC without it is a usage error. Its default_text is empty.
  bool required = false;
  // Int: the name of another one that must divide it.
  std::string multiple_of;
  // "name=value" of an Enum before it: the parameter exists only where that one has this value.
  std::string only_for;
  // Younger than texts of the method that others hold: the canonical text names it only where it is
  // not the default.
  bool named_when_set = false;
  std::string meaning;  // one sentence, with unit
};

struct MethodInfo {
  std::string id;
  std::string title;               // of the default parameters
  std::string paper;               // authors, year, arXiv
  std::string evidence;            // equations or repository code followed
  std::string deviation;           // from the paper, parts with "; " between them; empty if none
  std::string paper_spec;          // the SPEC that is the paper's own protocol
  std::string summary;             // one sentence for a newcomer
  std::vector<std::string> needs;  // "q", "k", "v", ...
  trace::StateAction state_action = trace::StateAction::Visibility;  // of the default parameters
  trace::Granularity granularity = trace::Granularity::Token;
  trace::RowAxis row_axis = trace::RowAxis::KvHead;
  BudgetUse budget = BudgetUse::Required;
  bool accepts_scope_all = false;
  // Selects (or evicts) at each decoded token too; else it decodes densely over the keys left.
  bool active_in_decode = true;
  // Carries sets from one layer to a later one of the same chunk (source_layer).
  bool crosses_layers = false;
  // Needs the probe queries and token novelty that only some captures record.
  bool needs_probe = false;
  // Rotates queries and keys by a calibrated basis; the parameter `basis` says which.
  std::optional<trace::BasisKind> basis;
  std::vector<ParamInfo> params;  // its own, in the contract's order; the common ones not included

  std::vector<std::string> deviations() const;  // the parts of `deviation`
};

// In the order of the contract's table.
const std::vector<MethodInfo>& catalogue();
const MethodInfo* find_method(std::string_view id);
// Of methods with a budget: budget_tokens, budget_ratio, budget_scope, skip_layers, in this order; the
// last not where the method knows dense layers of its own or carries sets from layer to layer.
const std::vector<ParamInfo>& common_params(const MethodInfo& info);

// The parameters that a method has with the values given, in order, the common ones first. Values
// that are not given count as defaults.
using ParamValues = std::map<std::string, std::string, std::less<>>;
std::vector<const ParamInfo*> params_with(const MethodInfo& info, const ParamValues& values);

// What stands after the colon of a text, whatever the method: "all:budget_tokens=64", too. Throws
// Error{Usage} for an item that is not name=value, and for a name that is given twice.
ParamValues values_of_text(std::string_view text);
// A run that a person or another program added is called custom:NAME; no version knows its method.
inline constexpr std::string_view kBroughtIn = "custom:";
// The method that a text names, known to this version or not; all of a name as custom:NAME.
std::string method_id(std::string_view text);

// What defaults, and methods that undo the rotary embedding, depend on.
struct ModelShape {
  int num_layers = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  double rope_theta = 0;
  trace::RopePairing rope_pairing = trace::RopePairing::HalfSplit;
  std::string rope_scaling = "none";
  std::vector<trace::LayerType> layer_types = {};  // [num_layers], or empty: all are full
};
ModelShape shape_of(const trace::ModelInfo& model);

// A method with its parameters: a value, cheap to copy. Text becomes one where it enters (command
// line, trace file, the window's controls) and nowhere else.
class MethodSpec {
 public:
  // No method: equal to another such one, and not to be asked anything.
  MethodSpec() = default;
  // Throws Error{Usage}: unknown method or parameter, value outside its range, budgets that
  // contradict each other.
  static MethodSpec parse(std::string_view text);
  // Throws likewise.
  static MethodSpec of(const MethodInfo& info, const ParamValues& given);

  const MethodInfo& info() const;
  const std::string& id() const { return info().id; }
  // What the method does with these parameters.
  const Traits& traits() const;
  // The same method with these values in place of its own; a budget in tokens takes the place of one
  // by ratio, and the other way round. Throws as parse() does.
  MethodSpec with(const ParamValues& changes) const;
  // Its parameter of that name if that is a number in use: a threshold method without a budget has no
  // budget to vary. Else null.
  const ParamInfo* number(std::string_view name) const;
  // Replaces defaults that are formulas of the model by numbers. Idempotent.
  MethodSpec resolved(const ModelShape& shape) const;
  // All parameters in order, the common ones first, numbers in their shortest form; itself a valid
  // SPEC, and the key to sort and to find by. Formulas must have been resolved.
  std::string canonical() const;
  // Name and value of each, in order; `not_default` of those alone that a text must name to mean this
  // SPEC.
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  Parameters parameters() const;
  Parameters not_default() const;
  // The same method with the same values.
  bool operator==(const MethodSpec& other) const;

  bool has_budget() const;  // false for dense, lanes, and threshold methods without one
  // One of them is above 0 where there is a budget; both are 0 where there is none.
  std::int64_t budget_tokens() const;
  double budget_ratio() const;
  // B for `n` tokens: budget_tokens, or max(1, floor(budget_ratio*n + 1e-9)). n is P, T for
  // eviction.
  std::int64_t budget(std::int64_t n) const;
  // The same budget for another method: budget_tokens or budget_ratio.
  ParamValues budget_values() const;
  BudgetScope scope() const;
  int skip_layers() const;  // 0 where the method has no such parameter
  bool native_lowering() const;

  // Parameters by name: for the method's own file (what others need to know is in traits()), and for
  // callers that go through all of info().params.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool has(std::string_view name) const;

 private:
  struct Value;
  struct Parsed;
  explicit MethodSpec(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  const Value* find(std::string_view name) const;
  const Value& value(std::string_view name) const;
  // Throw Error{Usage}: a budget or lowering that contradicts itself, a value that another one must
  // divide.
  void check_budget() const;
  void check_multiples() const;

  std::shared_ptr<const Parsed> parsed_;
};

// The method's title with these parameters: quest says which of its forms extend the paper.
std::string title_of(const MethodSpec& spec);

// The rows that a method's selections have on a model of this shape.
RowLayout row_layout(const MethodSpec& spec, const ModelShape& shape);
// What it holds beside K and V; `spec` is resolved. Empty where that is in a file that is not at hand.
std::optional<Metadata> metadata_of(const MethodSpec& spec, const ModelShape& shape);
// A run of `spec` (resolved) as a trace describes it; open loop.
trace::RunInfo describe_run(const MethodSpec& spec, const ModelShape& shape);

// The SPEC of the ablation, for chunks of this length; nothing where no SPEC can say it.
std::optional<MethodSpec> ablated(const MethodSpec& spec, Ablation ablation, std::int64_t chunk_len,
                                  const ModelShape& shape);

// The layer whose set this layer reuses; nullopt where it chooses (or is dense) on its own.
// A cell of this layer needs the same chunk's cell of that one before it.
std::optional<int> source_layer(const MethodSpec& spec, const ModelShape& shape, int layer);

}  // namespace kvloupe::selection
