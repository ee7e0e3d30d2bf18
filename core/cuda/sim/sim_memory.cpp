#include "core/cuda/sim/sim_memory.h"

#include "core/cuda/emulator/guarded_pages.h"
#include "core/cuda/sim/sim_device.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace kvloupe::sim {
namespace {

constexpr std::size_t kAlignment = 64;

struct Block {
  std::unique_ptr<cuda::emulator::GuardedPages> pages;
  std::size_t asked = 0;
};

// By the address that Torch knows.
struct Memory {
  std::mutex mutex;
  std::map<void*, Block> blocks;
  int accesses = 0;
};
// Never destroyed: tensors in static variables may go later.
Memory& memory() {
  static auto* one = new Memory;
  return *one;
}

void release(void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  all.blocks.erase(address);
}

void* take(std::size_t bytes) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  Block block{std::make_unique<cuda::emulator::GuardedPages>(bytes), bytes};
  block.pages->open(all.accesses > 0);
  void* address = block.pages->last(bytes, kAlignment);
  all.blocks[address] = std::move(block);
  return address;
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* address = bytes == 0 ? nullptr : take(bytes);
    return {address, address, &release, c10::Device(c10::DeviceType::PrivateUse1, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    const Access access;
    std::memcpy(to, from, count);
  }
};

}  // namespace

c10::Allocator& allocator() {
  static auto* one = new Allocator;
  return *one;
}

Access::Access() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (all.accesses++ > 0) return;
  for (const auto& [address, block] : all.blocks) block.pages->open(true);
}

Access::~Access() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (--all.accesses > 0) return;
  for (const auto& [address, block] : all.blocks) block.pages->open(false);
}

std::size_t allocated_bytes() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  std::size_t sum = 0;
  for (const auto& [address, block] : all.blocks) sum += block.asked;
  return sum;
}

}  // namespace kvloupe::sim
