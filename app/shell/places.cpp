#include "app/shell/places.h"

#include "app/state/view_list.h"
#include "core/base/error.h"

#include <algorithm>

namespace kvloupe::shell {
namespace {

using state::MethodChoice;

std::vector<std::string> texts_of(const auto& methods) {
  std::vector<std::string> texts;
  for (const MethodChoice& method : methods) texts.push_back(method.text);
  return texts;
}

// Empty where the trace does not understand it: of another version, or a run that it no longer has.
MethodChoice choice(const std::string& text, const state::OpenTrace& trace) {
  try {
    return state::choice_of_text(text, trace);
  } catch (const Error&) {
    return {};
  }
}

std::vector<MethodChoice> known(const std::vector<std::string>& texts,
                                const state::OpenTrace& trace) {
  std::vector<MethodChoice> methods;
  for (const std::string& text : texts)
    if (MethodChoice method = choice(text, trace); !method.empty())
      methods.push_back(std::move(method));
  return methods;
}

bool is_choice(const std::string& name, const std::string& value) {
  const std::size_t dot = name.find('.');
  const state::ViewInfo* view = state::find_view(name.substr(0, dot));
  if (view == nullptr || dot == std::string::npos) return false;
  return std::any_of(view->options.begin(), view->options.end(),
                     [&](const state::ViewOption& option) {
                       return option.name == name.substr(dot + 1) &&
                              std::find(option.choices.begin(), option.choices.end(), value) !=
                                  option.choices.end();
                     });
}

}  // namespace

KeptPlace place_of(const state::TraceTab& tab) {
  const state::Selection& s = tab.selection;
  KeptPlace kept;
  kept.trace = tab.path;
  kept.goto_text = state::goto_text(s.place);
  kept.methods = texts_of(s.method);
  kept.more = texts_of(s.more);
  kept.tried = texts_of(tab.tried);
  kept.shown = state::letter_of(s.shown);
  kept.options = s.options;
  kept.device = s.place.device;
  return kept;
}

void restore_place(state::TraceTab& tab) {
  const std::optional<KeptPlace> kept = find_place(tab.path);
  if (!kept) return;
  state::Selection& s = tab.selection;
  const state::OpenTrace& trace = *s.place.trace;
  for (std::size_t i = 0; i < std::min(kept->methods.size(), state::kSlots.size()); ++i)
    if (MethodChoice method = choice(kept->methods[i], trace); !method.empty())
      s.choice(state::kSlots[i]) = std::move(method);
  s.more = known(kept->more, trace);
  tab.tried = known(kept->tried, trace);
  s.shown = kept->shown == "B" ? state::Slot::B : state::Slot::A;
  for (const auto& [name, value] : kept->options)
    if (is_choice(name, value)) s.options[name] = value;
  // The engine, which is not loaded yet, knows devices: where this is none, or is gone, views say so.
  if (!kept->device.empty()) s.place.device = kept->device;
  try {
    state::Place place = s.place;
    state::apply_goto(place, state::parse_goto(kept->goto_text));
    s.place = place;
  } catch (const Error&) {
    // The file was made anew and is another one: it begins where new ones do.
  }
}

}  // namespace kvloupe::shell
