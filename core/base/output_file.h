// What is asked of a file's place before the work that fills it begins.
#pragma once

#include <filesystem>
#include <string>

namespace kvloupe {

// The folder that holds the path, "." where it names none.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Throws Error{Input}: the path is a folder, exists and may not be overwritten, or lies in no folder
// that one may write to. `what` the file is, "a trace", and `writer`, "a capture", are for the message.
void check_output_file(const std::filesystem::path& path, const std::string& what,
                       const std::string& writer, bool force);

// The same of a file that a method SPEC names: also throws Error{Usage} where its path has a comma.
void check_calibration_file(const std::filesystem::path& path, const std::string& what, bool force);

}  // namespace kvloupe
