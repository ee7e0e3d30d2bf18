// What may be written where: asked before the work that fills a file begins, and for every file that
// a user names. An output is never an input of the call, nor anything that belongs to one, however
// the two are spelt or linked.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe {

// The folder that holds the path, "." where it names none.
std::filesystem::path folder_of(const std::filesystem::path& path);

// What is written under the name: the file that a link leads to, also one that is not there yet.
// Throws Error{Input} for links in a circle.
std::filesystem::path output_target(const std::filesystem::path& path);

// "-", and any name of the file that standard output is.
bool is_standard_output(const std::filesystem::path& path);

// `inputs` are the files that the call reads; a folder stands for the files in it.
using InputFiles = std::vector<std::filesystem::path>;

// A picture or table. It goes to standard output ("-") and through a device or FIFO, and replaces a
// file, an HDF5, GGUF or safetensors file only with `force`. Throws Error{Input}: an input, such a
// file (`remedy` says what to do then), a folder, a write-protected file, or a place in no folder
// that one may write to.
void check_result_file(const std::filesystem::path& path, const InputFiles& inputs, bool force,
                       const std::string& remedy = "give another name, or --force to replace it");

// What takes long to make again: it replaces nothing without `force` and needs a regular file.
// `what` the file is, "a trace", and `writer`, "a capture", are for the message. Throws Error{Input}
// as above, and Error{Usage} for "-".
void check_output_file(const std::filesystem::path& path, const std::string& what,
                       const std::string& writer, const InputFiles& inputs, bool force);

// The same of a file that a method SPEC names: also throws Error{Usage} where its path has a comma.
void check_calibration_file(const std::filesystem::path& path, const std::string& what,
                            const InputFiles& inputs, bool force);

}  // namespace kvloupe
