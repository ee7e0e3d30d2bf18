// Every method of the catalogue with every choice of its parameters: a method enters the shared
// tests by its line in the registry.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::selection::testing {

// SPECs with the given budget ("budget_tokens=24"), methods without one left out. One parameter
// differs from the defaults at a time.
std::vector<std::string> variants(const std::string& budget);
// The others: dense, and the methods that prune lanes.
std::vector<std::string> variants_without_budget();

}  // namespace kvloupe::selection::testing
