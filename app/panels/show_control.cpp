#include "app/panels/show_control.h"

#include "app/state/labels.h"
#include "app/state/run_names.h"
#include "app/state/token_text.h"
#include "app/widgets/key_names.h"
#include "app/widgets/segmented.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::panels {
namespace {

using analysis::KeptBy;
using state::Show;
using state::Slot;

bool offers(const std::string& view, Show show) {
  for (const state::ViewOption& option : state::find_view(view)->options)
    if (option.name == state::kShow)
      return std::find(option.choices.begin(), option.choices.end(), state::name_of(show)) !=
             option.choices.end();
  return false;
}

// The forms of the control in its order; A and B are each the form One.
struct Form {
  Show show;
  Slot slot = Slot::A;
};

void choose(DrawContext& context, const std::string& view, const Form& form) {
  context.workspace.cursor.change("", [&](state::Selection& s) {
    if (form.show == Show::One) s.shown = form.slot;
    s.options[fmt::format("{}.{}", view, state::kShow)] = state::name_of(form.show);
  });
}

}  // namespace

Show show_now(const DrawContext& context, const std::string& view) {
  const Show show = state::show_of(context.workspace, view);
  const bool chosen =
      context.workspace.selection().options.contains(fmt::format("{}.{}", view, state::kShow));
  if (chosen) return show;
  // Nothing is beside itself unless somebody says so.
  const state::Workspace& workspace = context.workspace;
  const bool one = show == Show::Both && workspace.method(Slot::A) == workspace.method(Slot::B);
  return one ? Show::One : show;
}

void show_ui(DrawContext& context, const std::string& view) {
  if (context.figure) return;
  const widgets::Palette& p = context.palette;
  const Show now = show_now(context, view);
  std::vector<Form> forms{{Show::One, Slot::A}, {Show::One, Slot::B}};
  const std::string key = widgets::key_name("method.flip");
  const std::string flips = key.empty() ? "" : "; " + key + " flips A and B";
  std::vector<widgets::Segment> segments{
      {"A", "", "Method A alone" + flips, widgets::color_of_slot(p, Slot::A)},
      {"B", "", "Method B alone" + flips, widgets::color_of_slot(p, Slot::B)}};
  const auto add = [&](Show show, widgets::Segment segment) {
    if (!offers(view, show)) return;
    forms.push_back({show});
    segments.push_back(std::move(segment));
  };
  add(Show::Both, {"both", "", "A and B together"});
  add(Show::Difference, {"difference", "diff", "What A and B do differently"});
  add(Show::Several,
      {"up to six", "six", "A, B, then the methods tried here and the recorded runs, up to six"});
  if (now == Show::Traces || !state::other_tabs(context.workspace).empty())
    add(Show::Traces, {"two traces", "two", "The method shown, here and in another open trace"});
  const Slot shown = context.workspace.selection().shown;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < forms.size(); ++i)
    if (forms[i].show == now && (now != Show::One || forms[i].slot == shown)) chosen = i;
  if (const auto pressed = widgets::segmented_ui(p, state::kShow, segments, chosen))
    choose(context, view, forms[*pressed]);
  if (now == Show::Traces) other_trace_ui(context);
  beside_ui(widgets::em(1), widgets::em(14));
}

void other_trace_ui(DrawContext& context) {
  const std::vector<const state::TraceTab*> tabs = state::other_tabs(context.workspace);
  if (context.figure || tabs.size() < 2) return;
  const state::TracePtr other = state::other_trace(context.workspace);
  const std::string shown = other ? other->name : "choose";
  const float width =
      std::min(widgets::em(11), ImGui::CalcTextSize(shown.c_str()).x + widgets::em(3));
  beside_ui(widgets::em(0.6F), width);
  ImGui::SetNextItemWidth(width);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {widgets::em(0.4F), widgets::em(0.1F)});
  const bool open = ImGui::BeginCombo("##other trace", state::readable_name(shown).c_str());
  ImGui::PopStyleVar();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip))
    widgets::tooltip("Which of the other open traces is drawn beside this one");
  if (!open) return;
  for (const state::TraceTab* tab : tabs) {
    const std::string label = fmt::format("{}##{}", state::readable_name(tab->name), tab->id);
    if (ImGui::Selectable(label.c_str(), other && tab->path == other->path))
      context.workspace.cursor.set_other_trace(tab->path);
    if (ImGui::IsItemHovered()) widgets::tooltip("%s", state::readable_name(tab->path).c_str());
  }
  ImGui::EndCombo();
}

bool other_ready_ui(DrawContext& context, const state::OtherPlace& other) {
  if (other) return true;
  if (other.coming)
    widgets::loading_ui(context.palette, other.why);
  else
    widgets::empty_ui(context.palette, other.why);
  return false;
}

std::vector<widgets::Chip> trace_chip(const DrawContext& context, const state::Place& place) {
  return {{state::readable_name(place.trace->name), context.palette.accent,
           state::readable_name(place.trace->path)}};
}

void both_chips_ui(DrawContext& context, const state::Place& place, const state::MethodFacts& a,
                   const state::MethodFacts& b) {
  std::vector<widgets::Chip> of_a = method_chips(context, place, a, Slot::A);
  std::vector<widgets::Chip> of_b = method_chips(context, place, b, Slot::B);
  if (!context.figure && ImGui::GetWindowWidth() < widgets::em(60)) {
    // The names and what warns, on one line: the rest would leave the view no room.
    of_a.insert(of_a.end(), of_b.begin(), of_b.end());
    std::erase_if(of_a, [](const widgets::Chip& chip) { return chip.color == 0; });
    of_b.clear();
  } else if (!context.figure) {
    of_a.insert(of_a.end(), of_b.begin(), of_b.end());
    of_b.clear();
  }
  for (const auto& chips : {of_a, of_b})
    widgets::figure_head_ui(context.palette, context.figure, "", "", "", chips);
  same_method_ui(context, a.choice, b.choice);
}

void same_method_ui(DrawContext& context, const state::MethodChoice& a,
                    const state::MethodChoice& b) {
  if (a == b) widgets::text_wrapped(context.palette.warning, "A and B are the same method.");
}

std::vector<widgets::LegendItem> kept_by_legend(const widgets::Palette& palette) {
  std::vector<widgets::LegendItem> items;
  for (const KeptBy what : {KeptBy::AOnly, KeptBy::BOnly, KeptBy::Both, KeptBy::Neither})
    items.push_back(
        {fmt::format("kept by {}", state::label_of(what)), widgets::color_of(palette, what)});
  return items;
}

std::string letter_of_method(std::size_t index) {
  return index < state::kSlots.size() ? std::string(1, state::letter_of(state::kSlots[index]))
                                      : std::to_string(index + 1);
}

std::string as_many_as_fit(const std::vector<std::string>& numbers, float width) {
  for (std::size_t count = numbers.size(); count > 0; --count) {
    std::string text = fmt::format(
        "{}",
        fmt::join(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count), ", "));
    if (count == 1 || ImGui::CalcTextSize(text.c_str()).x <= width)
      return widgets::elided(text, width);
  }
  return "";
}

void method_line_ui(DrawContext& context, std::size_t index, const state::MethodChoice& method,
                    const std::vector<std::string>& numbers) {
  const std::string all = fmt::format("{}", fmt::join(numbers, ", "));
  const widgets::FontScope strong(widgets::Type::Strong);
  const float room = ImGui::GetContentRegionAvail().x - widgets::em(0.8F);
  const auto named = [&](const std::string& what) {
    return letter_of_method(index) + "  " + state::readable_name(what);
  };
  // The name goes before the numbers where both have no room.
  const float least = ImGui::CalcTextSize(named(method.id()).c_str()).x;
  const float beside = [&] {
    const widgets::FontScope plain(widgets::Type::Caption);
    return ImGui::CalcTextSize(all.c_str()).x;
  }();
  const float left = std::min(room, std::max(least, room - beside));
  const bool has_own = !state::own_name(context.workspace, method).empty();
  // Where a budget is all that sets it apart, the window names it as the cards do.
  const bool is_brief = !context.figure && method.known() &&
                        std::ranges::all_of(method.spec->not_default(), [](const auto& said) {
                          return said.first == "budget_tokens";
                        });
  std::string name = named(has_own || is_brief ? state::label_of(context.workspace, method)
                           : method.known()    ? replay::short_name(*method.spec)
                                               : method.text);
  if (!has_own && ImGui::CalcTextSize(name.c_str()).x > left) name = named(method.id());
  const ImU32 color = index < state::kSlots.size()
                          ? widgets::color_of_slot(context.palette, state::kSlots[index])
                          : context.palette.text;
  widgets::text_colored(color, widgets::elided(name, left));
  if (ImGui::IsItemHovered()) widgets::tooltip("%s", state::readable_name(method.text).c_str());
  ImGui::SameLine(0, widgets::em(0.8F));
  const widgets::FontScope plain(widgets::Type::Caption);
  widgets::text_colored(context.palette.muted,
                        as_many_as_fit(numbers, ImGui::GetContentRegionAvail().x));
  if (!context.figure && ImGui::IsItemHovered()) widgets::tooltip("%s", all.c_str());
}

void SteadyHead::end(const std::string& key) {
  const std::string wanted = fmt::format("{}|{}", ImGui::GetContentRegionAvail().x, key);
  const float height = ImGui::GetCursorScreenPos().y - top_;
  if (wanted != key_) tallest_ = 0;
  key_ = wanted;
  tallest_ = std::max(tallest_, height);
  ImGui::SetCursorScreenPos({ImGui::GetCursorScreenPos().x, top_ + tallest_});
}

}  // namespace kvloupe::panels
