// Finds and loads the engine, the shared library with everything that computes with Torch. What can be
// called in it stands in the tables of core/engine/engine.h and capture/engine.h.
#pragma once

#include <filesystem>

namespace kvloupe {

// Beside the library that this is in, or, linked statically, the program.
std::filesystem::path engine_file();

// Returns when the engine is loaded: at once if it was before, which costs one atomic read. From any
// thread; one loads, the others wait. Throws Error{Input} when the library is missing or damaged; a later
// call tries again. The loader's lock is held meanwhile: what opens a library of its own (OpenGL drivers)
// waits.
void load_engine();

// Never waits.
bool engine_loaded() noexcept;

// The table that the engine calls so; loads the engine. Throws as load_engine().
const void* engine_table(const char* name);

}  // namespace kvloupe
