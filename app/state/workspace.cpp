#include "app/state/workspace.h"

#include "app/state/view_list.h"
#include "core/base/error.h"

namespace kvloupe::state {

Workspace::Workspace(std::uint64_t memory_limit, Traces::Opener opener)
    : traces(answers, memory_limit, std::move(opener)), cursor(traces) {}

const std::string& Workspace::option(const std::string& view, const std::string& name) const {
  const auto& chosen = selection().options;
  if (const auto found = chosen.find(view + "." + name); found != chosen.end())
    return found->second;
  const ViewInfo* info = find_view(view);
  KVLOUPE_CHECK(info != nullptr);
  for (const ViewOption& option : info->options)
    if (option.name == name) return option.choices.front();
  fail_check("an option that the view declares", __FILE__, __LINE__);
}

}  // namespace kvloupe::state
