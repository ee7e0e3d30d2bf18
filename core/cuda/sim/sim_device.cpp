// What Torch asks of a device (PrivateUse1), and the operators that cannot go by way of the CPU: those
// that make, view and copy tensors.
#include "core/cuda/sim/sim_device.h"

#include "core/cuda/emulator/emulator.h"
#include "core/cuda/probability_bindings.h"
#include "core/cuda/register_attention.h"
#include "core/cuda/selection_bindings.h"
#include "core/cuda/sim/sim_memory.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace kvloupe::sim {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device the_device() { return {c10::DeviceType::PrivateUse1, 0}; }

// One device, one stream; what is asked for is done when the call returns.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return the_device(); }
  c10::Device getDevice() const override { return the_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

std::atomic<std::int64_t> num_launches = 0, num_waits = 0;

// An operator that goes by way of the CPU copies for itself; a GPU would not.
thread_local bool by_way_of_cpu = false;

void note_launch() {
  if (!by_way_of_cpu) ++num_launches;
}
void note_wait() {
  if (!by_way_of_cpu) ++num_waits;
}

// The same numbers as a tensor of the CPU; only while an Access lives.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(),
                       at::dtype(tensor.scalar_type()));
}

// As Torch's CUDA device: the host waits, but where it asked not to.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!from.is_cpu() && !to.is_cpu())
    note_launch();
  else if (!non_blocking)
    note_wait();
  const Access access;
  on_host(to).copy_(on_host(from));
  return to;
}

const at::Tensor& resize_in_place(const at::Tensor& tensor, at::IntArrayRef size,
                                  std::optional<at::MemoryFormat>) {
  // Of a size that fits, a view stays a view: operators that work in place come here.
  if (tensor.sizes() == size) return tensor;
  const at::Tensor other = at::empty(size, tensor.options());
  const std::int64_t kept = std::min(tensor.numel(), other.numel());
  if (kept > 0) {
    const Access access;
    on_host(other)
        .view({-1})
        .narrow(0, 0, kept)
        .copy_(on_host(tensor).reshape({-1}).narrow(0, 0, kept));
  }
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(other.storage());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(other.sizes(), other.strides(), 0);
  return tensor;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  resize_in_place(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  note_wait();
  const Access access;
  return on_host(tensor).item();
}

at::Tensor reshape_alias(const at::Tensor& tensor, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::as_strided_tensorimpl(tensor, size, stride, std::nullopt);
}

bool is_mask(const at::Tensor& tensor) {
  return tensor.defined() &&
         (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

// Operators for which the host of a GPU waits: their result's size, or what they return, is decided there.
bool waits(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  constexpr std::array<std::string_view, 9> kAlways{
      "aten::nonzero",  "aten::masked_select",      "aten::_unique2",
      "aten::equal",    "aten::unique_consecutive", "aten::unique_dim",
      "aten::bincount", "aten::repeat_interleave",  "aten::_linalg_eigh"};
  const std::string& name = op.schema().name();
  if (std::find(kAlways.begin(), kAlways.end(), name) != kAlways.end()) return true;
  // What is put where a mask holds: nonzero() is a step of it. Where something is read by a mask, it is a
  // call of its own.
  if (name != "aten::_index_put_impl_") return false;
  for (std::size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i)
    if (stack[i].isList())
      for (const c10::IValue& one : stack[i].toListRef())
        if (one.isTensor() && is_mask(one.toTensor())) return true;
  return false;
}

void by_way_of_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  note_launch();
  if (waits(op, *stack)) note_wait();
  struct Inside {
    bool before = std::exchange(by_way_of_cpu, true);
    ~Inside() { by_way_of_cpu = before; }
  } const inside;
  const Access access;
  at::native::cpu_fallback(op, stack);
}

// What cuda::implement_selection() asks for.
struct OnSim {
  explicit OnSim(c10::Device) {}
  cudaError_t run(const cuda::Launch& launch) const {
    const Access access;
    return launch(nullptr);
  }
};

cudaError_t run_in_emulator(const at::Tensor& like, const cuda::Launches& launches) {
  return OnSim(like.device()).run(launches);
}

}  // namespace

Work work() {
  return {num_launches + static_cast<std::int64_t>(cuda::emulator::num_launches()), num_waits};
}

void register_device() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::register_privateuse1_backend("sim");
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &allocator());
    static Guard guard;
    static c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::PrivateUse1, &guard);
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    static torch::Library everything(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1,
                                     __FILE__, __LINE__);
    everything.fallback(torch::CppFunction::makeFromBoxedFunction<&by_way_of_the_cpu>());
    static torch::Library tensors(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                  __FILE__, __LINE__);
    tensors.impl("empty.memory_format", empty);
    tensors.impl("empty_strided", empty_strided);
    tensors.impl("_copy_from", copy_from);
    tensors.impl("_copy_from_and_resize", copy_from_and_resize);
    tensors.impl("resize_", resize_in_place);
    tensors.impl("_local_scalar_dense", local_scalar);
    tensors.impl("as_strided", at::native::as_strided_tensorimpl);
    tensors.impl("view", at::native::view);
    tensors.impl("view.dtype", at::native::view_dtype);
    tensors.impl("unfold", at::native::unfold);
    tensors.impl("_reshape_alias", reshape_alias);
    static torch::Library ours(torch::Library::IMPL, "kvloupe", c10::DispatchKey::PrivateUse1,
                               __FILE__, __LINE__);
    cuda::register_attention<run_in_emulator>(ours);
    cuda::implement_selection<OnSim>(ours);
    cuda::implement_probabilities<OnSim>(ours);
  });
}

}  // namespace kvloupe::sim
