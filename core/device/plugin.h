// Libraries of ours that are loaded at run time, when their device is first asked for.
#pragma once

namespace kvloupe::device {

struct Plugin {
  const char* device;    // "the CUDA device", in messages
  const char* title;     // "CUDA plug-in"
  const char* file;      // in ../lib beside the program's folder
  const char* variable;  // environment variable that names another file
  const char* remedy;    // where it is missing: "install nvcc of CUDA 13 and build again"
};

// What the plug-in calls `symbol`. It stays loaded: what it registers with Torch cannot be taken back.
// Throws Error{Input} where the library is missing, does not load or has no such symbol.
void* load_symbol(const Plugin& plugin, const char* symbol);

// Of the last call of the loader that failed.
const char* loader_message();

inline constexpr const char* kUseCpu = "or use --device cpu";

}  // namespace kvloupe::device
