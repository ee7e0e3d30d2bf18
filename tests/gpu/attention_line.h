// What the kit prints of one case of attention.
#pragma once

#include "tests/cuda/row_attention_case.h"
#include "tests/gpu/kernel_lines.h"

#include <cstdio>
#include <string>

namespace kvloupe::gpu {

inline void print_attention_case(const cuda::testing::Case& c, const cuda::testing::Errors& errors,
                                 bool same_bits, bool right) {
  std::printf(
      "{\"case\": \"%s\", \"type\": \"%s\", \"q_heads\": %d, \"kv_heads\": %d, \"chunk_len\": %d, "
      "\"past\": %d, \"dim\": %d, \"output\": %.3g, \"lse\": %.3g, \"key_mass\": %.3g, "
      "\"of_tolerated\": %.3g, \"same_bits\": %s, \"right\": %s}\n",
      c.name, cuda::testing::name_of(c.type), c.heads(), c.kv_heads, c.chunk_len, c.past, c.dim,
      json_number(errors.output), json_number(errors.lse), json_number(errors.key_mass),
      json_number(errors.of_tolerated), json_word(same_bits), json_word(right));
  if (!right)
    say_wrong(c.name, c.type,
              std::to_string(c.chunk_len) + " queries after " + std::to_string(c.past) + " keys");
}

}  // namespace kvloupe::gpu
