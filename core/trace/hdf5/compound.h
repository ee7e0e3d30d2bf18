// Members of compound datasets, each read apart from the others: texts of fixed or variable length, and numbers.
#pragma once

#include "core/trace/hdf5/hdf5.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::trace::h5 {

// Of the first `count` values of a vector. Throws Defect for a member that is absent or of another class.
std::vector<std::string> read_member_texts(const Dataset& dataset, const char* member,
                                           std::uint64_t count);
std::vector<std::int64_t> read_member_integers(const Dataset& dataset, const char* member,
                                               std::uint64_t count);
std::vector<double> read_member_floats(const Dataset& dataset, const char* member,
                                       std::uint64_t count);

}  // namespace kvloupe::trace::h5
