// What the kernels of scores and attention did, for tests that hold methods to the work they claim.
// Counting is off but while a WorkCount lives; then it costs a kernel one load and one branch a call.
#pragma once

#include <atomic>
#include <cstdint>

namespace kvloupe {

// Counts from its construction to its destruction, on all threads. One at a time.
class WorkCount {
 public:
  WorkCount() { active_.store(this); }
  ~WorkCount() { active_.store(nullptr); }
  WorkCount(const WorkCount&) = delete;
  WorkCount& operator=(const WorkCount&) = delete;

  // Multiply-adds of queries with keys, and of probabilities with values.
  std::int64_t key_products() const { return key_products_; }
  std::int64_t value_products() const { return value_products_; }
  // Of keys, or of the lanes of them that were asked for, each once for the rows that share a call.
  std::int64_t key_bytes() const { return key_bytes_; }

  static WorkCount* active() { return active_.load(std::memory_order_relaxed); }
  void add_keys(std::int64_t products, std::int64_t numbers_read) {
    key_products_ += products;
    key_bytes_ += numbers_read * static_cast<std::int64_t>(sizeof(float));
  }
  void add_values(std::int64_t products) { value_products_ += products; }

 private:
  static inline std::atomic<WorkCount*> active_ = nullptr;
  std::atomic<std::int64_t> key_products_ = 0, value_products_ = 0, key_bytes_ = 0;
};

// `rows` queries of `width` numbers with `keys` keys of as many.
inline void count_keys(std::int64_t rows, std::int64_t keys, std::int64_t width) {
  if (WorkCount* count = WorkCount::active()) count->add_keys(rows * keys * width, keys * width);
}
inline void count_values(std::int64_t rows, std::int64_t keys, std::int64_t width) {
  if (WorkCount* count = WorkCount::active()) count->add_values(rows * keys * width);
}

}  // namespace kvloupe
