#include "tests/gpu/attention_kernels.h"

#include "tests/cuda/row_attention_case.h"
#include "tests/gpu/device_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace kvloupe::gpu {
namespace {

using cuda::KeyView;
using cuda::testing::Case;
using cuda::testing::Kind;
using cuda::testing::product;
using Placed = cuda::testing::PlacedCase<DeviceNumbers>;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool print_parity() {
  bool all_right = true;
  std::printf(",\n  \"attention\": [\n");
  for (const Case& c : cuda::testing::cases()) {
    const Placed placed(c);
    const auto run = [&] {
      return placed.attend() == cudaSuccess &&
             (c.kind != Kind::Dense || placed.add_mass() == cudaSuccess);
    };
    const bool started = run();
    const cuda::testing::Results first = placed.results();
    const bool again = run();
    const cuda::testing::Results second = placed.results();
    const bool same = same_bits(first.output, second.output) && same_bits(first.lse, second.lse) &&
                      same_bits(first.key_mass, second.key_mass);
    const cuda::testing::Errors errors = cuda::testing::errors_of(c, placed.inputs(), first);
    const bool right = started && again && same && cuda::testing::are_small(errors);
    std::printf(
        "    %s{\"case\": \"%s\", \"q_heads\": %d, \"kv_heads\": %d, \"chunk_len\": %d, "
        "\"past\": %d, \"dim\": %d, \"output\": %.3g, \"lse\": %.3g, \"key_mass\": %.3g, "
        "\"same_bits\": %s, \"right\": %s}\n",
        &c == cuda::testing::cases().data() ? "" : ",", c.name, c.heads(), c.kv_heads, c.chunk_len,
        c.past, c.dim, errors.output, errors.lse, errors.key_mass, same ? "true" : "false",
        right ? "true" : "false");
    all_right = all_right && right;
  }
  std::printf("  ]");
  return all_right;
}

#ifdef __CUDACC__

// The cases of docs/cuda.md: 32 query and 8 KV heads of 128 after 30,720 keys.
std::vector<Case> timed_cases() {
  const Case dense = {.name = "dense, chunk of 128",
                      .kind = Kind::Dense,
                      .kv_heads = 8,
                      .group = 4,
                      .chunk_len = 128,
                      .past = 30720,
                      .dim = 128};
  Case gathered = dense, paged = dense, blocks = dense, step = dense, gathered_step = dense;
  gathered.name = "gathered, 1 key in 30";
  gathered.kind = gathered_step.kind = Kind::Gathered;
  gathered.one_in = gathered_step.one_in = 30;
  paged.name = "paged, 1 page of 16 in 10";
  paged.kind = Kind::Paged;
  paged.block_size = 16;
  paged.heads_per_row = 4;
  paged.one_in = 10;
  blocks.name = "blocks of 128, 1 in 10, chunk of 1,024";
  blocks.kind = Kind::Blocks;
  blocks.chunk_len = 1024;
  blocks.block_size = 128;
  blocks.one_in = 10;
  step.name = "dense, one query";
  gathered_step.name = "gathered, 1 key in 30, one query";
  step.chunk_len = gathered_step.chunk_len = 1;
  return {dense, gathered, paged, blocks, step, gathered_step};
}

// The least that has to be done: products of the pairs that see each other, each key that anyone sees
// read once.
struct Work {
  double flop = 0, bytes = 0;
};
Work work_of(const Case& c, const cuda::testing::Views& views) {
  if (c.kind == Kind::Dense) {
    const double pairs = c.past + (c.chunk_len + 1) / 2.0;
    return {4 * pairs * c.rows() * c.dim,
            8.0 * (product(c.kv_heads, c.kv_len(), c.dim) + product(c.rows(), c.dim))};
  }
  Work work;
  std::vector<bool> is_read(product(c.kv_heads, c.kv_len()));
  const int size = c.kind == Kind::Paged || c.kind == Kind::Blocks ? c.block_size : 1;
  for (const KeyView& view : views.views) {
    work.flop += 4.0 * c.dim * view.num_rows * (view.past_keys + (view.num_queries + 1) / 2.0);
    const std::size_t head = product(view.kv_head, c.kv_len());
    for (int key = 0; key < view.past_keys; ++key)
      is_read[head + static_cast<std::size_t>(
                         views.table[static_cast<std::size_t>(view.past_list + key / size)] * size +
                         key % size)] = true;
    for (int own = 0; own < view.num_queries; ++own)
      is_read[head + static_cast<std::size_t>(view.own_begin + own)] = true;
  }
  const auto keys = static_cast<double>(std::count(is_read.begin(), is_read.end(), true));
  work.bytes = 8.0 * c.dim * (keys + c.rows());
  return work;
}

// What the device can do at the most, by its own account of its clocks.
struct Peak {
  double flop_per_s = 0, bytes_per_s = 0;
};
Peak peak() {
  const auto attribute = [](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
    return static_cast<double>(value);
  };
  // fp32 multiply-adds a clock: 64 a multiprocessor of sm_80, 128 of all that came after.
  const bool is_sm_80 = attribute(cudaDevAttrComputeCapabilityMajor) == 8 &&
                        attribute(cudaDevAttrComputeCapabilityMinor) == 0;
  return {attribute(cudaDevAttrMultiProcessorCount) * attribute(cudaDevAttrClockRate) * 1e3 * 2 *
              (is_sm_80 ? 64 : 128),
          attribute(cudaDevAttrMemoryClockRate) * 1e3 * 2 *
              attribute(cudaDevAttrGlobalMemoryBusWidth) / 8};
}

void print_times() {
  const Peak most = peak();
  const char* separator = "";
  const auto print = [&](const char* name, double ms, const Work& work) {
    const double floor_ms =
        1e3 * std::max(work.flop / most.flop_per_s, work.bytes / most.bytes_per_s);
    std::printf(
        "    %s{\"case\": \"%s\", \"ms\": %.4f, \"floor_ms\": %.4f, \"gflop\": %.2f, "
        "\"megabytes\": %.2f}\n",
        separator, name, ms, floor_ms, work.flop / 1e9, work.bytes / 1e6);
    separator = ",";
  };
  std::printf(",\n  \"attention_times\": [\n");
  for (const Case& c : timed_cases()) {
    const Placed placed(c);
    const Work work = work_of(c, placed.views());
    print(c.name, median_ms([&] { return placed.attend(); }, 20), work);
    if (c.kind == Kind::Dense && c.chunk_len > 1)
      print("key mass of it", median_ms([&] { return placed.add_mass(); }, 20),
            {work.flop / 2, work.bytes / 2});
  }
  std::printf("  ]");
}

#else

void print_times() {}

#endif

}  // namespace

bool print_attention() {
  const bool right = print_parity();
  print_times();
  return right;
}

}  // namespace kvloupe::gpu
