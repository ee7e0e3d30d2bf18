// What a method file hands to the registry: what is known of the method, and how to make it.
#pragma once

#include "core/selection/selector.h"

#include <functional>
#include <memory>
#include <vector>

namespace kvloupe::selection {

struct Method {
  MethodInfo info;
  std::function<std::unique_ptr<Selector>(const MethodSpec&, const ModelShape&)> make;
  // Only where the rows depend on parameters; else info.row_axis decides.
  std::function<RowLayout(const MethodSpec&, const ModelShape&)> row_layout;
};

// All methods, in the order of the contract's table (registry.cpp).
const std::vector<Method>& methods();

// Short forms of the parameters that method files declare.
ParamInfo int_param(std::string name, std::int64_t value, std::int64_t min, std::int64_t max,
                    std::string meaning);
ParamInfo float_param(std::string name, double value, double min, double max, std::string meaning);
ParamInfo flag_param(std::string name, bool value, std::string meaning);
ParamInfo enum_param(std::string name, std::vector<std::string> choices, std::string meaning);

}  // namespace kvloupe::selection
