// Files that appear whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace kvloupe::shell {

// Writes beside the file and renames. Throws Error{Input}.
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace kvloupe::shell
