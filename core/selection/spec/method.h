// What the file of a method, methods/<id>.cpp, hands to the registry. The file is compiled twice
// (docs/architecture.md says why):
//   with KVLOUPE_SELECTORS     its selector:         make_<id>(), part of the engine
//   without, and without Torch what is known of it:  describe_<id>()
#pragma once

#include "core/selection/spec/method_spec.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::selection {

class Selector;

// What a selector is made from.
struct Setup {
  const MethodSpec& spec;  // resolved
  const ModelShape& shape;
  const std::shared_ptr<const trace::Basis>& basis;  // null unless MethodInfo::basis
  Ablation ablation = Ablation::None;
};

// What is known of a method, its id from the list (method_list.h).
struct Method : MethodInfo {
  // Only where traits differ from what MethodInfo says of the default parameters: corrects those.
  std::function<void(const MethodSpec&, Traits&)> traits;
  // Only where the title depends on parameters: title_of() in method_spec.h.
  std::function<std::string(const MethodSpec&)> title_of;
  // Only where the rows depend on parameters; else row_axis decides.
  std::function<RowLayout(const MethodSpec&, const ModelShape&)> row_layout;
  // Only where it holds any; empty where a file that says how much is not at hand.
  std::function<std::optional<Metadata>(const MethodSpec&, const ModelShape&)> metadata;
  // Only where sets pass from layer to layer: see source_layer() in method_spec.h.
  std::function<std::optional<int>(const MethodSpec&, int layer)> source_layer;
  // Only where a parameter can say the ablation: what it is then, see ablated() in method_spec.h.
  // Where none can, the selector does it by itself (Setup::ablation).
  std::function<std::optional<ParamValues>(Ablation, std::int64_t chunk_len, int head_dim)> ablated;
};

// The method of this id, which there is.
const Method& method_named(std::string_view id);

// Short forms of the parameters that method files declare.
ParamInfo int_param(std::string name, std::int64_t value, std::int64_t min, std::int64_t max,
                    std::string meaning);
ParamInfo float_param(std::string name, double value, double min, double max, std::string meaning);
ParamInfo flag_param(std::string name, bool value, std::string meaning);
ParamInfo enum_param(std::string name, std::vector<std::string> choices, std::string meaning);
// Int whose default is a formula of the model ("head_dim/4", "floor(0.4*num_layers)").
ParamInfo formula_param(std::string name, std::string formula, std::int64_t min, std::int64_t max,
                        std::string meaning);
// basis=auto|self|PATH (basis.h).
ParamInfo basis_param();
// A file that the method cannot do without.
ParamInfo path_param(std::string name, std::string meaning);
// Method::ablated of a method whose parameter says how many of the chunk's rows it asks.
void set_row_count_param(Method& method, std::string name);
// Makes it a block method with lowering=native|union|budget (block_selector.h): its last parameter,
// and what follows from it (rows, title, an optional budget). The first is what papers do.
void add_lowering(Method& method);
// Of the block methods that compact_attention can build on, without the lowering.
std::vector<ParamInfo> flash_prefill_params();
std::vector<ParamInfo> xattention_params();
std::vector<ParamInfo> seer_attention_params();

}  // namespace kvloupe::selection
