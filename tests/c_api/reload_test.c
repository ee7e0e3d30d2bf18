/* reload_test LIBRARY: loads libkvloupe.so, uses it and lets go of it, more often than a process has room for engines. */
#include "core/c_api/kvloupe.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { kTimes = 10 };

/* POSIX lets dlsym() give a function, ISO C has no cast for it. */
static int find(void *library, const char *name, void *function) {
  void *const found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static int use(void *library) {
  __typeof__(&kvloupe_last_error) last_error = NULL;
  __typeof__(&kvloupe_selector_create) create = NULL;
  __typeof__(&kvloupe_selector_destroy) destroy = NULL;
  if (!find(library, "kvloupe_last_error", &last_error) || !find(library, "kvloupe_selector_create", &create) || !find(library, "kvloupe_selector_destroy", &destroy)) {
    fputs("a function is missing\n", stderr);
    return 0;
  }
  const kvloupe_model model = {.size = sizeof model, .num_layers = 1, .num_q_heads = 4, .num_kv_heads = 2, .head_dim = 8};
  kvloupe_selector *selector = NULL;
  if (create("quoka:budget_tokens=4", &model, 1, &selector) != KVLOUPE_OK) {
    fprintf(stderr, "%s\n", last_error());
    return 0;
  }
  destroy(selector);
  return 1;
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  for (int time = 0; time < kTimes; time++) {
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    if (!use(library) || dlclose(library) != 0) {
      fprintf(stderr, "failed when it was loaded for time %d\n", time + 1);
      return 1;
    }
  }
  return 0;
}
