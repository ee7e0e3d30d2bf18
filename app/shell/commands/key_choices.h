// The keys that the user gave to commands in place of their defaults.
#pragma once

#include "app/shell/commands/command_list.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::shell {

// "Ctrl+Shift+T" by id of the command; "": it has no keys. Commands that are not listed have their defaults.
using KeyChoices = std::map<std::string, std::string>;

std::string text_of(ImGuiKeyChord chord);
// Of such a text; nothing for any other.
std::optional<ImGuiKeyChord> chord_of(std::string_view text);

// Gives all commands the keys chosen, or their own.
void apply_keys(const KeyChoices& choices, std::vector<Command>& commands);
// The command that has these keys now; null: none.
const Command* holder_of(ImGuiKeyChord chord, const std::vector<Command>& commands);

}  // namespace kvloupe::shell
