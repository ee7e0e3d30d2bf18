#include "app/state/view_fields.h"

#include "app/state/perspectives.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/device/default_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kvloupe::state {
namespace {

Texts unless_empty(const std::string& text) { return text.empty() ? Texts{} : Texts{text}; }

template <typename Value>
Texts unless(const Value& value, const Value& by_default, const std::string& text) {
  return value == by_default ? Texts{} : Texts{text};
}

Error not_valid(std::string_view option, const std::string& text, const std::string& why,
                const std::string& remedy) {
  return usage_error(fmt::format("--{} {} is not valid", option, printable(text)), why, remedy);
}

void read_chunk_size(ViewState& what, const Texts& texts) {
  constexpr std::int64_t kMost = 1 << 24;
  const auto size = parse_int(texts.front());
  if (!size || *size < 1 || *size > kMost)
    throw not_valid("chunk-size", texts.front(),
                    fmt::format("it is a whole number from 1 to {}", kMost),
                    "write --chunk-size 128");
  what.chunk_size = static_cast<int>(*size);
}

void read_shown(ViewState& what, const Texts& texts) {
  for (const Slot slot : kSlots)
    if (texts.front() == std::string(1, letter_of(slot))) {
      what.shown = slot;
      return;
    }
  throw not_valid("shown", texts.front(), "there are two", "write A or B");
}

void read_perspective(ViewState& what, const Texts& texts) {
  if (find_perspective(texts.front()) == nullptr)
    throw not_valid("workspace", texts.front(), "no workspace has this id", "leave it out");
  what.perspective = texts.front();
}

std::string theme_text(ThemeKind theme) { return theme == ThemeKind::Dark ? "dark" : "light"; }

void read_theme(ViewState& what, const Texts& texts) {
  for (const ThemeKind theme : {ThemeKind::Light, ThemeKind::Dark})
    if (texts.front() == theme_text(theme)) {
      what.picture.theme = theme;
      return;
    }
  throw not_valid("theme", texts.front(), "there are two", "write light or dark");
}

Texts write_size(const ViewState& what) {
  const PictureForm& form = what.picture;
  const bool usual = form.width == PictureForm{}.width && form.height == PictureForm{}.height;
  return usual ? Texts{} : Texts{fmt::format("{}x{}", form.width, form.height)};
}

void read_size(ViewState& what, const Texts& texts) {
  const std::string& text = texts.front();
  const std::size_t cross = text.find('x');
  const auto width = parse_int(text.substr(0, cross));
  const auto height = cross == std::string::npos ? std::nullopt : parse_int(text.substr(cross + 1));
  constexpr int kLeast = 64, kMost = 32768;
  if (!width || !height || *width < kLeast || *height < kLeast || *width > kMost || *height > kMost)
    throw usage_error(
        fmt::format("the size '{}' is not understood", printable(text)),
        fmt::format("width and height are whole numbers from {} to {}", kLeast, kMost),
        "write --size 1600x900");
  what.picture.width = static_cast<int>(*width);
  what.picture.height = static_cast<int>(*height);
}

// A number from least to most, of the option.
double read_number(std::string_view option, const std::string& text, double least, double most,
                   const std::string& example) {
  const auto number = parse_double(text);
  // So that no NaN passes.
  if (!number || !(*number >= least && *number <= most))
    throw not_valid(option, text, fmt::format("it is a number from {} to {}", least, most),
                    fmt::format("write --{} {}", option, example));
  return *number;
}

void read_scale(ViewState& what, const Texts& texts) {
  what.picture.scale = read_number("scale", texts.front(), 0.25, 8, "2");
}

Texts write_column(const ViewState& what) {
  const double width = what.picture.column_cm;
  return width > 0 ? Texts{fmt::format("{}cm", width)} : Texts{};
}

void read_column(ViewState& what, const Texts& texts) {
  std::string text = texts.front();
  double to_cm = 1;
  for (const auto& [unit, cm] : {std::pair{"cm", 1.0}, std::pair{"mm", 0.1}, std::pair{"in", 2.54},
                                 std::pair{"pt", 2.54 / 72}})
    if (text.ends_with(unit)) {
      text.erase(text.size() - 2);
      to_cm = cm;
      break;
    }
  const auto width = parse_double(text);
  constexpr double kLeast = 2, kMost = 120;
  if (!width || !(*width * to_cm >= kLeast && *width * to_cm <= kMost))
    throw not_valid("column", texts.front(),
                    fmt::format("it is a width from {} to {} cm; cm, mm, in and pt are its units",
                                kLeast, kMost),
                    "write --column 8.4cm");
  what.picture.column_cm = *width * to_cm;
}

void read_head(ViewState& what, const Texts& texts) {
  const std::string& text = texts.front();
  if (text != "full" && text != "none")
    throw not_valid("head", text, "a figure has all of its head, or none", "write full or none");
  what.picture.head = text == "full";
}

void read_colors(ViewState& what, const Texts& texts) {
  const std::string& text = texts.front();
  if (text != "usual" && text != "gray")
    throw not_valid("palette", text, "there are two", "write usual or gray");
  what.picture.colors = text == "gray" ? Colors::Gray : Colors::Usual;
}

Texts write_options(const ViewState& what) {
  Texts texts;
  for (const auto& [name, value] : what.options) texts.push_back(name + "=" + value);
  return texts;
}

void read_options(ViewState& what, const Texts& texts) {
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    what.options[text.substr(0, equals)] =
        equals == std::string::npos ? std::string() : text.substr(equals + 1);
  }
}

// Versions that kept A and B apart from the others wrote these here.
void read_more(ViewState& what, const Texts& texts) {
  if (what.methods.size() < kSlots.size()) what.methods.resize(kSlots.size());
  what.methods.insert(what.methods.end(), texts.begin(), texts.end());
}

constexpr const char* kMethodsHelp =
    "method SPEC, or a recorded run: run:N, or what it is called; given twice: the methods A and "
    "B; "
    "further ones for budget_sweep, method_compare and needle_grid, and for views with --show "
    "several. A method that takes a budget and "
    "names none has budget_tokens=1024; with no method given and none recorded, quoka and oracle "
    "are "
    "shown with 1,024, or an eighth of the tokens where the trace has no more than these";

std::vector<ViewField> make_fields() {
  using S = ViewState;
  using Shape = ViewField::Shape;
  return {
      {"trace", "", "trace file", Shape::One, kKept,
       [](const S& s) { return unless_empty(s.trace); },
       [](S& s, const Texts& t) { s.trace = t.front(); }},
      {"view", "", "view id, see kvloupe views", Shape::One, kCommand | kLink,
       [](const S& s) { return unless_empty(s.view); },
       [](S& s, const Texts& t) { s.view = t.front(); }},
      {"goto", "",
       "place, for example layer=3,q_head=5,chunk=12; span=A-B or span=NAME watches keys, "
       "span=none not even the needle, key=40-52+60 those at these positions; query=2014 and "
       "queries=2010-2014+2020 select queries",
       Shape::One, kAllCarriers, [](const S& s) { return unless_empty(goto_text(s.place)); },
       [](S& s, const Texts& t) { s.place = parse_goto(t.front()); }},
      {"methods", "method", kMethodsHelp, Shape::Many, kAllCarriers,
       [](const S& s) { return s.methods; }, [](S& s, const Texts& t) { s.methods = t; }},
      {"more", "", "", Shape::Many, kKept, [](const S&) { return Texts{}; }, read_more},
      {"tried", "", "", Shape::Many, kKept, [](const S& s) { return s.tried; },
       [](S& s, const Texts& t) { s.tried = t; }},
      {"shown", "", "which of A and B is shown, in its colour, where a view shows one (default A)",
       Shape::One, kAllCarriers,
       [](const S& s) { return unless(s.shown, Slot::A, std::string(1, letter_of(s.shown))); },
       read_shown},
      {"numbers", "",
       "the chunks that numbers are over: chunk (the one shown), question (from the question on), "
       "all, or chunks such as 12-15; without it each view has its own",
       Shape::One, kAllCarriers,
       [](const S& s) { return unless(s.numbers, NumberScope{}, text_of(s.numbers)); },
       [](S& s, const Texts& t) { s.numbers = parse_number_scope(t.front()); }},
      {"options", "", "", Shape::Named, kAllCarriers, write_options, read_options},
      {"workspace", "", "", Shape::One, kKept,
       [](const S& s) { return unless_empty(s.perspective); }, read_perspective},
      {"device", "", kDeviceHelp, Shape::One, kAllCarriers,
       [](const S& s) { return unless(s.device, std::string(device::kDefault), s.device); },
       [](S& s, const Texts& t) { s.device = t.front(); }, device::kDefault},
      {"other_trace", "other-trace", "another trace, for views that draw one beside the first",
       Shape::One, kAllCarriers, [](const S& s) { return unless_empty(s.other_trace); },
       [](S& s, const Texts& t) { s.other_trace = t.front(); }},
      {"chunk_size", "chunk-size", kChunkSizeHelp, Shape::One, kCommand,
       [](const S& s) { return s.chunk_size ? Texts{fmt::to_string(*s.chunk_size)} : Texts{}; },
       read_chunk_size},
      {"theme", "", "light or dark (default light)", Shape::One, kAllCarriers,
       [](const S& s) {
         return unless(s.picture.theme, PictureForm{}.theme, theme_text(s.picture.theme));
       },
       read_theme},
      {"palette", "",
       "usual, or gray: shades that a print without colour keeps apart (default usual)", Shape::One,
       kCommand,
       [](const S& s) { return s.picture.colors == Colors::Gray ? Texts{"gray"} : Texts{}; },
       read_colors},
      {"size", "", "pixels at scale 1 (default 1600x900, and higher where the view needs it)",
       Shape::One, kAllCarriers, write_size, read_size},
      {"scale", "", "multiplies the size and sharpens (default 1)", Shape::One, kAllCarriers,
       [](const S& s) {
         return unless(s.picture.scale, PictureForm{}.scale, fmt::to_string(s.picture.scale));
       },
       read_scale},
      {"column", "", "the width on paper, such as 8.4cm, in place of --size (pixels have 300 dpi)",
       Shape::One, kCommand, write_column, read_column},
      {"font_size", "font-size", "points of the text on paper, with --column (default 6)",
       Shape::One, kCommand,
       [](const S& s) {
         return unless(s.picture.font_pt, PictureForm{}.font_pt, fmt::to_string(s.picture.font_pt));
       },
       [](S& s, const Texts& t) {
         s.picture.font_pt = read_number("font-size", t.front(), 3, 30, "6");
       }},
      {"font", "", "a font family of this machine for the text (default Inter)", Shape::One,
       kCommand, [](const S& s) { return unless_empty(s.picture.font); },
       [](S& s, const Texts& t) { s.picture.font = t.front(); }},
      {"head", "",
       "none leaves out title, caption and chips, for a figure whose text says them (default full)",
       Shape::One, kCommand, [](const S& s) { return s.picture.head ? Texts{} : Texts{"none"}; },
       read_head},
      {"panels", "panel",
       "one panel of several: what differs in it, as in method=quoka;goto=chunk=12; given once for "
       "each, in order",
       Shape::Many, kCommand, [](const S& s) { return s.panels; },
       [](S& s, const Texts& t) { s.panels = t; }},
  };
}

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) text += c == ';' ? "%3B" : c == '%' ? "%25" : std::string(1, c);
  return text;
}

std::string unescaped(std::string text) {
  for (const auto& [code, letter] : {std::pair{"%3B", ";"}, std::pair{"%25", "%"}})
    for (std::size_t at = 0; (at = text.find(code, at)) != std::string::npos; ++at)
      text.replace(at, 3, letter);
  return text;
}

const ViewField* field_of_link(const std::string& name) {
  for (const ViewField& field : view_fields()) {
    const bool named = field.shape == ViewField::Shape::Named;
    if (field.in(kLink) && (named ? name.find('.') != std::string::npos : field.word() == name))
      return &field;
  }
  return nullptr;
}

}  // namespace

const std::vector<ViewField>& view_fields() {
  static const std::vector<ViewField> fields = make_fields();
  return fields;
}

std::string link_text(const ViewState& what) {
  Texts items;
  for (const ViewField& field : view_fields()) {
    if (!field.in(kLink)) continue;
    for (const std::string& text : field.write(what)) {
      if (field.name == "goto")  // what it points to comes first, and needs no name
        items.insert(items.begin(), escaped(text));
      else if (field.shape == ViewField::Shape::Named)
        items.push_back(escaped(text));
      else
        items.push_back(fmt::format("{}={}", field.word(), escaped(text)));
    }
  }
  return fmt::format("{}", fmt::join(items, ";"));
}

ViewState parse_link(const std::string& text, const ViewState& base) {
  std::map<const ViewField*, Texts> given;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string item = text.substr(at, end - at);
    const bool is_first = at == 0;
    at = end + 1;
    const std::string name = item.substr(0, item.find('='));
    const ViewField* field = field_of_link(name);
    std::size_t value_at = name.size() + 1;
    if (field == nullptr && is_first) {
      field = field_of_link("goto");
      value_at = 0;
    }
    if (field == nullptr || (value_at > 0 && name.size() == item.size()))
      throw usage_error(fmt::format("'{}' is no part of a link", printable(item)),
                        "a place is followed by names and values, with ; between them",
                        "write it as in layer=3,chunk=12;method=quoka;device=cpu");
    Texts& texts = given[field];
    if (field->shape == ViewField::Shape::One && !texts.empty())
      throw usage_error(fmt::format("the link says {} twice", field->word()),
                        "only one of the two can be shown", "leave one out");
    if (field->shape == ViewField::Shape::Named) value_at = 0;
    texts.push_back(unescaped(item.substr(value_at)));
  }
  ViewState what = base;
  for (const ViewField& field : view_fields())
    if (const auto found = given.find(&field); found != given.end())
      field.read(what, found->second);
  return what;
}

}  // namespace kvloupe::state
