#include "core/c_api/spec_facts.h"

#include "core/selection/spec/lowering.h"
#include "core/trace/fields/trace_names.h"

#include <nlohmann/json.hpp>

namespace kvloupe::c_api {

std::string spec_facts(std::string_view text) {
  const auto spec = selection::MethodSpec::parse(text);
  const selection::Traits& traits = spec.traits();
  nlohmann::ordered_json facts{{"id", spec.id()},
                               {"parameters", nlohmann::ordered_json::object()},
                               {"named", nlohmann::ordered_json::array()},
                               {"granularity", trace::to_text(traits.granularity)},
                               {"state_action", trace::to_text(traits.state_action)},
                               {"budget_scope", trace::to_text(spec.scope())},
                               {"dense_in_decode", !traits.acts_in_decode},
                               {"lowering", nullptr},
                               {"block_size", nullptr},
                               {"block_tables", traits.block_tables},
                               {"lanes", nullptr},
                               {"reassigns_positions", traits.reassigns_positions},
                               {"needs_probe", traits.needs_probe},
                               {"basis", nullptr}};
  for (const auto& [name, value] : spec.parameters()) facts["parameters"][name] = value;
  for (const auto& [name, value] : selection::values_of_text(text)) facts["named"].push_back(name);
  if (const auto lowering = selection::lowering_of(spec)) {
    facts["lowering"] = trace::to_text(*lowering);
    facts["block_size"] = traits.page_size;
  }
  if (traits.lanes) facts["lanes"] = traits.lanes->leading ? "leading" : "strongest";
  if (traits.basis) facts["basis"] = traits.basis->where;
  return facts.dump();
}

}  // namespace kvloupe::c_api
