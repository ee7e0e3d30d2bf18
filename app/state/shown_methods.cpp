#include "app/state/shown_methods.h"

#include "app/state/view_list.h"
#include "app/state/view_state.h"
#include "app/state/workspace.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvloupe::state {
namespace {

constexpr std::array kAll{Show::One, Show::Both, Show::Difference, Show::Traces, Show::Several};

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
    case Show::One: return "one";
    case Show::Both: return "both";
    case Show::Difference: return "difference";
    case Show::Traces: return "traces";
    case Show::Several: return "several";
  }
  return "";
}

ViewOption show_option(const std::vector<Show>& forms, const std::string& difference) {
  ViewOption option{kShow, {}, "the method that --shown names, or A and B together"};
  for (const Show form : forms) {
    option.choices.emplace_back(name_of(form));
    if (form == Show::Difference) option.meaning += ", or their difference: " + difference;
    if (form == Show::Traces)
      option.meaning +=
          "; traces: the method shown here and in another open trace (export: --other-trace)";
    if (form == Show::Several)
      option.meaning +=
          "; several: A, B and the further methods named, else the recorded runs, up to six";
  }
  option.meaning += "; an export of two methods named shows both unless it is asked for one";
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
  if (option == nullptr) return Show::One;
  const auto chosen = options.find(view.id + "." + kShow);
  const std::string* choice = chosen == options.end() ? nullptr : option->choice(chosen->second);
  return show_named(choice == nullptr ? option->choices.front() : *choice);
}

void show_both_unless_asked(Workspace& workspace, const ViewState& what) {
  const ViewOption* option = option_of(*find_view(what.view));
  if (what.methods.size() < 2 || option == nullptr || workspace.traces.ready() == nullptr) return;
  const std::string name = what.view + "." + kShow, both = name_of(Show::Both);
  if (option->choice(both) != nullptr && !workspace.selection().options.contains(name))
    workspace.cursor.set_option(name, both);
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

AllDrawn all_drawn(Workspace& workspace, const std::string& view, Alike alike) {
  AllDrawn drawn;
  const Place& here = workspace.place();
  const Show show = show_of(workspace, view);
  std::vector<MethodChoice> methods{workspace.method()};
  if (show == Show::Several) methods = several_methods(workspace);
  if (show == Show::Both || show == Show::Difference)
    methods = {workspace.method(Slot::A), workspace.method(Slot::B)};
  for (MethodChoice& method : methods)
    drawn.pictures.push_back({here, std::move(method), workspace.selection().numbers});
  if (show != Show::Traces || here.empty()) return drawn;
  drawn.other = other_place(workspace, workspace.method(), alike);
  if (drawn.other)
    drawn.pictures.push_back({drawn.other.place, drawn.other.method, drawn.other.numbers});
  return drawn;
}

Table table_of(const AllDrawn& drawn, const std::function<Table(const Drawn&)>& of_one) {
  if (drawn.pictures.size() == 1) return of_one(drawn.pictures.front());
  Table all;
  for (const Drawn& picture : drawn.pictures) {
    Table table = of_one(picture);
    if (table.columns.empty()) return {};
    table.columns.insert(table.columns.begin(), drawn.other ? "trace" : "method");
    for (auto& row : table.rows)
      row.insert(row.begin(), drawn.other ? Cell(picture.place.trace->name)
                                          : Cell(MethodText{picture.method.text}));
    append_rows(all, std::move(table));
  }
  return all;
}

Array array_of(const AllDrawn& drawn, const std::function<Array(const Drawn&)>& of_one) {
  if (drawn.pictures.size() == 1) return of_one(drawn.pictures.front());
  Array all;
  for (const Drawn& picture : drawn.pictures) {
    Array array = of_one(picture);
    array.shape.insert(array.shape.begin(), static_cast<std::int64_t>(drawn.pictures.size()));
    if (!all.shape.empty() && all.shape != array.shape)
      throw drawn.other
          ? input_error("these traces have no array in common",
                        "they have other numbers of chunks or tokens, or rows of other heads",
                        "write a table by --csv, or one trace alone")
          : input_error("these methods have no array in common",
                        fmt::format("{} and {} have rows of other heads",
                                    drawn.pictures.front().method.text, picture.method.text),
                        "write a table by --csv, or one method alone");
    all.dtype = array.dtype;
    all.shape = std::move(array.shape);
    all.bytes += array.bytes;
  }
  return all;
}

}  // namespace kvloupe::state
