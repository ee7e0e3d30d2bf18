// What needs a GPU: skipped, with the reason, where there is none, no driver or no plug-in.
#pragma once

#include "core/base/error.h"
#include "core/device/device.h"

#include <gtest/gtest.h>

namespace kvloupe {

class OnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = device::open_device("cuda:0");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  device::DeviceInfo device_;
};

}  // namespace kvloupe
