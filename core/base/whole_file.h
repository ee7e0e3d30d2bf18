// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace kvloupe {

// Writes beside the path and renames: never leaves half a file under the final name. Throws
// Error{Input}.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kvloupe
