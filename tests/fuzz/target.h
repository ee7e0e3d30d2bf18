// A fuzz target is one file that defines read_input: it gives the input to the reader that the program uses. The reader
// may succeed or refuse it by an Error; everything else is a finding (target.cpp).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvloupe::fuzz {

// Throws Error for an input that the program refuses.
void read_input(std::string_view input);

// A file of this process with the input in it. TMPDIR says where: memory is fastest.
std::filesystem::path folder();
std::filesystem::path file_of(std::string_view input, const std::string& name = "input");

// For what a reader promises beside its sentence.
void require(bool holds, const char* promise);

}  // namespace kvloupe::fuzz
