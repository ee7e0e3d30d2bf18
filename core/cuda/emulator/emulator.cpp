#include "core/cuda/emulator/emulator.h"

#include "core/base/error.h"
#include "core/cuda/emulator/async_copies.h"
#include "core/cuda/emulator/guarded_pages.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <setjmp.h>
#include <ucontext.h>

namespace kvloupe::cuda::emulator {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
// Of a block, and of it along z.
constexpr unsigned kMostThreads = 1024, kMostThreadsAlongZ = 64;
// Of a grid: along x, and along y and z each.
constexpr unsigned kMostBlocks = 0x7FFFFFFF, kMostBlocksAlongYZ = 65'535;
constexpr std::size_t kAlignment = 16;  // of shared memory

struct Schedule {
  std::mt19937_64 random;
  bool shuffled = false;
  Site left_out;  // without a file: the line in all files
  std::set<Site> sites;
  std::set<unsigned> lines;

  bool leaves_out(const Site& site) const {
    return site.line == left_out.line && (left_out.file.empty() || site.file == left_out.file);
  }
  bool one_time_in(unsigned times) { return shuffled && random() % times == 0; }
};
Schedule& schedule() {
  static Schedule one;
  return one;
}

enum class State { Ready, AtBarrier, InWarp, Ended };

// Where a thread waits for lanes of its warp, and what it brings.
struct Meeting {
  Site site;
  unsigned mask = 0;
  LaneValue value{};

  bool is_with(const Meeting& other) const { return site == other.site && mask == other.mask; }
};

// Where a stack goes on. A switch by ucontext asks the system for the signal mask each time, a jump does
// not; but sanitizers follow only the former.
class Context {
 public:
  Context() = default;
  Context(char* stack, void (*entry)()) : is_new_(true) {
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    ::makecontext(&context_, entry, 0);
  }
  // Returns when another switches back.
  void switch_to(Context& other) {
#ifdef KVLOUPE_SANITIZED
    ::swapcontext(&context_, &other.context_);
#else
    if (_setjmp(jump_) != 0) return;
    if (!other.is_new_) _longjmp(other.jump_, 1);
    other.is_new_ = false;
    ::setcontext(&other.context_);
#endif
  }

 private:
  bool is_new_ = false;
  ucontext_t context_{};
  jmp_buf jump_{};
};

struct Fiber {
  Extent index;
  State state = State::Ready;
  Meeting meeting;
  AsyncCopies copies;
  std::optional<Context> context;
};

[[noreturn]] void fail_meeting(const Meeting& meeting, std::size_t lane) {
  throw Error(ErrorKind::Internal,
              "an operation of a warp at " + std::string(meeting.site.file) + ":" +
                  std::to_string(meeting.site.line),
              "lane " + std::to_string(lane) + " of its mask " + std::to_string(meeting.mask) +
                  " did not come there with the same mask",
              "all lanes of the mask must");
}

// A block that runs. Its fibers and their stacks serve all blocks of a launch.
class Block {
 public:
  Block(Extent grid, Extent shape, std::size_t shared_bytes, const std::function<void()>& body)
      : body_(body),
        grid_(grid),
        shape_(shape),
        fibers_(std::size_t{shape.x} * shape.y * shape.z),
        warps_((fibers_.size() + kWarpSize - 1) / kWarpSize),
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
  Extent shape() const { return shape_; }
  Extent grid() const { return grid_; }
  Fiber& current() const { return *current_; }
  std::size_t current_number() const { return static_cast<std::size_t>(current_ - fibers_.data()); }
  void* shared(std::size_t size) const {
    KVLOUPE_CHECK(size <= shared_bytes_);
    return shared_.last(shared_bytes_, kAlignment);
  }
  // Back to the scheduler, until it is this fiber's turn again.
  void pause(State state) {
    current_->state = state;
    current_->context->switch_to(scheduler_);
  }
  // Returns what all lanes of the mask brought.
  const WarpValues& meet(const Meeting& meeting) {
    const std::size_t number = current_number();
    if ((meeting.mask >> number % kWarpSize & 1) == 0) fail_meeting(meeting, number % kWarpSize);
    current_->meeting = meeting;
    pause(State::InWarp);
    return warps_[number / kWarpSize];
  }

 private:
  static void enter();
  static void prepare(Fiber& fiber, char* stack);
  // Each of these fibers that is ready, to its next barrier or its end. False where none is.
  bool run_ready(std::size_t first, std::size_t end);
  // With none of its fibers ready: lets the lanes of a warp go on that wait for each other. False where
  // none wait.
  bool release_warp(std::size_t warp);
  // Some of the fibers; false where all are at the barrier of the block or have ended.
  bool run_some();
  // Lets those at the barrier of the block go on; false where none is.
  bool pass_barrier();
  void draw_order();

  const std::function<void()>& body_;
  Extent grid_, shape_;
  std::vector<Fiber> fibers_;
  std::vector<WarpValues> warps_;  // what their lanes brought to the last meeting
  std::vector<std::size_t> ready_, warp_order_;
  bool one_warp_runs_ = false;
  GuardedPages stacks_;
  GuardedPages shared_;
  std::size_t shared_bytes_;
  Extent index_;
  Fiber* current_ = nullptr;
  Context scheduler_;
  std::exception_ptr thrown_;
};

Block* running = nullptr;
std::uint64_t launches = 0;
std::size_t shared_memory_there_is = kMostSharedMemory;

bool can_be_of_grid(Extent grid) {
  return grid.x <= kMostBlocks && grid.y <= kMostBlocksAlongYZ && grid.z <= kMostBlocksAlongYZ &&
         std::min({grid.x, grid.y, grid.z}) > 0;
}

bool can_be_of_block(Extent block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return 0 < threads && threads <= kMostThreads && block.z <= kMostThreadsAlongZ;
}

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
  fiber.context.emplace(stack, &Block::enter);
}

bool Block::run_ready(std::size_t first, std::size_t end) {
  ready_.clear();
  for (std::size_t i = first; i < end; ++i)
    if (fibers_[i].state == State::Ready) ready_.push_back(i);
  if (schedule().shuffled) std::shuffle(ready_.begin(), ready_.end(), schedule().random);
  for (const std::size_t i : ready_) {
    current_ = &fibers_[i];
    scheduler_.switch_to(*current_->context);
    if (thrown_) std::rethrow_exception(thrown_);
  }
  return !ready_.empty();
}

bool Block::release_warp(std::size_t warp) {
  bool any_waits = false;
  const std::size_t first = warp * kWarpSize;
  const std::size_t lanes = std::min<std::size_t>(kWarpSize, fibers_.size() - first);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (fibers_[first + lane].state != State::InWarp) continue;
    any_waits = true;
    const Meeting meeting = fibers_[first + lane].meeting;
    for (std::size_t other = 0; other < kWarpSize; ++other) {
      if ((meeting.mask >> other & 1) == 0) continue;
      if (other >= lanes || fibers_[first + other].state != State::InWarp ||
          !fibers_[first + other].meeting.is_with(meeting))
        fail_meeting(meeting, other);
    }
    for (std::size_t other = 0; other < lanes; ++other) {
      if ((meeting.mask >> other & 1) == 0) continue;
      warps_[warp][other] = fibers_[first + other].meeting.value;
      fibers_[first + other].state = State::Ready;
    }
  }
  return any_waits;
}

bool Block::run_some() {
  // Where one warp runs, it comes as far as the barrier of its block before another one starts.
  if (schedule().one_time_in(64))
    std::shuffle(warp_order_.begin(), warp_order_.end(), schedule().random);
  if (!one_warp_runs_ && run_ready(0, fibers_.size())) return true;
  bool any_runs = false;
  for (const std::size_t warp : warp_order_) {
    const std::size_t first = warp * kWarpSize;
    any_runs = run_ready(first, std::min(first + kWarpSize, fibers_.size())) ||
               release_warp(warp) || any_runs;
    if (any_runs && schedule().shuffled) return true;
  }
  return any_runs;
}

void Block::draw_order() {
  if (!schedule().shuffled) return;
  std::shuffle(warp_order_.begin(), warp_order_.end(), schedule().random);
  one_warp_runs_ = schedule().one_time_in(2);
}

bool Block::pass_barrier() {
  draw_order();
  // Threads that have ended no longer count for a barrier.
  bool any_waits = false;
  for (Fiber& fiber : fibers_) {
    if (fiber.state != State::AtBarrier) continue;
    fiber.state = State::Ready;
    any_waits = true;
  }
  return any_waits;
}

void Block::run(Extent index) {
  index_ = index;
  // NaN in every type of floating point.
  std::memset(shared_.begin(), 0xFF, shared_.size());
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    prepare(fibers_[i], stacks_.begin() + i * kStackBytes);
    fibers_[i].copies.forget();
  }
  warp_order_.resize(warps_.size());
  std::iota(warp_order_.begin(), warp_order_.end(), std::size_t{0});
  one_warp_runs_ = false;
  draw_order();
  do
    while (run_some()) continue;
  while (pass_barrier());
}

}  // namespace

void set_schedule(std::uint64_t seed) {
  schedule().shuffled = seed != 0;
  schedule().random.seed(seed);
}

Site site_of(const char* path, unsigned line) {
  const std::string_view whole(path);
  return {whole.substr(whole.find_last_of('/') + 1), line};
}

void leave_out_barrier(const Site& site) { schedule().left_out = site; }
void leave_out_barrier(unsigned line) { schedule().left_out = {{}, line}; }

const std::set<Site>& barrier_sites() { return schedule().sites; }
const std::set<unsigned>& barrier_lines() { return schedule().lines; }

std::set<Site> barrier_sites_in(std::string_view file) {
  std::set<Site> found;
  std::copy_if(barrier_sites().begin(), barrier_sites().end(), std::inserter(found, found.end()),
               [&](const Site& site) { return site.file == file; });
  return found;
}

void set_most_shared_memory(std::size_t bytes) { shared_memory_there_is = bytes; }
std::size_t most_shared_memory() { return shared_memory_there_is; }

bool launch(Extent grid, Extent block, std::size_t shared_bytes,
            const std::function<void()>& body) {
  if (!can_be_of_grid(grid) || !can_be_of_block(block) || shared_bytes > most_shared_memory())
    return false;
  // One at a time, from whatever thread: what runs and what was seen is one state.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++launches;
  Block one(grid, block, shared_bytes, body);
  running = &one;
  struct Stop {
    ~Stop() { running = nullptr; }
  } const stop;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) one.run({x, y, z});
  return true;
}

std::uint64_t num_launches() { return launches; }

Extent thread_index() { return running->current().index; }
Extent block_index() { return running->index(); }
Extent block_extent() { return running->shape(); }
Extent grid_extent() { return running->grid(); }
void* shared_memory(std::size_t size) { return running->shared(size); }

namespace {

// Notes a barrier; false where it is left out.
bool counts(const Site& site) {
  schedule().sites.insert(site);
  schedule().lines.insert(site.line);
  return !schedule().leaves_out(site);
}

}  // namespace

void barrier(const Site& site) {
  if (counts(site)) running->pause(State::AtBarrier);
}

void warp_barrier(const Site& site, unsigned mask) {
  if (counts(site)) running->meet({site, mask, {}});
}

const WarpValues& warp_exchange(const Site& site, unsigned mask, const LaneValue& value) {
  return running->meet({site, mask, value});
}

int lane() { return static_cast<int>(running->current_number() % kWarpSize); }

void before_atomic() {
  if (schedule().one_time_in(4)) running->pause(State::Ready);
}

void copy_async(void* to, const void* from, std::size_t bytes) {
  running->current().copies.issue(to, from, bytes, schedule().one_time_in(2));
}
void commit_copies() { running->current().copies.commit(); }
void wait_for_copies(std::size_t groups_left) { running->current().copies.wait(groups_left); }

}  // namespace kvloupe::cuda::emulator
