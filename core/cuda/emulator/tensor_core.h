// The operations of tensor_core.cuh, which says what they do, by the lanes of the emulator. Sums are in
// the order of the channels, each step rounded; tensor cores sum in an order of their own.
#pragma once

#include "core/base/error.h"
#include "core/cuda/emulator/emulator.h"

#include <cstdint>
#include <cstring>

namespace kvloupe::cuda {
namespace emulator {

// Of eight rows that lanes named: row `row`, columns `column` and `column` + 1.
inline std::uint16_t number_at(const WarpValues& rows, int matrix, int row, int column) {
  std::uint16_t number = 0;
  const auto address = rows[static_cast<std::size_t>(matrix * 8 + row)][0];
  std::memcpy(&number, reinterpret_cast<const std::uint16_t*>(address) + column, sizeof(number));
  return number;
}

inline Matrices load(const Site& site, const void* row, bool transposed) {
  KVLOUPE_CHECK(reinterpret_cast<std::uintptr_t>(row) % 16 == 0);
  const WarpValues& rows =
      warp_exchange(site, 0xFFFFFFFFU, {reinterpret_cast<std::uintptr_t>(row)});
  const int g = lane() / 4, t = lane() % 4;
  Matrices m{};
  for (int i = 0; i < 4; ++i) {
    const unsigned lower = transposed ? number_at(rows, i, 2 * t, g) : number_at(rows, i, g, 2 * t);
    const unsigned upper =
        transposed ? number_at(rows, i, 2 * t + 1, g) : number_at(rows, i, g, 2 * t + 1);
    m.of[i] = lower | upper << 16;
  }
  return m;
}

// Number `half` of register `index` of a lane, of those that it brought two to a word.
template <typename T>
float number_of(const WarpValues& all, int lane, int index, int half) {
  const std::uint64_t word =
      all[static_cast<std::size_t>(lane)][static_cast<std::size_t>(index / 2)];
  return value_of(T{static_cast<std::uint16_t>(word >> (index % 2 * 32 + half * 16))});
}

}  // namespace emulator

template <typename T>
unsigned pack(float lower, float upper) {
  return rounded_to<T>(lower).bits | static_cast<unsigned>(rounded_to<T>(upper).bits) << 16;
}

inline float widened(Half number) { return value_of(number); }
inline float widened(BFloat16 number) { return value_of(number); }

template <typename T>
void unpack(unsigned both, float& lower, float& upper) {
  lower = widened(T{static_cast<std::uint16_t>(both)});
  upper = widened(T{static_cast<std::uint16_t>(both >> 16)});
}

inline Matrices load_matrices(const void* row, const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
  return emulator::load(emulator::site_of(file, line), row, /*transposed=*/false);
}
inline Matrices load_transposed(const void* row, const char* file = __builtin_FILE(),
                                unsigned line = __builtin_LINE()) {
  return emulator::load(emulator::site_of(file, line), row, /*transposed=*/true);
}

template <typename T>
void multiply_add(const Matrices& a, unsigned b0, unsigned b1, float (&c)[4],
                  const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  const auto two = [](std::uint64_t first, std::uint64_t second) { return first | second << 32; };
  const emulator::WarpValues& all =
      emulator::warp_exchange(emulator::site_of(file, line), 0xFFFFFFFFU,
                              {two(a.of[0], a.of[1]), two(a.of[2], a.of[3]), two(b0, b1)});
  const int g = emulator::lane() / 4, t = emulator::lane() % 4;
  for (int k = 0; k < 16; ++k) {
    // Who has column k of a and row k of b, and where among its registers.
    const int of_k = k % 8 / 2, right = k / 8;
    float b[2];
    for (int j = 0; j < 2; ++j)
      b[j] = emulator::number_of<T>(all, (2 * t + j) * 4 + of_k, 4 + right, k % 2);
    for (int i = 0; i < 2; ++i) {
      const float x = emulator::number_of<T>(all, g * 4 + of_k, 2 * right + i, k % 2);
      for (int j = 0; j < 2; ++j) c[2 * i + j] += x * b[j];
    }
  }
}

}  // namespace kvloupe::cuda
