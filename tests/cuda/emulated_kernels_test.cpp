// The CUDA kernels as host code, against plain loops in fp64: in several orders of threads, with
// memory that faults beyond its ends, and with each barrier left out in turn, which must show.
#include "core/cuda/chunk_attention.cuh"
#include "core/cuda/emulator/emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace kvloupe::cuda {
namespace {

// Numbers whose end is the end of what may be touched.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(std::size_t count, std::uint64_t seed = 0) : count_(count) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    inside_ = (count * sizeof(float) + page - 1) / page * page;
    all_ = static_cast<char*>(::mmap(nullptr, inside_ + page, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(all_ + inside_, page, PROT_NONE);
    whole_ = inside_ + page;
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count; ++i) data()[i] = seed == 0 ? std::nanf("") : normal(random);
  }
  ~DeviceNumbers() { ::munmap(all_, whole_); }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;

  float* data() const { return reinterpret_cast<float*>(all_ + inside_) - count_; }
  std::vector<float> copy() const { return {data(), data() + count_}; }

 private:
  std::size_t count_, inside_ = 0, whole_ = 0;
  char* all_ = nullptr;
};

struct Shape {
  int kv_heads, group, chunk_len, past, dim;
  int kv_len() const { return past + chunk_len; }
  int rows() const { return group * chunk_len; }
};

struct Results {
  std::vector<float> output, lse, key_mass;
  bool operator==(const Results& other) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
    };
    return same(output, other.output) && same(lse, other.lse) && same(key_mass, other.key_mass);
  }
};

class ChunkCase {
 public:
  explicit ChunkCase(const Shape& shape)
      : shape_(shape),
        q_(count(shape.kv_heads, shape.rows(), shape.dim), 1),
        k_(count(shape.kv_heads, shape.kv_len(), shape.dim), 2),
        v_(count(shape.kv_heads, shape.kv_len(), shape.dim), 3) {}

  Results run() const {
    const DeviceNumbers output(count(shape_.kv_heads, shape_.rows(), shape_.dim));
    const DeviceNumbers lse(count(shape_.kv_heads, shape_.rows(), 1));
    const DeviceNumbers mass(count(shape_.kv_heads, shape_.kv_len(), 1));
    ChunkAttention problem;
    problem.q = q_.data();
    problem.k = k_.data();
    problem.v = v_.data();
    problem.k_head_stride = problem.v_head_stride = std::int64_t{shape_.kv_len()} * shape_.dim;
    problem.num_kv_heads = shape_.kv_heads;
    problem.rows = shape_.rows();
    problem.chunk_len = shape_.chunk_len;
    problem.kv_len = shape_.kv_len();
    problem.head_dim = shape_.dim;
    problem.scale = scale();
    problem.output = output.data();
    problem.lse = lse.data();
    problem.key_mass = mass.data();
    EXPECT_EQ(launch_chunk_attention(problem, nullptr), cudaSuccess);
    return {output.copy(), lse.copy(), mass.copy()};
  }

  // By the definition.
  void expect_right(const Results& got) const {
    const int T = shape_.kv_len(), D = shape_.dim;
    for (int head = 0; head < shape_.kv_heads; ++head) {
      std::vector<double> mass(static_cast<std::size_t>(T), 0);
      for (int row = 0; row < shape_.rows(); ++row) {
        const int seen = shape_.past + row % shape_.chunk_len + 1;
        std::vector<double> p(static_cast<std::size_t>(seen));
        double sum = 0;
        for (int key = 0; key < seen; ++key) {
          double s = 0;
          for (int c = 0; c < D; ++c)
            s += static_cast<double>(q_.data()[(head * shape_.rows() + row) * D + c]) *
                 static_cast<double>(k_.data()[(head * T + key) * D + c]);
          p[static_cast<std::size_t>(key)] = std::exp(s * static_cast<double>(scale()));
          sum += p[static_cast<std::size_t>(key)];
        }
        const auto at = static_cast<std::size_t>(head * shape_.rows() + row);
        ASSERT_NEAR(got.lse[at], std::log(sum), 2e-5) << head << ", " << row;
        for (int key = 0; key < seen; ++key)
          mass[static_cast<std::size_t>(key)] += p[static_cast<std::size_t>(key)] / sum;
        for (int c = 0; c < D; ++c) {
          double value = 0;
          for (int key = 0; key < seen; ++key)
            value += p[static_cast<std::size_t>(key)] / sum *
                     static_cast<double>(v_.data()[(head * T + key) * D + c]);
          ASSERT_NEAR(got.output[at * static_cast<std::size_t>(D) + static_cast<std::size_t>(c)],
                      value, 2e-5)
              << head << ", " << row << ", " << c;
        }
      }
      for (int key = 0; key < T; ++key)
        ASSERT_NEAR(got.key_mass[static_cast<std::size_t>(head * T + key)],
                    mass[static_cast<std::size_t>(key)], 1e-4)
            << head << ", " << key;
    }
  }

 private:
  static std::size_t count(int heads, int rows, int columns) {
    return static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) *
           static_cast<std::size_t>(columns);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.dim)); }

  Shape shape_;
  DeviceNumbers q_, k_, v_;
};

class EmulatedKernels : public ::testing::Test {
 protected:
  void TearDown() override {
    emulator::set_schedule(0);
    emulator::leave_out_barrier(0);
  }
};

// Rows and keys that fill tiles and that do not, one query, no past, each size of head.
TEST_F(EmulatedKernels, ChunkAttentionIsThatOfPlainLoops) {
  for (const Shape& shape :
       {Shape{2, 3, 40, 170, 64}, Shape{1, 1, 32, 0, 16}, Shape{1, 8, 1, 77, 128},
        Shape{1, 2, 9, 30, 200}, Shape{1, 1, 33, 95, 256}}) {
    SCOPED_TRACE(::testing::Message()
                 << shape.rows() << " rows of " << shape.dim << " after " << shape.past);
    const ChunkCase one(shape);
    const Results first = one.run();
    one.expect_right(first);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      EXPECT_TRUE(one.run() == first) << "another order of threads gives other bits: " << seed;
    }
    emulator::set_schedule(0);
  }
}

TEST_F(EmulatedKernels, EveryBarrierOfChunkAttentionIsNeeded) {
  const ChunkCase one({1, 2, 40, 100, 64});
  const Results right = one.run();
  const auto lines = emulator::barrier_lines();
  EXPECT_EQ(lines.size(), 8U);
  for (const unsigned line : lines) {
    emulator::leave_out_barrier(line);
    int wrong = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      wrong += one.run() == right ? 0 : 1;
    }
    EXPECT_GT(wrong, 0) << "without the barrier of line " << line << " nothing changes";
  }
}

TEST_F(EmulatedKernels, LaunchesThatCannotBeAreRefused) {
  const auto nothing = [] {};
  EXPECT_FALSE(emulator::launch({0, 1, 1}, {32, 1, 1}, 0, nothing));
  EXPECT_FALSE(emulator::launch({1, 1, 1}, {1025, 1, 1}, 0, nothing));
  EXPECT_FALSE(emulator::launch({1, 1, 1}, {32, 1, 1}, emulator::kMostSharedMemory + 1, nothing));
  int threads = 0;
  EXPECT_TRUE(emulator::launch({2, 3, 1}, {5, 2, 1}, 0, [&] { ++threads; }));
  EXPECT_EQ(threads, 2 * 3 * 5 * 2);
}

using EmulatedKernelsDeath = EmulatedKernels;

TEST_F(EmulatedKernelsDeath, TouchingSharedMemoryBeyondItsEndFaults) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      emulator::launch({1, 1, 1}, {1, 1, 1}, 64,
                       [] { static_cast<volatile char*>(emulator::shared_memory(64))[64] = 1; }),
      "");
}

}  // namespace
}  // namespace kvloupe::cuda
