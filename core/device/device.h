// The devices that tensor work can run on: what they are called, how many threads they have, how
// fast they read memory.
#pragma once

#include "core/base/compute_type.h"
#include "core/device/default_device.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::device {

enum class DeviceKind {
  Cpu,
  Cuda,
  Sim,  // a GPU's operators in host memory (core/cuda/sim): its times mean nothing
};
struct DeviceId {
  DeviceKind kind = DeviceKind::Cpu;
  int index = 0;
};
// "cpu", "cuda", "cuda:N" or "sim". Throws Error{Usage} for anything else.
DeviceId parse_device(const std::string& text);

struct DeviceInfo {
  std::string id;    // "cpu", "cuda:0", "sim"
  std::string name;  // "AMD EPYC", "NVIDIA H200"
  int threads = 0;   // CPU threads that tensor work uses; 0 for a CUDA device
  DeviceKind kind = DeviceKind::Cpu;

  std::string label() const {  // "cpu, 2 threads (AMD EPYC)"
    if (threads == 0) return id + " (" + name + ")";
    return id + ", " + std::to_string(threads) + (threads == 1 ? " thread (" : " threads (") +
           name + ")";
  }
};
// Makes the device ready (torch_device.h names it to Torch); for a CUDA device this loads Torch's
// CUDA libraries and our plug-in.
// Throws Error{Input} when the device, the driver, a library or the plug-in is missing.
DeviceInfo open_device(const std::string& text);

// What can be computed on here, and what cannot and why: the CPU, `sim`, each CUDA device that the
// driver lists; where there is none, one row `cuda`. Loads Torch's CUDA part where that is possible.
struct ListedDevice {
  DeviceInfo info;
  std::string reason;              // why it cannot be used; empty: it can
  std::uint64_t memory_bytes = 0;  // of the whole device; 0: not known
  bool available() const { return reason.empty(); }
};
std::vector<ListedDevice> list_devices();

// Bytes a second that all threads together read from memory, the best of a few sweeps over a block
// far larger than the caches. Takes about a quarter of a second; CPU.
double measure_read_bandwidth();

// Floating-point operations a second of a plain matrix product with all threads, the best of a few.
// Takes about a second; CPU.
double measure_peak_flops(ComputeType type = ComputeType::Fp32);

// Whether this processor multiplies matrices of the type; all do of fp32.
bool multiplies(ComputeType type);

// Bytes of memory that can be had without swapping; of a GPU what other programs and tensors leave.
double available_memory(const std::string& device = kDefault);

}  // namespace kvloupe::device
