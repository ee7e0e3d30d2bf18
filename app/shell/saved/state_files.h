// The small files that the window keeps in its folders: read only where they are what they should be,
// written whole or not at all, and never the reason why a trace cannot be looked at.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <optional>
#include <string>

namespace kvloupe::shell {

// "" where there is none. Throws Error{Input}: no regular file, far too large, or it cannot be read.
std::string read_small_file(const std::filesystem::path& path);
// The same as JSON; throws Error{Input} also for a file that is not JSON. Null where there is no file.
nlohmann::ordered_json read_small_json(const std::filesystem::path& path);
// A file that cannot be written is told on standard error, once for each reason.
void write_small_file(const std::filesystem::path& path, const std::string& text);
// The same, where its caller says why it failed: throws Error.
void write_small_file_or_throw(const std::filesystem::path& path, const std::string& text);
std::string small_text_of(const nlohmann::ordered_json& json);
void write_small_json(const std::filesystem::path& path, const nlohmann::ordered_json& json);

// Names of files are any bytes: those that are no UTF-8 stand as an array of numbers.
nlohmann::ordered_json json_of_bytes(const std::string& bytes);
std::optional<std::string> bytes_of_json(const nlohmann::ordered_json& json);

}  // namespace kvloupe::shell
