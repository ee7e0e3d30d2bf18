#include "tests/gpu/attention_kernels.h"

#include "tests/cuda/row_attention_case.h"
#include "tests/gpu/attention_line.h"
#include "tests/gpu/device_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace kvloupe::gpu {
namespace {

using cuda::KeyView;     // NOLINT(misc-unused-using-decls)
using cuda::NumberType;  // NOLINT(misc-unused-using-decls)
using cuda::testing::Case;
using cuda::testing::Kind;
using cuda::testing::product;  // NOLINT(misc-unused-using-decls)
using Placed = cuda::testing::PlacedCase<DeviceNumbers>;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool print_parity() {
  bool all_right = true;
  std::printf(",\n  \"attention\": [\n");
  const char* separator = "";
  for (const Case& c : cuda::testing::cases_of_all_types()) {
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
    std::printf("    %s", separator);
    print_attention_case(c, errors, same, right);
    separator = ",";
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
  // K and V, or Q and output.
  const double bytes_of_two = c.type == NumberType::Fp32 ? 8 : 4;
  if (c.kind == Kind::Dense) {
    const double pairs = c.past + (c.chunk_len + 1) / 2.0;
    return {4 * pairs * c.rows() * c.dim,
            bytes_of_two * (product(c.kv_heads, c.kv_len(), c.dim) + product(c.rows(), c.dim))};
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
  work.bytes = bytes_of_two * c.dim * (keys + c.rows());
  return work;
}

double attribute(cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
  return value;
}

// Multiply-adds a clock of a multiprocessor, by the makers' data sheets: of fp32 64 of sm_80, 128 of all
// that came after; of 16-bit numbers on tensor cores 1,024 of sm_80 (A100: 312 TFLOP/s), 2,048 of sm_90
// (H100 SXM: 989), 4,096 of sm_100, 512 of the cards that are not for servers.
double multiply_adds_a_clock(NumberType type) {
  const double major = attribute(cudaDevAttrComputeCapabilityMajor);
  const bool is_sm_80 = major == 8 && attribute(cudaDevAttrComputeCapabilityMinor) == 0;
  if (type == NumberType::Fp32) return is_sm_80 ? 64 : 128;
  return is_sm_80 ? 1024 : major == 9 ? 2048 : major == 10 ? 4096 : 512;
}

// What the device can do at the most, by its own account of its clocks.
struct Peak {
  double flop_per_s = 0, bytes_per_s = 0;
};
Peak peak(NumberType type) {
  return {attribute(cudaDevAttrMultiProcessorCount) * attribute(cudaDevAttrClockRate) * 1e3 * 2 *
              multiply_adds_a_clock(type),
          attribute(cudaDevAttrMemoryClockRate) * 1e3 * 2 *
              attribute(cudaDevAttrGlobalMemoryBusWidth) / 8};
}

void print_times() {
  const char* separator = "";
  const auto print = [&](const char* name, NumberType type, double ms, const Work& work) {
    const Peak most = peak(type);
    const double floor_ms =
        1e3 * std::max(work.flop / most.flop_per_s, work.bytes / most.bytes_per_s);
    std::printf(
        "    %s{\"case\": \"%s\", \"type\": \"%s\", \"ms\": %.4f, \"floor_ms\": %.4f, "
        "\"gflop\": %.2f, \"tflop_per_s\": %.1f, \"megabytes\": %.2f}\n",
        separator, name, cuda::testing::name_of(type), ms, floor_ms, work.flop / 1e9,
        work.flop / ms / 1e9, work.bytes / 1e6);
    separator = ",";
  };
  std::printf(",\n  \"attention_times\": [\n");
  for (Case c : timed_cases())
    for (const NumberType type : {NumberType::Fp32, NumberType::Fp16, NumberType::Bf16}) {
      c.type = type;
      const Placed placed(c);
      const Work work = work_of(c, placed.views());
      print(c.name, type, median_ms([&] { return placed.attend(); }, 20), work);
      if (c.kind == Kind::Dense && c.chunk_len > 1)
        print("key mass of it", type, median_ms([&] { return placed.add_mass(); }, 20),
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
  return right;
}

void print_attention_times() { print_times(); }

}  // namespace kvloupe::gpu
