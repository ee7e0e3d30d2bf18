// Which file a model's name means.
#pragma once

#include <filesystem>
#include <string>

namespace kvloupe::capture {

// What load_model (model.h) reads; it may not be there.
std::filesystem::path file_of_model(const std::string& name_or_path);

}  // namespace kvloupe::capture
