// The engine: everything that computes with Torch, one shared library beside the program (its modules
// are listed in the root's CMakeLists.txt). Starting Torch takes a quarter of a second, so the program
// is linked to the engine but loads it only here, when it first computes. Reading a trace and the runs
// recorded in it, and what is known of methods, are in libkvloupe_core and do without. Where the engine
// is linked as any other library (tests, sanitizer builds) these functions find it loaded.
#pragma once

namespace kvloupe {

// Returns when the engine can be called: at once if it was loaded before, which costs one atomic read.
// From any thread; one loads, the others wait. Until it has returned once, a call of any function of
// the engine ends the program ("symbol lookup error"); its plain structs are free to use.
// Throws Error{Input} when the library is missing or damaged; a later call tries again.
// The loader's lock is held meanwhile: what opens a library of its own (OpenGL drivers) waits.
void load_engine();

// Never waits.
bool engine_loaded() noexcept;

}  // namespace kvloupe
