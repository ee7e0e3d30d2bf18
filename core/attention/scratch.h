// A thread's reusable 64-byte aligned block of floats for score tiles. Small blocks are kept
// between calls; one that grew beyond kKeepBytes is given back, so that one long context does not
// stay resident in every thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace kvloupe::attention {

class Scratch {
 public:
  static constexpr std::int64_t kKeepBytes = 8 << 20;

  explicit Scratch(std::int64_t floats) {
    if (block().floats < floats) {
      block().data.reset(static_cast<float*>(
          ::operator new(static_cast<std::size_t>(floats) * sizeof(float), kAlignment)));
      block().floats = floats;
    }
  }
  ~Scratch() {
    if (block().floats * static_cast<std::int64_t>(sizeof(float)) > kKeepBytes) block() = {};
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* data() const { return block().data.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlignment); }
  };
  struct Block {
    std::unique_ptr<float, Free> data;
    std::int64_t floats = 0;
  };
  static Block& block() {
    thread_local Block instance;
    return instance;
  }
};

}  // namespace kvloupe::attention
