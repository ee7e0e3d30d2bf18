// What libkvloupe.so (kvloupe.cpp) calls in the engine, which it loads into a namespace of its own: C types alone, no exception,
// and no memory that one side allocates and the other frees.
#pragma once

#include "core/c_api/kvloupe.h"

#include <cstddef>
#include <cstdint>

namespace kvloupe::c_api {

inline constexpr std::size_t kMostOfError = 2048;

// Of the caller's thread.
struct ErrorText {
  char text[kMostOfError];
};

// As the functions of the same names in kvloupe.h. `error` is written where they fail.
struct Calls {
  const char* version;
  int (*spec_facts)(const char* spec, char* json, std::size_t room, std::size_t* length,
                    ErrorText* error);
  int (*create)(const char* spec, const kvloupe_model* model, std::int32_t threads,
                kvloupe_selector** selector, ErrorText* error);
  int (*fork)(const kvloupe_selector* selector, kvloupe_selector** copy, ErrorText* error);
  void (*destroy)(kvloupe_selector* selector);
  const char* (*spec)(const kvloupe_selector* selector);
  int (*select)(kvloupe_selector* selector, const kvloupe_chunk* chunk, ErrorText* error);
  int (*alive)(kvloupe_selector* selector, std::int32_t layer, ErrorText* error);
  int (*layout)(const kvloupe_selector* selector, std::int32_t* row_axis, std::int64_t* num_rows,
                std::int64_t* q_heads_per_row, ErrorText* error);
  int (*row)(const kvloupe_selector* selector, std::int64_t row, const std::int32_t** positions,
             std::int64_t* count, ErrorText* error);
  int (*rows)(const kvloupe_selector* selector, const std::int32_t** positions,
              const std::int64_t** offsets, ErrorText* error);
  int (*blocks)(const kvloupe_selector* selector, kvloupe_blocks* blocks, ErrorText* error);
  const char* (*dense_reason)(const kvloupe_selector* selector);
  int (*reset)(kvloupe_selector* selector, std::int64_t past, std::int64_t chunk, ErrorText* error);
};

// The name of the table in the engine. With a new layout of Calls it gets a new number: a library and an engine of two
// versions do not meet.
inline constexpr const char* kCallsName = "kvloupe_c_calls_4";

}  // namespace kvloupe::c_api
