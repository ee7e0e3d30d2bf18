#include "core/measure/peaks.h"

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/device/scalar_type.h"
#include "core/device/torch_device.h"
#include "core/measure/timing.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace kvloupe::measure {
namespace {

double quickest_ms(const RoundTimes& times, std::size_t part, c10::Device device) {
  const std::vector<double>& samples = times.samples_ms[part];
  if (samples.empty())
    throw input_error(fmt::format("the peaks of {} cannot be measured", device.str()),
                      "its clocks were held down, or other threads of the program were busy, in "
                      "every round",
                      "let the GPU cool down and try again");
  return *std::ranges::min_element(samples);
}

Peaks measured(c10::Device device, ComputeType type) {
  if (!device.is_cuda()) return {device::measure_read_bandwidth(), device::measure_peak_flops()};
  constexpr std::int64_t kNumbers = 1 << 28, kSize = 4096;
  // Random: a chip that multiplies the same bits again and again takes less power, and clocks higher.
  const at::Tensor numbers = at::rand({kNumbers}, at::dtype(at::kFloat).device(device));
  const at::Tensor matrix =
      numbers.narrow(0, 0, kSize * kSize).view({kSize, kSize}).to(scalar_type(type));
  // So often that what the host takes to begin is nothing beside it.
  constexpr int kTimes = 10;
  const auto often = [](const auto& work) {
    return [work] {
      for (int i = 0; i < kTimes; ++i) work();
    };
  };
  const RoundTimes times = time_rounds({{"read", often([&] { numbers.sum(); })},
                                        {"multiply", often([&] { at::mm(matrix, matrix); })}},
                                       {.repetitions = 7, .device = device.str()}, {});
  const auto rate = [&](std::size_t part, double work) {
    return 1000 * kTimes * work / quickest_ms(times, part, device);
  };
  return {rate(0, sizeof(float) * static_cast<double>(kNumbers)),
          rate(1, 2.0 * kSize * kSize * kSize)};
}

}  // namespace

const Peaks& peaks_of(const std::string& device, ComputeType type) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, ComputeType>, Peaks> known;
  const c10::Device place = device::torch_device(device);
  const std::pair key{place.str(), place.is_cuda() ? type : ComputeType::Fp32};
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second
                              : known.emplace(key, measured(place, type)).first->second;
}

}  // namespace kvloupe::measure
