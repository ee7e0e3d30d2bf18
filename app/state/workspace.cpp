#include "app/state/workspace.h"

#include "app/state/perspectives.h"
#include "app/state/questions/results/task_scores.h"
#include "app/state/view_list.h"
#include "core/base/error.h"

namespace kvloupe::state {

Workspace::Workspace(MemoryAccountPtr account, Traces::Opener opener)
    : memory(std::move(account)),
      answers(memory),
      traces(answers, memory, std::move(opener)),
      results(answers, memory),
      cursor(traces) {
  traces.on_results = [this](const std::string& path) {
    results.open(path, scores_across_more_than_one);
    cursor.set_perspective(results_perspective().id);
  };
}

std::unique_ptr<Workspace> Workspace::apart() const {
  auto other = std::make_unique<Workspace>(memory);
  other->traces.take(traces);
  // As a view sees it that is locked, or has options of its own.
  if (TraceTab* tab = other->traces.ready()) tab->selection = cursor.selection();
  other->results.take(results);
  other->answers.take_shown(answers);
  return other;
}

bool Workspace::can_show(const ViewInfo& view) const {
  return view.shows_results ? results.ready() != nullptr : has_trace();
}

std::vector<MethodChoice> Workspace::more_methods(bool and_tried) const {
  std::vector<MethodChoice> methods = selection().more;
  if (const TraceTab* tab = traces.ready(); and_tried && tab != nullptr)
    methods.insert(methods.end(), tab->tried.begin(), tab->tried.end());
  return methods;
}

const std::string& Workspace::option(const std::string& view, const std::string& name) const {
  const ViewInfo* info = find_view(view);
  KVLOUPE_CHECK(info != nullptr);
  const auto& chosen = info->shows_results ? results.sight.options : selection().options;
  if (const auto found = chosen.find(view + "." + name); found != chosen.end())
    return found->second;
  for (const ViewOption& option : info->options)
    if (option.name == name) return option.choices.front();
  fail_check("an option that the view declares", __FILE__, __LINE__);
}

void Workspace::choose(const std::string& view, const std::string& name, const std::string& value) {
  const ViewInfo* info = find_view(view);
  if (info != nullptr && info->shows_results)
    results.sight.options[view + "." + name] = value;
  else
    cursor.set_option(view + "." + name, value);
}

}  // namespace kvloupe::state
