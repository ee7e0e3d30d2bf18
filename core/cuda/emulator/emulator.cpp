#include "core/cuda/emulator/emulator.h"

#include "core/base/error.h"
#include "core/cuda/emulator/guarded_pages.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <random>
#include <vector>

#include <ucontext.h>

namespace kvloupe::cuda::emulator {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kAlignment = 16;  // of shared memory

struct Schedule {
  std::mt19937_64 random;
  bool shuffled = false;
  unsigned left_out = 0;
  std::set<unsigned> lines;
};
Schedule& schedule() {
  static Schedule one;
  return one;
}

enum class State { Ready, AtBarrier, Ended };

struct Fiber {
  Extent index;
  State state = State::Ready;
  ucontext_t context{};
};

// A block that runs. Its fibers and their stacks serve all blocks of a launch.
class Block {
 public:
  Block(Extent shape, std::size_t shared_bytes, const std::function<void()>& body)
      : body_(body),
        fibers_(std::size_t{shape.x} * shape.y * shape.z),
        stacks_(fibers_.size() * kStackBytes),
        shared_(shared_bytes),
        shared_bytes_(shared_bytes) {
    for (std::size_t i = 0; i < fibers_.size(); ++i)
      fibers_[i].index = {static_cast<unsigned>(i) % shape.x,
                          static_cast<unsigned>(i) / shape.x % shape.y,
                          static_cast<unsigned>(i) / shape.x / shape.y};
  }

  void run(Extent index);

  Extent index() const { return index_; }
  Fiber& current() const { return *current_; }
  void* shared(std::size_t size) const {
    KVLOUPE_CHECK(size <= shared_bytes_);
    return shared_.last(shared_bytes_, kAlignment);
  }
  // Back to the scheduler, until it is this fiber's turn again.
  void pause(State state) {
    current_->state = state;
    ::swapcontext(&current_->context, &scheduler_);
  }

 private:
  static void enter();
  static void prepare(Fiber& fiber, char* stack);
  // Each fiber that is ready, to its next barrier or its end.
  void run_to_barrier(std::vector<std::size_t>& order);

  const std::function<void()>& body_;
  std::vector<Fiber> fibers_;
  GuardedPages stacks_;
  GuardedPages shared_;
  std::size_t shared_bytes_;
  Extent index_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_{};
  std::exception_ptr thrown_;
};

Block* running = nullptr;

void Block::enter() {
  Block& block = *running;
  // An exception must not leave the stack that it was thrown on.
  try {
    block.body_();
  } catch (...) {
    block.thrown_ = std::current_exception();
  }
  block.pause(State::Ended);
}

void Block::prepare(Fiber& fiber, char* stack) {
  fiber.state = State::Ready;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, &Block::enter, 0);
}

void Block::run_to_barrier(std::vector<std::size_t>& order) {
  if (schedule().shuffled) std::shuffle(order.begin(), order.end(), schedule().random);
  for (const std::size_t i : order) {
    if (fibers_[i].state != State::Ready) continue;
    current_ = &fibers_[i];
    ::swapcontext(&scheduler_, &current_->context);
    if (thrown_) std::rethrow_exception(thrown_);
  }
}

void Block::run(Extent index) {
  index_ = index;
  // NaN in every type of floating point.
  std::memset(shared_.begin(), 0xFF, shared_.size());
  for (std::size_t i = 0; i < fibers_.size(); ++i)
    prepare(fibers_[i], stacks_.begin() + i * kStackBytes);
  std::vector<std::size_t> order(fibers_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto is_waiting = [](const Fiber& fiber) { return fiber.state == State::AtBarrier; };
  do {
    run_to_barrier(order);
    // Threads that have ended no longer count for a barrier.
    for (Fiber& fiber : fibers_)
      if (is_waiting(fiber)) fiber.state = State::Ready;
  } while (std::any_of(fibers_.begin(), fibers_.end(),
                       [](const Fiber& fiber) { return fiber.state == State::Ready; }));
}

}  // namespace

void set_schedule(std::uint64_t seed) {
  schedule().shuffled = seed != 0;
  schedule().random.seed(seed);
}

void leave_out_barrier(unsigned line) { schedule().left_out = line; }

const std::set<unsigned>& barrier_lines() { return schedule().lines; }

bool launch(Extent grid, Extent block, std::size_t shared_bytes,
            const std::function<void()>& body) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  if (blocks == 0 || threads == 0 || threads > kMostThreads || shared_bytes > kMostSharedMemory)
    return false;
  KVLOUPE_CHECK(running == nullptr);
  Block one(block, shared_bytes, body);
  running = &one;
  struct Stop {
    ~Stop() { running = nullptr; }
  } const stop;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) one.run({x, y, z});
  return true;
}

Extent thread_index() { return running->current().index; }
Extent block_index() { return running->index(); }
void* shared_memory(std::size_t size) { return running->shared(size); }

void barrier(unsigned line) {
  schedule().lines.insert(line);
  if (line != schedule().left_out) running->pause(State::AtBarrier);
}

}  // namespace kvloupe::cuda::emulator
