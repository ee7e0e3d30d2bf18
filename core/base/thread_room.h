// How many threads a computation may have.
#pragma once

namespace kvloupe {

// One for each core.
int default_threads();

// Throws Error{Input} where the system does not let the process start `count` threads now. For
// libraries that end the program when a thread cannot be started.
void require_threads(int count);

}  // namespace kvloupe
