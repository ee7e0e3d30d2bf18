// The keys that commands have now, for words that name them: "Play (Space)".
#pragma once

#include <map>
#include <string>

namespace kvloupe::widgets {

// By id of the command.
void set_key_names(std::map<std::string, std::string> names);
// "Ctrl+O"; "" where the command has none.
std::string key_name(const std::string& command);
// "Play (Space)", or "Play".
std::string with_key(const std::string& words, const std::string& command);

}  // namespace kvloupe::widgets
