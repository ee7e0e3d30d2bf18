#include "app/cli/completions.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <sstream>
#include <vector>

namespace kvloupe::cli {
namespace {

using Words = std::vector<std::string>;

// "-o,--output": -o --output; none of what is named by its place or hidden.
Words names_of(const Option& option) {
  Words names;
  if (option.group && option.group->empty()) return names;
  std::istringstream parts(option.names);
  for (std::string name; std::getline(parts, name, ',');)
    if (name.starts_with('-')) names.push_back(name);
  return names;
}

Words options_of(const Command& command) {
  Words all{"--help"};
  for (const Option& option : command.options)
    for (const std::string& name : names_of(option)) all.push_back(name);
  return all;
}

Words subcommands_of(const Command& command) {
  Words names;
  for (const Command& one : command.subcommands)
    if (!one.is_hidden) names.push_back(one.name);
  return names;
}

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.target); }

// One line of the help, to be set between single quotes.
std::string in_quotes(const std::string& text) {
  std::string all = "'";
  for (const char letter : text) {
    if (letter == '\'')
      all += "'\\''";
    else
      all += letter == '\n' ? ' ' : letter;
  }
  return all + "'";
}

// Each command with its words: "", "capture", "calibrate seer".
using Visit = std::function<void(const Command& command, const std::string& words)>;
void visit_all(const Command& command, const std::string& words, const Visit& visit) {
  visit(command, words);
  for (const Command& one : command.subcommands)
    if (!one.is_hidden) visit_all(one, words.empty() ? one.name : words + " " + one.name, visit);
}

// zsh runs it, too: it has no mapfile, and `words` and `options` are its own.
std::string bash_script(const Command& program) {
  std::string known, values, words;
  visit_all(program, "", [&](const Command& command, const std::string& called) {
    const Words below = subcommands_of(command);
    if (!below.empty())
      known += fmt::format("      {}) next='{}' ;;\n", in_quotes(called), fmt::join(below, " "));
    words += fmt::format("      {}) offered='{}' named='{}' ;;\n", in_quotes(called),
                         fmt::join(below, " "), fmt::join(options_of(command), " "));
    for (const Option& option : command.options)
      if (const auto* choices = std::get_if<OneOf>(&option.check))
        for (const std::string& name : names_of(option))
          values += fmt::format("    {}) offered='{}' ;;\n", in_quotes(called + "|" + name),
                                fmt::join(*choices, " "));
  });
  return fmt::format(R"(# What bash completes after kvloupe. Made by: kvloupe completions bash
_kvloupe() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} called='' next offered='' named='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next=''
    case $called in
{}    esac
    [[ " $next " == *" ${{COMP_WORDS[i]}} "* ]] && called="${{called:+$called }}${{COMP_WORDS[i]}}"
  done
  case "$called|$before" in
{}  esac
  if [[ -z $offered ]]; then
    case $called in
{}    esac
    if [[ $word == -* ]]; then offered=$named; fi
  fi
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}}
complete -o bashdefault -o default -F _kvloupe kvloupe
)",
                     known, values, words);
}

std::string zsh_script(const Command& program) {
  return "#compdef kvloupe\n"
         "# What zsh completes after kvloupe, by its own reading of what bash does. Made by: "
         "kvloupe completions zsh\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(program) +
         "# At the first word that is completed this file is the function.\n"
         "if [[ ${funcstack[1]-} == _kvloupe ]]; then\n"
         "  _bash_complete -o bashdefault -o default -F _kvloupe\n"
         "fi\n";
}

std::string fish_option(const std::string& when, const Option& option) {
  std::string line = fmt::format("complete -c kvloupe -n {}", in_quotes(when));
  const Words names = names_of(option);
  if (names.empty()) return "";
  for (const std::string& name : names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (const auto* choices = std::get_if<OneOf>(&option.check))
    line += fmt::format(" -x -a '{}'", fmt::join(*choices, " "));
  else if (!is_flag(option))
    line += " -r";
  return line + " -d " + in_quotes(option.help) + "\n";
}

std::string fish_script(const Command& program) {
  std::string script = "# What fish completes after kvloupe. Made by: kvloupe completions fish\n";
  visit_all(program, "", [&](const Command& command, const std::string& called) {
    std::string when = called.empty() ? "__fish_use_subcommand" : "";
    std::istringstream words(called);
    for (std::string word; words >> word;)
      when += (when.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
    for (const Command& one : command.subcommands)
      if (!one.is_hidden)
        script += fmt::format("complete -c kvloupe -n {} -a {} -d {}\n", in_quotes(when), one.name,
                              in_quotes(one.summary));
    for (const Option& option : command.options) script += fish_option(when, option);
  });
  return script;
}

}  // namespace

std::string completions_for(const Command& program, std::string_view shell) {
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  KVLOUPE_CHECK(shell == "fish");
  return fish_script(program);
}

}  // namespace kvloupe::cli
