// Tensors on their way from the model's device to the host, where the trace is written.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace kvloupe::capture {

// From a GPU they go to pinned memory while it computes on, and are waited for once a chunk. Tensors
// of the CPU stay what they are, and nothing waits.
class HostCopies {
 public:
  // Contiguous; may be read by what is given to then() afterwards, not before.
  at::Tensor of(const at::Tensor& tensor);
  // Runs `work` when the copies begun so far are there: at once, or inside finish().
  void then(std::function<void()> work);
  // Waits for the copies, and does what waited for them, in order.
  void finish();

 private:
  std::optional<c10::Device> from_;  // copies are under way
  std::vector<std::function<void()>> waiting_;
};

}  // namespace kvloupe::capture
