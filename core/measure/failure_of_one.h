// Where several things are measured one after the other: by what one of them failed.
#pragma once

#include "core/base/error.h"

#include <exception>
#include <string>

namespace kvloupe::measure {

// What was thrown, as a sentence, where what comes after it may go well: of kind Input, such as memory that
// it alone does not get. Throws it on as it came where the others would fail, too, or are not wanted: a GPU that
// failed, Ctrl+C, a bug of ours. Call it in a handler of `thrown` only.
Error failure_of_one(const std::string& what_failed, const std::exception& thrown);

}  // namespace kvloupe::measure
