#include "app/state/export_words.h"

#include "app/state/view_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kvloupe::state {
namespace {

// One for each name that any view knows, with what each view makes of it.
void add_options_of_views(std::vector<ExportOption>& options) {
  std::map<std::string, std::vector<std::string>> meanings;
  for (const ViewInfo& view : views())
    for (const ViewOption& option : view.options)
      meanings[option.name].push_back(
          fmt::format("{}: {} ({})", view.id, option.meaning, fmt::join(option.choices, ", ")));
  for (const auto& [name, of_views] : meanings)
    options.push_back({name, fmt::format("{}", fmt::join(of_views, "\n")), "", false, true});
}

// That were given by these names, as the fields of options have them.
Texts view_options(const std::string& view, const std::map<std::string, Texts>& given) {
  Texts texts;
  for (const ExportOption& option : export_options()) {
    const auto found = given.find(option.name);
    if (option.of_views && found != given.end() && !found->second.empty() &&
        !found->second.back().empty())
      texts.push_back(fmt::format("{}.{}={}", view, option.name, found->second.back()));
  }
  return texts;
}

}  // namespace

std::vector<ExportOption> export_options() {
  std::vector<ExportOption> options;
  for (const ViewField& field : view_fields())
    if (field.in(kCommand) && field.shape != ViewField::Shape::Named)
      options.push_back({std::string(field.word()), std::string(field.help),
                         std::string(field.default_text), field.shape == ViewField::Shape::Many});
  add_options_of_views(options);
  return options;
}

ViewState state_of_words(const std::string& trace, const std::map<std::string, Texts>& given) {
  ViewState what;
  what.trace = trace;
  for (const ViewField& field : view_fields()) {
    if (!field.in(kCommand)) continue;
    if (field.shape == ViewField::Shape::Named)
      field.read(what, view_options(what.view, given));
    else if (const auto found = given.find(std::string(field.word()));
             found != given.end() && !found->second.empty())
      field.read(what, found->second);
  }
  return what;
}

std::vector<std::string> export_arguments(const ViewState& what) {
  std::vector<std::string> arguments{"export", what.trace};
  const std::string prefix = what.view + ".";
  for (const ViewField& field : view_fields()) {
    if (!field.in(kCommand)) continue;
    for (const std::string& text : field.write(what)) {
      if (field.shape != ViewField::Shape::Named) {
        arguments.insert(arguments.end(), {fmt::format("--{}", field.word()), text});
        continue;
      }
      const std::size_t equals = text.find('=');
      if (text.starts_with(prefix))  // those of other views are not drawn
        arguments.insert(
            arguments.end(),
            {"--" + text.substr(prefix.size(), equals - prefix.size()), text.substr(equals + 1)});
    }
  }
  return arguments;
}

}  // namespace kvloupe::state
