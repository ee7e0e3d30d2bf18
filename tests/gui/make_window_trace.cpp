// make_window_trace FILE TOKENS LAYERS HEAD_DIM: the trace of gui_trace.h at any size, without runs.
#include "tests/gui/gui_trace.h"

#include <cstdio>
#include <cstdlib>
#include <numeric>

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: make_window_trace FILE TOKENS LAYERS HEAD_DIM\n", stderr);
    return 2;
  }
  kvloupe::test::GuiTraceOptions options = {.num_tokens = std::atoi(argv[2]),
                                            .num_layers = std::atoi(argv[3])};
  options.layers.resize(static_cast<std::size_t>(options.num_layers));
  std::iota(options.layers.begin(), options.layers.end(), 0);
  options.head_dim = std::atoi(argv[4]);
  options.runs.clear();
  kvloupe::test::write_gui_trace(argv[1], options);
  return 0;
}
