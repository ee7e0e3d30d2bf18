// How fast the window is: time until a trace is on screen, and frame times while scrubbing, in the
// Explore workspace drawn without a display.
#pragma once

#include "core/base/memory_account.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct FrameBenchOptions {
  int width = 1600;
  int height = 900;
  float scale = 1.0F;
  int frames = 240;  // measured while scrubbing, a chunk a frame, there and back
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
};

struct FrameBenchReport {
  double open_s = 0;  // window up -> kv_map, token strip and the chunk's attention rows drawn
  std::vector<double> frame_ms;  // in the order measured
  double median_ms = 0, p99_ms = 0, max_ms = 0;
  // Of the drawing thread's processor time, however busy the machine is. LP_NUM_THREADS=0 makes it include
  // what Mesa draws in threads of its own.
  double median_cpu_ms = 0, p99_cpu_ms = 0;
  std::uint64_t most_memory = 0;  // anonymous, resident, of the process while scrubbing; in bytes
  std::string renderer;           // what OpenGL says it is
};

// Throws Error{Input} when the trace cannot be opened or nothing can draw.
FrameBenchReport measure_frames(const std::string& trace, const FrameBenchOptions& options);

}  // namespace kvloupe::shell
