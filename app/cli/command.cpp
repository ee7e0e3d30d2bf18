#include "app/cli/command.h"

#include <algorithm>

namespace kvloupe::cli {

Option& Option::range(std::int64_t least, std::int64_t most) {
  check = IntRange{least, most};
  return *this;
}

Option& Option::finite_range(double least, double most) {
  check = FiniteRange{least, most};
  return *this;
}

Option& Option::one_of(OneOf words) {
  check = std::move(words);
  return *this;
}

Option& Option::required() {
  is_required = true;
  return *this;
}

Option& Option::show_default() {
  shows_default = true;
  return *this;
}
Option& Option::show_default(std::string_view text) {
  default_text = text;
  return *this;
}

Option& Option::repeated() {
  uses = Uses::Repeated;
  return *this;
}

Option& Option::listed() {
  uses = Uses::Listed;
  return *this;
}

Option& Option::between(int least, int most) {
  num_values = {least, most};
  return *this;
}

Option& Option::split_at(char letter) {
  delimiter = letter;
  return *this;
}

Option& Option::typed(std::string_view name) {
  type_name = name;
  return *this;
}

Option& Option::only_with(std::string_view option) {
  needs = option;
  return *this;
}

Option& Option::under(std::string_view heading) {
  group = heading;
  return *this;
}

bool Given::has(std::string_view option) const {
  return std::find(options.begin(), options.end(), option) != options.end();
}

Command::Command(std::string_view the_name, std::string_view the_summary)
    : name(the_name), summary(the_summary) {}
Command::Command(Command&&) noexcept = default;
Command& Command::operator=(Command&&) noexcept = default;
Command::~Command() = default;

Option& Command::option(std::string_view names, Target target, std::string_view help) {
  return options.emplace_back(Option{std::string(names), std::move(target), std::string(help)});
}

}  // namespace kvloupe::cli
