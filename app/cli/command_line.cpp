#include "app/cli/command_line.h"

#include "core/base/error.h"
#include "core/base/results.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace kvloupe::cli {
namespace {

// The options of the whole program; a subcommand's help names them too.
class HelpText : public CLI::Formatter {
 public:
  std::string make_footer(const CLI::App* app) const override {
    const CLI::App* parent = app->get_parent();
    if (parent == nullptr || parent->get_parent() != nullptr) return Formatter::make_footer(app);
    std::string text = app->get_footer();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return (text.empty() ? "" : text + "\n\n") +
           "Every subcommand also takes --threads N, --memory-limit SIZE, --config-dir DIR,\n"
           "--quiet and --version; see kvloupe --help.\n";
  }
};

// CLI::Range lets NaN pass.
CLI::Validator validator_of(const FiniteRange& range) {
  const std::string text = fmt::format("from {} to {}", range.least, range.most);
  return {[=](std::string& word) {
            const auto number = parse_double(word);
            const bool fits = number && *number >= range.least && *number <= range.most;
            return fits ? std::string() : fmt::format("{} is not a number {}", word, text);
          },
          "NUMBER " + text};
}
CLI::Validator validator_of(const IntRange& range) { return CLI::Range(range.least, range.most); }
CLI::Validator validator_of(const OneOf& words) { return CLI::IsMember(words); }

// CLI11 reads 010 as 8 and gives -1 to who takes no sign.
template <typename T>
CLI::Validator whole_number() {
  return {[](std::string& word) -> std::string {
            const std::optional<std::int64_t> number = parse_int(word);
            if (!number) return fmt::format("{} is not a whole number", word);
            if (!std::in_range<T>(*number))
              return fmt::format("{} is too {}", word, *number < 0 ? "small" : "large");
            word = std::to_string(*number);
            return "";
          },
          ""};
}

// What an option's words become: an int for int* and std::optional<int>*.
template <typename T>
struct ReadAs {
  using Value = T;
};
template <typename T>
struct ReadAs<std::optional<T>> {
  using Value = T;
};

// First of all that looks at the words.
void read_whole_numbers(CLI::Option& made, const Option& option) {
  const auto read = [&](const auto& target) {
    using Value = typename ReadAs<std::remove_pointer_t<std::decay_t<decltype(target)>>>::Value;
    if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>)
      made.transform(whole_number<Value>());
  };
  std::visit(read, option.target);
}

CLI::Option* added(CLI::App& app, const Option& option) {
  const auto add = [&](const auto& target) {
    using T = std::decay_t<decltype(target)>;
    if constexpr (!std::is_pointer_v<T>)
      return app.add_option_function<std::string>(option.names, target, option.help);
    else if constexpr (std::is_same_v<T, bool*>)
      return app.add_flag(option.names, *target, option.help);
    else
      return app.add_option(option.names, *target, option.help);
  };
  return std::visit(add, option.target);
}

void add_option(CLI::App& app, const Option& option) {
  CLI::Option* made = added(app, option);
  const auto check = [&](const auto& rule) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(rule)>, std::monostate>)
      made->check(validator_of(rule));
  };
  made->required(option.is_required);
  if (option.uses == Option::Uses::Repeated)
    made->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (option.uses == Option::Uses::Listed) made->allow_extra_args(false);
  if (option.num_values) made->expected(option.num_values->first, option.num_values->second);
  if (option.delimiter != '\0') made->delimiter(option.delimiter);
  if (!option.type_name.empty()) made->type_name(option.type_name);
  if (!option.needs.empty()) made->needs(app.get_option(option.needs));
  if (option.group) made->group(*option.group);
  std::visit(check, option.check);
  read_whole_numbers(*made, option);
  if (option.shows_default) made->capture_default_str();
  if (!option.default_text.empty()) made->default_str(option.default_text);
}

void add_to(CLI::App& app, const Command& command) {
  for (const Option& option : command.options) add_option(app, option);
  if (!command.footer.empty()) app.footer(command.footer);
  if (command.made_footer) app.footer(command.made_footer);
  if (command.is_hidden) app.group("");
  if (command.subcommands.empty()) return;
  app.require_subcommand(0, 1);
  for (const Command& subcommand : command.subcommands)
    add_to(*app.add_subcommand(subcommand.name, subcommand.summary), subcommand);
}

std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    names.push_back(option->get_name());
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// False: the words ask for help or the version, which is told.
bool parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    results::add_text(app.help());
  } catch (const CLI::CallForAllHelp&) {
    results::add_text(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::CallForVersion& version) {
    results::print("{}\n", version.what());
  } catch (const CLI::ParseError& error) {
    // CLI11 words the first two parts.
    throw usage_error("the command line is wrong", error.what(), "see kvloupe --help");
  }
  return false;
}

Given given_of(const CLI::App& app) {
  const auto below = app.get_subcommands();
  Given given{below.empty() ? "" : below.front()->get_name(), given_options(app), {}};
  if (app.get_parent() != nullptr) given.outer_options = given_options(*app.get_parent());
  return given;
}

// The innermost one that the words name.
void run_called(const CLI::App& app, const Command& command) {
  const Given given = given_of(app);
  for (const Command& subcommand : command.subcommands)
    if (subcommand.name == given.subcommand)
      return run_called(*app.get_subcommands().front(), subcommand);
  command.run(given);
}

}  // namespace

void run_command_line(const Command& program, int argc, char** argv,
                      const std::function<void(const Given&)>& before_any) {
  CLI::App app{program.summary, program.name};
  app.formatter(std::make_shared<HelpText>());
  app.fallthrough();
  add_to(app, program);
  app.set_version_flag("--version", std::string("kvloupe ") + KVLOUPE_VERSION);
  if (!parse(app, argc, argv)) return;
  before_any(given_of(app));
  run_called(app, program);
}

}  // namespace kvloupe::cli
