// KeyDiff's scores of more keys than are widened at a time.
#include "core/device/sim_plugin.h"
#include "core/device/torch_device.h"
#include "core/selection/operators/generic_forms.h"
#include "core/selection/operators/operators.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace kvloupe::selection {
namespace {

// Three pieces, the last of which is short.
constexpr std::int64_t kHeads = 2, kKeys = 40'000, kDim = 16, kScored = 33'000;

at::Tensor many_keys() {
  at::manual_seed(21);
  // A view of a cache with room to grow.
  return (at::randn({kHeads, kKeys + 5, kDim}) + 0.25).narrow(1, 0, kKeys);
}

// What tensors of the CPU hold at most while `run` runs, beside those that are there.
std::int64_t most_bytes(const std::function<void()>& run) {
  struct Peak : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                           c10::Device) override {
      now += bytes;
      most = std::max(most, now);
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::int64_t now = 0, most = 0;
  };
  const auto peak = std::make_shared<Peak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  run();
  return peak->most;
}

TEST(DifferenceScores, OfManyKeysAreThoseOfTheCpusOwnForm) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    const at::Tensor k = many_keys().to(type);
    const at::Tensor got = generic::difference_scores(k, kScored);
    const at::Tensor want = cpu::difference_scores(k.to(at::kFloat), kScored);
    EXPECT_EQ(got.sizes(), want.sizes());
    EXPECT_TRUE(at::allclose(got, want, 1e-5, 1e-6)) << (got - want).abs().max().item<float>();
  }
  EXPECT_EQ(generic::difference_scores(many_keys(), 0).size(1), 0);
}

TEST(DifferenceScores, NeverWidenAllKeys) {
  const at::Tensor k = many_keys();
  constexpr std::int64_t kAllInFp64 = kHeads * kKeys * kDim * 8;
  EXPECT_LT(most_bytes([&] { generic::difference_scores(k, kScored); }), kAllInFp64);
  const at::Tensor half = k.to(at::kHalf);
  EXPECT_LT(most_bytes([&] { generic::difference_scores(half, kScored); }), kAllInFp64);
}

TEST(DifferenceScores, WaitForNothing) {
  const at::Tensor there = many_keys().to(device::torch_device("sim"));
  const device::DeviceWork before = device::sim_work();
  const at::Tensor scores = difference_scores(there, kScored);
  EXPECT_EQ(device::sim_work().host_waits, before.host_waits);
  EXPECT_EQ(scores.size(1), kScored);
}

}  // namespace
}  // namespace kvloupe::selection
