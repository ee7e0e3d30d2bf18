// Models that the program fetches when they are asked for by name: those whose terms a user has to
// accept first. No set-up fetches them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kvloupe::capture {

struct OptionalModel {
  std::string_view name;  // as --model takes it
  std::string_view title;
  std::string_view terms;  // what they are called, and where they can be read
  std::string_view file;   // in the folder of fetched models
  int megabytes = 0;       // of the download
};

std::span<const OptionalModel> optional_models();
// Null for other names.
const OptionalModel* find_optional_model(std::string_view name);
// models/ in the cache folder.
std::filesystem::path folder_of_fetched_models();
// Where it is once it has been fetched.
std::filesystem::path file_of(const OptionalModel& model);
// Fetches it, where it is not there. Throws Error{Input}: terms not accepted, no network, disk full.
void fetch(const OptionalModel& model, bool terms_accepted);

}  // namespace kvloupe::capture
