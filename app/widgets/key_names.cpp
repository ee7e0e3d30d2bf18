#include "app/widgets/key_names.h"

#include <utility>

namespace kvloupe::widgets {
namespace {

std::map<std::string, std::string>& all() {
  static std::map<std::string, std::string> names;
  return names;
}

}  // namespace

void set_key_names(std::map<std::string, std::string> names) { all() = std::move(names); }

std::string key_name(const std::string& command) {
  const auto found = all().find(command);
  return found != all().end() ? found->second : std::string();
}

std::string with_key(const std::string& words, const std::string& command) {
  const std::string key = key_name(command);
  return key.empty() ? words : words + " (" + key + ")";
}

}  // namespace kvloupe::widgets
