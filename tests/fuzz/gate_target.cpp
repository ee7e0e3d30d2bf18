// A gate of seer_attention.
#include "core/selection/blocks/gate_file.h"
#include "tests/fuzz/shapes.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  selection::read_gate(file_of(input), small_shape());
}
