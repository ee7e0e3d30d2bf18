// The boundary to exceptions of the standard library and others.
#pragma once

#include "core/base/error.h"

#include <exception>
#include <string>

namespace kvloupe {

// What was thrown, as a sentence: memory, files and threads that the system refused, and a GPU that has
// no memory or failed, are Input; all else that is foreign is Internal. An Error stays what it is.
Error error_from(const std::string& what_failed, const std::exception& thrown);

// Whether a GPU failed, and will fail again until the program is started anew; not that its memory is full.
bool is_gpu_failure(const std::exception& thrown);

}  // namespace kvloupe
