// A small generator whose draws are the same on every platform and library version (SplitMix64,
// Steele, Lea and Flood 2014), for tasks that must be made again from their seed.
#pragma once

#include <cstdint>

namespace kvloupe::capture {

class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, count), count > 0; draws that would favour small numbers are thrown away.
  std::uint64_t below(std::uint64_t count) {
    const std::uint64_t unfair = (0 - count) % count;  // 2^64 mod count
    std::uint64_t draw = next();
    while (draw < unfair) draw = next();
    return draw % count;
  }

 private:
  std::uint64_t state_;
};

}  // namespace kvloupe::capture
