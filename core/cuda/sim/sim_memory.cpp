#include "core/cuda/sim/sim_memory.h"

#include "core/base/error.h"
#include "core/cuda/sim/sim_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace kvloupe::sim {
namespace {

constexpr std::size_t kAlignment = 64;

struct Block {
  char* pages = nullptr;
  std::size_t inside = 0, asked = 0;  // the page after `inside` is never opened
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

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

void open(const Block& block, bool wide) {
  KVLOUPE_CHECK(::mprotect(block.pages, block.inside, wide ? PROT_READ | PROT_WRITE : PROT_NONE) ==
                0);
}

void release(void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(address);
  if (found == all.blocks.end()) return;
  ::munmap(found->second.pages, found->second.inside + page());
  all.blocks.erase(found);
}

// The end of what is asked for lies at the end of the pages, but for its alignment.
void* take(std::size_t bytes) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const std::size_t room =
      (std::max<std::size_t>(1, bytes) + kAlignment - 1) / kAlignment * kAlignment;
  Block block;
  block.asked = bytes;
  block.inside = (room + page() - 1) / page() * page();
  void* pages =
      ::mmap(nullptr, block.inside + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK_WITH(OutOfMemoryError, pages != MAP_FAILED, "sim: no memory for ", bytes, " bytes");
  block.pages = static_cast<char*>(pages);
  open(block, all.accesses > 0);
  void* address = block.pages + block.inside - room;
  all.blocks[address] = block;
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
  for (const auto& [address, block] : all.blocks) open(block, true);
}

Access::~Access() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (--all.accesses > 0) return;
  for (const auto& [address, block] : all.blocks) open(block, false);
}

std::size_t allocated_bytes() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  std::size_t sum = 0;
  for (const auto& [address, block] : all.blocks) sum += block.asked;
  return sum;
}

}  // namespace kvloupe::sim
