// What the program calls by name (core/device/sim_plugin.cpp).
#include "core/cuda/sim/sim_device.h"
#include "core/device/sim_plugin_api.h"

extern "C" void kvloupe_register_sim_1() { kvloupe::sim::register_device(); }
extern "C" void kvloupe_sim_work_1(kvloupe::sim::Work* work) { *work = kvloupe::sim::work(); }
extern "C" std::size_t kvloupe_sim_allocated_bytes_1() { return kvloupe::sim::allocated_bytes(); }
