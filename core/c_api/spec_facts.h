// What a SPEC says, as JSON, for programs that run a method by its selector (kvloupe_spec_facts of kvloupe.h). Torch-free.
#pragma once

#include <string>
#include <string_view>

namespace kvloupe::c_api {

// Throws Error{Usage} for a text that is no SPEC.
std::string spec_facts(std::string_view spec);

}  // namespace kvloupe::c_api
