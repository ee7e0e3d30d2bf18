// Several GPUs, one of which works: by way of a plug-in that stands for them (fake_cuda.cpp).
#include "core/base/error.h"
#include "core/device/cuda_plugin.h"
#include "core/device/device.h"
#include "core/device/gpu_state.h"
#include "tests/base/matchers.h"

#include <cstdlib>
#include <vector>

namespace kvloupe::device {
namespace {

TEST(CudaDevices, OneThatFailsHidesNoOther) {
  const std::vector<ListedDevice> devices = list_devices();
  ASSERT_EQ(devices.size(), 5U);  // the CPU and sim before them
  for (int i = 0; i < 3; ++i) {
    const ListedDevice& device = devices[static_cast<std::size_t>(i) + 2];
    EXPECT_EQ(device.info.id, "cuda:" + std::to_string(i));
    EXPECT_EQ(device.info.kind, DeviceKind::Cuda);
    EXPECT_EQ(device.available(), i == 1);
    EXPECT_EQ(device.reason, i == 1 ? "" : "uncorrectable ECC error encountered");
  }
  EXPECT_EQ(devices[3].info.name, "Card B");
  EXPECT_EQ(devices[3].memory_bytes, 80ULL << 30);
}

TEST(CudaDevices, TheSentenceSaysWhyOneCannotBeUsed) {
  EXPECT_EQ(open_cuda_device(1).name, "Card B");
  for (const auto& [index, why] :
       {std::pair{0, "uncorrectable ECC"}, std::pair{7, "this machine has 3 CUDA devices"}}) {
    try {
      open_cuda_device(index);
      FAIL() << index;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_THAT(error.why(), HasSubstr(why));
      EXPECT_EQ(error.remedy(), "choose another device or use --device cpu");
    }
  }
}

TEST(CudaDevices, MemoryThatCanBeHadIsWhatIsFree) {
  EXPECT_EQ(available_memory("cuda:1"), 12.0 * (1 << 30));
  EXPECT_THROW(available_memory("cuda:0"), Error);
}

TEST(CudaDevices, ClocksPowerAndHeatAreThoseOfTheDeviceOnTheBus) {
  const std::optional<GpuState> state = gpu_state(1);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->sm_mhz, 1980);
  EXPECT_EQ(state->memory_mhz, 2619);
  EXPECT_DOUBLE_EQ(state->power_w.value(), 345.6);
  EXPECT_EQ(state->temperature_c, 57);
  EXPECT_FALSE(state->throttled);
  EXPECT_THROW(gpu_state(0), Error);
}

// As GPUs of laptops and virtual ones do, which tell their clocks all the same.
TEST(CudaDevices, ClocksAreKnownWherePowerAndHeatAreNotTold) {
  ::setenv("KVLOUPE_FAKE_SENSORS", "none", 1);
  const std::optional<GpuState> state = gpu_state(1);
  ::unsetenv("KVLOUPE_FAKE_SENSORS");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->sm_mhz, 1980);
  EXPECT_EQ(state->memory_mhz, 2619);
  EXPECT_FALSE(state->power_w);
  EXPECT_FALSE(state->temperature_c);
}

TEST(CudaDevices, HeldDownByHeatOrSupplyIsThrottledAndByThePowerLimitIsNot) {
  // Idle, clocks set by the user, power limit, hardware, sync, heat (two), power brake, display.
  for (const auto& [bits, throttled] :
       {std::pair{"1", false}, std::pair{"2", false}, std::pair{"4", false}, std::pair{"8", true},
        std::pair{"10", false}, std::pair{"20", true}, std::pair{"40", true}, std::pair{"80", true},
        std::pair{"100", false}, std::pair{"24", true}}) {
    ::setenv("KVLOUPE_FAKE_SLOWDOWNS", bits, 1);
    EXPECT_EQ(gpu_state(1).value().throttled, throttled) << bits;
  }
  ::unsetenv("KVLOUPE_FAKE_SLOWDOWNS");
}

}  // namespace
}  // namespace kvloupe::device
