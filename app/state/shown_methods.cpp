#include "app/state/shown_methods.h"

#include "app/state/view_list.h"
#include "app/state/workspace.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvloupe::state {
namespace {

constexpr std::array kAll{Show::One, Show::Both, Show::Difference, Show::Several};

const ViewOption* option_of(const ViewInfo& view) {
  for (const ViewOption& option : view.options)
    if (option.name == kShow) return &option;
  return nullptr;
}

Show show_named(const std::string& name) {
  for (const Show show : kAll)
    if (name == name_of(show)) return show;
  return Show::One;
}

void add_once(std::vector<MethodChoice>& methods, const MethodChoice& method) {
  const bool there = std::find(methods.begin(), methods.end(), method) != methods.end();
  if (methods.size() < kMostMethods && !method.empty() && !there) methods.push_back(method);
}

}  // namespace

const char* name_of(Show show) {
  switch (show) {
    case Show::One:
      return "one";
    case Show::Both:
      return "both";
    case Show::Difference:
      return "difference";
    case Show::Several:
      return "several";
  }
  return "";
}

ViewOption show_option(const std::string& difference, bool several) {
  ViewOption option{
      kShow,
      {name_of(Show::One), name_of(Show::Both), name_of(Show::Difference)},
      "the method that --shown names, or A and B together, or their difference: " + difference};
  if (several) {
    option.choices.emplace_back(name_of(Show::Several));
    option.meaning +=
        "; several: A, B and the further methods named, else the recorded runs, up to six";
  }
  option.meaning += "; a picture of two methods named shows both unless it is asked for one";
  return option;
}

Show show_of(const Workspace& workspace, const ViewInfo& view) {
  return option_of(view) == nullptr ? Show::One : show_named(workspace.option(view.id, kShow));
}

Show show_of(const Workspace& workspace, const std::string& view) {
  const ViewInfo* info = find_view(view);
  KVLOUPE_CHECK(info != nullptr);
  return show_of(workspace, *info);
}

Show show_of(const std::map<std::string, std::string>& options, const ViewInfo& view) {
  const ViewOption* option = option_of(view);
  const auto chosen = options.find(view.id + "." + kShow);
  if (option == nullptr || chosen == options.end()) return Show::One;
  const std::string* choice = option->choice(chosen->second);
  return choice == nullptr ? Show::One : show_named(*choice);
}

std::vector<MethodChoice> several_methods(const Workspace& workspace) {
  std::vector<MethodChoice> methods;
  for (const Slot slot : kSlots) methods.push_back(workspace.method(slot));
  std::erase_if(methods, [](const MethodChoice& method) { return method.empty(); });
  const std::vector<MethodChoice>& named = workspace.selection().more;
  for (const MethodChoice& method : named) add_once(methods, method);
  const TraceTab* tab = workspace.traces.ready();
  if (!named.empty() || tab == nullptr) return methods;
  for (auto tried = tab->tried.rbegin(); tried != tab->tried.rend(); ++tried)
    add_once(methods, *tried);
  for (const MethodChoice& run : tab->recorded) add_once(methods, run);
  return methods;
}

std::vector<MethodChoice> methods_beside(const Workspace& workspace, const std::string& view) {
  if (show_of(workspace, view) != Show::Several) return {};
  std::vector<MethodChoice> methods = several_methods(workspace);
  methods.erase(methods.begin(), methods.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(methods.size(), kSlots.size())));
  return methods;
}

std::vector<MethodChoice> methods_drawn(const Workspace& workspace, const std::string& view) {
  const Show show = show_of(workspace, view);
  if (show == Show::One) return {workspace.method()};
  if (show == Show::Several) return several_methods(workspace);
  return {workspace.method(Slot::A), workspace.method(Slot::B)};
}

Table table_of(const std::vector<MethodChoice>& methods,
               const std::function<Table(const MethodChoice&)>& of_one) {
  if (methods.size() == 1) return of_one(methods.front());
  Table all;
  for (const MethodChoice& method : methods) {
    Table table = of_one(method);
    if (table.columns.empty()) return {};
    if (all.columns.empty()) {
      all.columns = std::move(table.columns);
      all.columns.insert(all.columns.begin(), "method");
    }
    for (auto& row : table.rows) {
      row.insert(row.begin(), MethodText{method.text});
      all.rows.push_back(std::move(row));
    }
  }
  return all;
}

Array array_of(const std::vector<MethodChoice>& methods,
               const std::function<Array(const MethodChoice&)>& of_one) {
  if (methods.size() == 1) return of_one(methods.front());
  Array all;
  for (const MethodChoice& method : methods) {
    Array array = of_one(method);
    array.shape.insert(array.shape.begin(), static_cast<std::int64_t>(methods.size()));
    if (!all.shape.empty() && all.shape != array.shape)
      throw input_error(
          "these methods have no array in common",
          fmt::format("{} and {} have rows of other heads", methods.front().text, method.text),
          "write a table by --csv, or one method alone");
    all.dtype = array.dtype;
    all.shape = std::move(array.shape);
    all.bytes += array.bytes;
  }
  return all;
}

}  // namespace kvloupe::state
