// What `kvloupe compare` prints.
#pragma once

#include "core/replay/compare.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

struct CompareReport {
  replay::Comparison comparison;
  std::string cells, weights;  // as asked for
  std::optional<int> chunk_size;
  std::vector<std::string> axes;  // names of what is swept
  bool has_target = false;
};

// The number of a row that the CSV calls so; null: it has none of that name.
std::optional<double> replay::CompareRow::*number_named(const std::string& name);

std::string compare_json(const CompareReport& report);
std::string compare_csv(const CompareReport& report);
std::string compare_text(const CompareReport& report);  // for people

}  // namespace kvloupe::cli
