// Scores that papers print of their own models: assets/papers/*.csv (README.md there). Plain data.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::analysis {

struct Paper {
  const char* id;  // the file is ID.csv
  const char* title;
  const char* source;
};
// In the order of a list.
std::span<const Paper> papers();
const Paper& paper_named(std::string_view id);  // KVLOUPE_CHECKs that there is one

// As printed; `doubt` says why the number may be wrong, and is empty where it seems right.
struct PublishedScore {
  std::string place, model, task, length, method, budget, metric, value, doubt;
};

// Throws Error{Input}: no such file, or not such a table.
std::vector<PublishedScore> read_published(const std::filesystem::path& file);

// Whether the score answers what people ask of an evaluation: how good the answers are, not how fast.
bool is_of_answers(const PublishedScore& score);
// "niah" of "kvloupe_niah", "longbench" of "longbench_qasper": tasks of one family measure the same. RULER's tasks are needles.
std::string task_family(std::string_view task);

}  // namespace kvloupe::analysis
