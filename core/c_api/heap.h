/* What libkvloupe_heap.so (heap.c) is told when it is loaded: the host's functions of these names. */
#pragma once

#include <stddef.h>

struct kvloupe_heap {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  size_t (*malloc_usable_size)(void*);
};

#ifdef __cplusplus
extern "C"
#endif
    void
    kvloupe_heap_set(const struct kvloupe_heap* of_host);
