// make_tiny_model FILE.gguf: the random model of the tests, for scripts.
#include "tests/capture/tiny_llama.h"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_tiny_model FILE.gguf\n");
    return 2;
  }
  kvloupe::capture::TinyLlama().build().write(argv[1]);
  return 0;
}
