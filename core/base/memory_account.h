// One bound (--memory-limit) for what is kept of traces and results: what their loads hold, tensors, answers
// and textures together. Who keeps something charges it before, and a charge makes room: the caches
// give up what was used longest ago, whichever of them has it. What cannot go - a load, a texture,
// what is in use or on screen - leaves the caches less.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

enum class MemoryPart { Load, Tensors, Answers, Textures };
inline constexpr std::array kMemoryParts = {MemoryPart::Load, MemoryPart::Tensors,
                                            MemoryPart::Answers, MemoryPart::Textures};

// A cache whose entries may be dropped. Any thread that charges calls it. So no caller may hold the lock
// that these members take while it charges, or while it destroys what could own a trace.
class MemoryCache {
 public:
  // MemoryAccount::now of the last use of what would go first; nothing where nothing can go.
  virtual std::optional<std::uint64_t> oldest_use() const = 0;
  // Takes it out of the cache.
  virtual std::shared_ptr<const void> give_up_oldest() = 0;

 protected:
  ~MemoryCache() = default;
};

// Every member may be called from any thread.
class MemoryAccount {
 public:
  static constexpr std::uint64_t kDefaultLimit = 2ULL << 30;
  explicit MemoryAccount(std::uint64_t limit_bytes = kDefaultLimit) : limit_(limit_bytes) {}

  std::uint64_t limit() const { return limit_; }
  std::uint64_t held(MemoryPart part) const { return held_[index_of(part)]; }
  std::uint64_t held() const;
  // What the caches, or one more load, may hold beside all that cannot go.
  std::uint64_t room() const;
  // Counts up: what is used now is newer than all before.
  std::uint64_t now() { return ++clock_; }

  // From the end of the cache's constructor to the begin of its destructor.
  void add(MemoryCache& cache);
  void remove(MemoryCache& cache);

 private:
  friend class MemoryCharge;
  static std::size_t index_of(MemoryPart part) { return static_cast<std::size_t>(part); }
  void make_room();
  std::shared_ptr<const void> take_oldest();

  const std::uint64_t limit_;
  std::array<std::atomic<std::uint64_t>, kMemoryParts.size()> held_{};
  std::atomic<std::uint64_t> clock_ = 0;
  std::mutex mutex_;  // guards the list, and that no cache of it ends meanwhile
  std::vector<MemoryCache*> caches_;
};
using MemoryAccountPtr = std::shared_ptr<MemoryAccount>;

// So many bytes of a part, for as long as it lives.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryAccountPtr account, MemoryPart part, std::uint64_t bytes);
  ~MemoryCharge() { resize(0); }
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;

  // Makes room where it grows. One of no account stays empty.
  void resize(std::uint64_t bytes);

 private:
  MemoryAccountPtr account_;
  MemoryPart part_ = MemoryPart::Load;
  std::uint64_t bytes_ = 0;
};

// Throws Error{Input}: `what`, a file, holds more than there is room for.
[[noreturn]] void refuse_load(const MemoryAccount& account, const std::string& what,
                              std::uint64_t bytes);
MemoryCharge charge_load(const MemoryAccountPtr& account, const std::string& what,
                         std::uint64_t bytes);

}  // namespace kvloupe
