// Layouts as files: one of a workspace each, to be exchanged. Those saved by name lie in the folder
// layouts beside the settings.
#pragma once

#include "app/shell/frame/layout.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::shell {

// What a file of a layout says that it is.
inline constexpr const char* kLayoutFormat = "kvloupe-layout";

inline constexpr std::size_t kLongestLayoutName = 60;
// Why a layout cannot have this name; empty: it can.
std::string problem_of_name(const std::string& name);

std::string text_of(const Layout& layout);
// Throws Error{Input}, whose sentence begins with `file`, for all that is no layout of this version.
Layout layout_of_text(const std::string& text, const std::string& file);

// From any thread. Throws Error{Input}.
Layout read_layout(const std::filesystem::path& path);
void write_layout(const std::filesystem::path& path, const Layout& layout);

std::filesystem::path layout_path(const std::string& name);
// Those saved, by name; what cannot be read is told in `problems`.
std::vector<Layout> saved_layouts(std::vector<std::string>& problems);

}  // namespace kvloupe::shell
