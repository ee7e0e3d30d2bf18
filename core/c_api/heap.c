/* libkvloupe_heap.so: the first library in the engine's namespace (kvloupe.cpp), and so the first where all others there look
   for malloc and free. It hands both on to the host's. It also keeps the end of the process quiet (below).

   Two heaps would not do. The loader is one for both sides and takes the memory of a thread's variables from the host's heap; the
   C library that starts a thread on a stack used before frees that memory by its own free(). */
#include "core/c_api/heap.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static struct kvloupe_heap host;

/* For what is asked for before the host's functions are known: a few kilobytes, never given back. */
enum { kAlign = 16, kEarly = 1 << 18 };
static _Alignas(kAlign) unsigned char early[kEarly];
static size_t early_end;

static int is_early(const void *memory) {
  const uintptr_t at = (uintptr_t)memory;
  return at >= (uintptr_t)early && at < (uintptr_t)early + kEarly;
}

/* One thread at a time: the host waits for the loader meanwhile. The size stands before the memory. */
static void *take_early(size_t size, size_t align) {
  if (align < kAlign) align = kAlign;
  if (size > kEarly || align > kEarly) return NULL;
  const uintptr_t base = (uintptr_t)early;
  const uintptr_t begin = (base + early_end + kAlign + align - 1) / align * align;
  if (begin + size > base + kEarly) return NULL;
  early_end = begin + size - base;
  memcpy((void *)(begin - kAlign), &size, sizeof size);
  return (void *)begin;
}

static size_t size_of_early(const void *memory) {
  size_t size;
  memcpy(&size, (const unsigned char *)memory - kAlign, sizeof size);
  return size;
}

/* The host's errno is not the one that is read here. */
static void *or_no_memory(void *memory) {
  if (memory == NULL) errno = ENOMEM;
  return memory;
}

void kvloupe_heap_set(const struct kvloupe_heap *of_host) { host = *of_host; }

void *malloc(size_t size) {
  return or_no_memory(host.malloc != NULL ? host.malloc(size) : take_early(size, kAlign));
}

void free(void *memory) {
  if (memory == NULL || is_early(memory)) return;
  host.free(memory);
}

void *calloc(size_t count, size_t size) {
  if (host.calloc != NULL) return or_no_memory(host.calloc(count, size));
  if (size != 0 && count > SIZE_MAX / size) return or_no_memory(NULL);
  return or_no_memory(take_early(count * size, kAlign)); /* never used before: zero */
}

void *realloc(void *memory, size_t size) {
  if (memory == NULL) return malloc(size);
  if (!is_early(memory)) return or_no_memory(host.realloc(memory, size));
  void *moved = malloc(size);
  const size_t before = size_of_early(memory);
  if (moved != NULL) memcpy(moved, memory, before < size ? before : size);
  return moved;
}

void *memalign(size_t align, size_t size) {
  return or_no_memory(host.memalign != NULL ? host.memalign(align, size) : take_early(size, align));
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **memory, size_t align, size_t size) {
  if (align < sizeof(void *) || (align & (align - 1)) != 0) return EINVAL;
  void *taken = memalign(align, size);
  if (taken == NULL) return ENOMEM;
  *memory = taken;
  return 0;
}

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }
void *valloc(size_t size) { return memalign(page(), size); }
void *pvalloc(size_t size) { return memalign(page(), (size + page() - 1) / page() * page()); }

size_t malloc_usable_size(void *memory) {
  if (memory == NULL) return 0;
  return is_early(memory) ? size_of_early(memory) : host.malloc_usable_size(memory);
}

/* At the end of the process the loader ends the libraries of this namespace, one by one, on a thread of the host. What they have
   registered for their end may call on another that is no more, or look for what belongs to a thread and find the host's. None has
   anything to write: nothing is run. */
void __cxa_finalize(void *library);
void __cxa_finalize(void *library) { (void)library; }

#pragma GCC visibility pop
