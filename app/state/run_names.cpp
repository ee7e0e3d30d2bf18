#include "app/state/run_names.h"

#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "app/state/workspace.h"

#include <algorithm>
#include <cstddef>

namespace kvloupe::state {
namespace {

std::string quoted(const std::string& name) { return "\u201C" + readable_name(name) + "\u201D"; }

}  // namespace

std::string own_name(const Workspace& workspace, const MethodChoice& method) {
  const TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return {};
  const auto found = tab->marks.names.find(method.text);
  return found != tab->marks.names.end() ? found->second : std::string();
}

std::string label_of(const Workspace& workspace, const MethodChoice& method) {
  const std::string name = own_name(workspace, method);
  return name.empty() ? short_label(method) : quoted(name);
}

std::vector<std::string> labels_of(const Workspace& workspace,
                                   const std::vector<MethodChoice>& methods) {
  // Told apart from recorded runs and methods tried of the same id, too.
  std::vector<MethodChoice> all = methods;
  if (const TraceTab* tab = workspace.traces.ready())
    for (const auto* others : {&tab->recorded, &tab->tried})
      for (const MethodChoice& other : *others) {
        const auto is_same = [&](const MethodChoice& one) { return one.text == other.text; };
        const auto has_id = [&](const MethodChoice& one) { return one.id() == other.id(); };
        if (std::ranges::none_of(all, is_same) && std::ranges::any_of(methods, has_id))
          all.push_back(other);
      }
  std::vector<std::string> labels = distinct_labels(all);
  labels.resize(methods.size());
  for (std::size_t i = 0; i < methods.size(); ++i)
    if (const std::string name = own_name(workspace, methods[i]); !name.empty())
      labels[i] = quoted(name) + "  " + labels[i];
  return labels;
}

}  // namespace kvloupe::state
