// The list of methods: one line each, in the order of the contract's table.
#pragma once

#define KVLOUPE_METHODS(X) \
  X(dense)                 \
  X(oracle)                \
  X(random)                \
  X(sliding_window)        \
  X(quoka)                 \
  X(uniform_queries)       \
  X(sample_attention)      \
  X(sparq)                 \
  X(loki)                  \
  X(tidal_decode)          \
  X(less_is_more)          \
  X(snapkv)                \
  X(keydiff)               \
  X(h2o)                   \
  X(tova)                  \
  X(streaming_llm)         \
  X(infinipot)             \
  X(quest)                 \
  X(aqua)                  \
  X(static_slicing)        \
  X(aqua_h2o)              \
  X(aqua_memory)           \
  X(flash_prefill)         \
  X(xattention)            \
  X(seer_attention)        \
  X(minference)            \
  X(flex_prefill)          \
  X(compact_attention)
