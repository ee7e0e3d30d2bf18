// The CUDA plug-in itself, as users load it: all its names are found, and its kernels are Torch's. It needs
// no GPU. Where the machine has no driver, or Torch's CUDA part lacks a library, one without functions
// stands for each of them.
#include "core/base/error.h"
#include "core/device/cuda_plugin.h"
#include "core/device/cuda_plugin_api.h"
#include "core/device/sim_plugin.h"

#include <gtest/gtest.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdlib>
#include <set>
#include <string>

#include <dlfcn.h>

namespace kvloupe {
namespace {

class CudaPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* file = std::getenv("KVLOUPE_CUDA_PLUGIN");
    const char* stand_ins = std::getenv("KVLOUPE_STAND_INS");
    ASSERT_TRUE(file != nullptr && stand_ins != nullptr) << "ctest says where these are";
    for (const char* name : {"libcuda.so.1", "libtorch_cuda.so"})
      ASSERT_TRUE(opens(name) || opens(std::string(stand_ins) + "/" + name)) << ::dlerror();
    plugin_ = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin_, nullptr) << ::dlerror();
  }

  void* plugin_ = nullptr;

 private:
  static bool opens(const std::string& name) {
    return ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
  }
};

TEST_F(CudaPlugin, HasAllThatTheProgramAsksForByName) {
  for (const char* name : {cuda::kDescribeDeviceName, cuda::kFreeMemoryName, cuda::kCountWorkName})
    EXPECT_NE(::dlsym(plugin_, name), nullptr) << name;
}

TEST_F(CudaPlugin, AnswersHowManyDevicesThereAre) {
  try {
    EXPECT_GE(device::num_cuda_devices(), 1);
  } catch (const Error& error) {
    // What the CUDA runtime says, and not that something does not load.
    EXPECT_EQ(error.what_failed(), "cuda:0 cannot be used");
    EXPECT_NE(error.why(), "");
  }
}

std::set<std::string> operators_with_kernels(c10::DispatchKey device) {
  std::set<std::string> names;
  for (const c10::OperatorName& each :
       c10::Dispatcher::singleton().getAllOpNamesForDispatchKey(device))
    if (each.name.starts_with("kvloupe::")) names.insert(each.name);
  return names;
}

TEST_F(CudaPlugin, GivesTorchTheKernelsThatSimHas) {
  device::open_sim();
  const std::set<std::string> names = operators_with_kernels(c10::DispatchKey::CUDA);
  EXPECT_TRUE(names.contains("kvloupe::chunk_attention"));
  EXPECT_EQ(names, operators_with_kernels(c10::DispatchKey::PrivateUse1));
}

}  // namespace
}  // namespace kvloupe
