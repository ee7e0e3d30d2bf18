// Counts, while something runs, the driver's calls that start kernels and those that make the host wait. By
// CUPTI, which is opened for that alone.
#include "core/device/cuda_plugin_api.h"

#if __has_include(<cupti.h>)

#include <atomic>
#include <string>

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

namespace kvloupe::cuda {
namespace {

std::atomic<std::int64_t> launches = 0, host_waits = 0;

// Torch copies by the asynchronous calls and waits for the stream itself.
void CUPTIAPI count(void*, CUpti_CallbackDomain, CUpti_CallbackId call, const void* about) {
  if (static_cast<const CUpti_CallbackData*>(about)->callbackSite != CUPTI_API_ENTER) return;
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: ++launches; break;
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2: ++host_waits; break;
    default: break;
  }
}

// Of the toolkit that the plug-in was built by.
template <typename Function>
Function* named(const char* name) {
  static void* const library =
      ::dlopen(("libcupti.so." + std::to_string(CUDART_VERSION / 1000)).c_str(), RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

// While it lives calls are counted; false where they are not.
class Subscription {
 public:
  Subscription() {
    const auto subscribe = named<decltype(cuptiSubscribe)>("cuptiSubscribe");
    const auto enable = named<decltype(cuptiEnableDomain)>("cuptiEnableDomain");
    if (subscribe == nullptr || enable == nullptr) return;
    if (subscribe(&subscriber_, count, nullptr) != CUPTI_SUCCESS) return;
    subscribed_ = true;
    counts_ = enable(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API) == CUPTI_SUCCESS;
  }
  ~Subscription() {
    if (subscribed_) named<decltype(cuptiUnsubscribe)>("cuptiUnsubscribe")(subscriber_);
  }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  explicit operator bool() const { return counts_; }

 private:
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool subscribed_ = false, counts_ = false;
};

}  // namespace
}  // namespace kvloupe::cuda

extern "C" __attribute__((visibility("default"))) int kvloupe_count_cuda_work_1(
    void (*run)(void*), void* context, kvloupe::cuda::Work* work) {
  const kvloupe::cuda::Subscription subscription;
  const std::int64_t launches = kvloupe::cuda::launches, waits = kvloupe::cuda::host_waits;
  run(context);
  *work = {kvloupe::cuda::launches - launches, kvloupe::cuda::host_waits - waits};
  return subscription ? 0 : 1;
}

#else  // a toolkit without its headers

extern "C" __attribute__((visibility("default"))) int kvloupe_count_cuda_work_1(
    void (*run)(void*), void* context, kvloupe::cuda::Work*) {
  run(context);
  return 1;
}

#endif
