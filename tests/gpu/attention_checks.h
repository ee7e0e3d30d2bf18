// Parity and times of the kernels of attention, as JSON.
#pragma once

#include "tests/cuda/row_attention_case.h"
#include "tests/gpu/device_numbers.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace kvloupe::cuda::testing {

using PlacedAttention = PlacedCase<DeviceNumbers>;

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// An array of objects, one a case. True where all is right.
inline bool print_attention_parity() {
  bool all_right = true;
  for (const Case& c : cases()) {
    const PlacedAttention placed(c);
    const auto run = [&] {
      return placed.attend() == cudaSuccess &&
             (c.kind != Kind::Dense || placed.add_mass() == cudaSuccess);
    };
    const bool started = run();
    const Results first = placed.results();
    const bool again = run();
    const Results second = placed.results();
    const bool same = same_bits(first.output, second.output) && same_bits(first.lse, second.lse) &&
                      same_bits(first.key_mass, second.key_mass);
    const Errors errors = errors_of(c, placed.inputs(), first);
    const bool right = started && again && same && are_small(errors);
    std::printf(
        "    %s{\"case\": \"%s\", \"q_heads\": %d, \"kv_heads\": %d, \"chunk_len\": %d, "
        "\"past\": %d, \"dim\": %d, \"output\": %.3g, \"lse\": %.3g, \"key_mass\": %.3g, "
        "\"same_bits\": %s, \"right\": %s}\n",
        &c == cases().data() ? "" : ",", c.name, c.heads(), c.kv_heads, c.chunk_len, c.past, c.dim,
        errors.output, errors.lse, errors.key_mass, same ? "true" : "false",
        right ? "true" : "false");
    all_right = all_right && right;
  }
  return all_right;
}

// The cases of docs/cuda.md: 32 query and 8 KV heads of 128 after 30,720 keys.
inline std::vector<Case> timed_cases() {
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
inline Work work_of(const Case& c, const Views& views) {
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

// ", " and the times where there are any.
inline void print_attention_times() {
#ifdef __CUDACC__
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
    const PlacedAttention placed(c);
    const Work work = work_of(c, placed.views());
    print(c.name, median_ms([&] { return placed.attend(); }, 20), work);
    if (c.kind == Kind::Dense && c.chunk_len > 1)
      print("key mass of it", median_ms([&] { return placed.add_mass(); }, 20),
            {work.flop / 2, work.bytes / 2});
  }
  std::printf("  ]");
#endif
}

}  // namespace kvloupe::cuda::testing
