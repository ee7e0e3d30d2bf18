// A subcommand and its options, as data. Only command_line.cpp, which reads the command line by them, includes CLI11: its
// headers take up to ten seconds to compile.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvloupe::cli {

// Where the value of an option goes; it outlives the command. A bool makes a flag. A function is called
// with the text, and throws where that is wrong.
using Target =
    std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                 std::filesystem::path*, std::optional<int>*, std::optional<std::int64_t>*,
                 std::vector<std::string>*, std::function<void(const std::string&)>>;

struct IntRange {
  std::int64_t least, most;
};
struct FiniteRange {
  double least, most;
};
using OneOf = std::vector<std::string>;

// The setters return the option, so that one line declares it.
struct Option {
  enum class Uses { Default, Repeated, Listed };

  std::string names;  // "-o,--output", or "trace": a word without a name, by its place
  Target target;
  std::string help;
  std::variant<std::monostate, IntRange, FiniteRange, OneOf> check = {};
  bool is_required = false;
  bool shows_default = false;     // what the target holds
  std::string default_text = {};  // shown in its place
  Uses uses = Uses::Default;
  std::optional<std::pair<int, int>> num_values = {};
  char delimiter = '\0';
  std::string type_name = {};             // in the help; empty: that of the target
  std::string needs = {};                 // another option
  std::optional<std::string> group = {};  // its heading in the help; "": hidden

  Option& range(std::int64_t least, std::int64_t most);
  Option& finite_range(double least, double most);  // no NaN, either
  Option& one_of(OneOf words);
  Option& required();
  Option& show_default();
  Option& show_default(std::string_view text);
  Option& repeated();  // one value each time that it is written, any number of times
  Option& listed();    // likewise, of a list that its help shows as one: TEXT ...
  Option& between(int least, int most);  // so many values
  Option& split_at(char letter);
  Option& typed(std::string_view name);
  Option& only_with(std::string_view option);
  Option& under(std::string_view heading);
};

// What a call names.
struct Given {
  std::string subcommand;                  // empty: none
  std::vector<std::string> options;        // of the command, by all long names
  std::vector<std::string> outer_options;  // of the command whose subcommand it is
  bool has(std::string_view option) const;
};

struct Command {
  std::string name, summary;
  std::deque<Option> options;  // where an option stays in its place as others join
  std::vector<Command> subcommands;
  bool is_hidden = false;
  std::string footer;                        // of its help
  std::function<std::string()> made_footer;  // one that is made when the help is asked for
  std::function<void(const Given&)> run;     // not where one of its subcommands is called

  Command(std::string_view name, std::string_view summary);
  Command(Command&&) noexcept;
  Command& operator=(Command&&) noexcept;
  ~Command();

  Option& option(std::string_view names, Target target, std::string_view help);
};

}  // namespace kvloupe::cli
