// Names of devices, the memory measurement, and what is said where there is no GPU.
#include "core/device/device.h"
#include "core/base/error.h"
#include "core/device/cuda_plugin.h"
#include "core/device/thread_usage.h"
#include "core/device/threads.h"
#include "tests/base/matchers.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace kvloupe::device {
namespace {

TEST(ParseDevice, NamesOfTheCommandLine) {
  EXPECT_EQ(parse_device("cpu").kind, DeviceKind::Cpu);
  EXPECT_EQ(parse_device("sim").kind, DeviceKind::Sim);
  EXPECT_EQ(parse_device("cuda").kind, DeviceKind::Cuda);
  EXPECT_EQ(parse_device("cuda").index, 0);
  EXPECT_EQ(parse_device("cuda:3").index, 3);
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cpu:0", "CPU"}) {
    try {
      parse_device(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage) << text;
    }
  }
}

TEST(OpenDevice, CpuSaysItsNameAndThreads) {
  const DeviceInfo info = open_device("cpu");
  EXPECT_EQ(info.id, "cpu");
  EXPECT_EQ(info.threads, num_threads());
  EXPECT_FALSE(info.name.empty());
  EXPECT_THAT(info.label(), HasSubstr(info.name));
  EXPECT_EQ((DeviceInfo{"cpu", "Chip", 1}.label()), "cpu, 1 thread (Chip)");
  EXPECT_EQ((DeviceInfo{"cuda:0", "Card", 0}.label()), "cuda:0 (Card)");
}

TEST(OpenDevice, WithoutADriverTheSentenceNamesIt) {
  if (::dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this machine has a driver";
  try {
    open_device("cuda:0");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_THAT(error.why(), HasSubstr("libcuda.so.1"));
    EXPECT_THAT(error.remedy(), HasSubstr("--device cpu"));
  }
}

TEST(ListDevices, NamesEachOnceWithAReasonWhereItCannotBeUsed) {
  const std::vector<ListedDevice> devices = list_devices();
  ASSERT_GE(devices.size(), 3U);
  EXPECT_EQ(devices[0].info.id, "cpu");
  EXPECT_TRUE(devices[0].available());
  EXPECT_EQ(devices[0].info.threads, num_threads());
  EXPECT_GT(devices[0].memory_bytes, 1U << 28);
  EXPECT_EQ(devices[1].info.id, "sim");
  for (std::size_t i = 2; i < devices.size(); ++i) {
    EXPECT_THAT(devices[i].info.id, StartsWith("cuda"));
    EXPECT_EQ(devices[i].available(), devices[i].memory_bytes > 0);
  }
  if (::dlopen("libcuda.so.1", RTLD_NOW) != nullptr) return;
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[2].info.id, "cuda");
  EXPECT_THAT(devices[2].reason, HasSubstr("libcuda.so.1"));
}

TEST(ReadBandwidth, IsThatOfAComputer) {
  const double bytes_per_second = measure_read_bandwidth();
  EXPECT_GT(bytes_per_second, 1e8);
  EXPECT_LT(bytes_per_second, 1e13);
}

TEST(PeakFlops, IsThatOfAComputer) {
  const double flops = measure_peak_flops();
  EXPECT_GT(flops, 1e8);
  EXPECT_LT(flops, 1e15);
}

TEST(AvailableMemory, IsThatOfAComputer) {
  EXPECT_GT(available_memory(), 1e7);
  EXPECT_LT(available_memory(), 1e14);
}

TEST(ThreadUsage, CountsTheThreadsThatRan) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> spinning;
  for (int i = 0; i < 3; ++i) {
    spinning.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  std::thread sleeping([&] {
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  const auto begin = std::chrono::steady_clock::now();
  const ThreadUsage before = ThreadUsage::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const ThreadUsage after = ThreadUsage::now();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  stop = true;
  for (std::thread& thread : spinning) thread.join();
  sleeping.join();
  // Shares are small on a busy machine; the sleeping threads need next to nothing.
  EXPECT_EQ(after.busy_since(before, seconds.count(), 0.02), 3);
  EXPECT_EQ(after.busy_since(before, seconds.count(), 2.0), 0);
}

}  // namespace
}  // namespace kvloupe::device
