#include "core/selection/spec/method_files.h"

namespace kvloupe::selection {

std::vector<std::filesystem::path> files_of(const MethodSpec& spec) {
  const auto& basis = spec.traits().basis;
  const bool names_no_basis = basis && (basis->is_auto() || basis->is_self());
  std::vector<std::filesystem::path> files;
  for (const ParamInfo& param : spec.info().params) {
    if (param.type != ParamType::Path || !spec.has(param.name)) continue;
    const std::string& text = spec.text(param.name);
    if (!names_no_basis || text != basis->where) files.emplace_back(text);
  }
  return files;
}

}  // namespace kvloupe::selection
