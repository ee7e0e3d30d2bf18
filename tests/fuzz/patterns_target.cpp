// The patterns of minference.
#include "core/selection/blocks/pattern_file.h"
#include "tests/fuzz/shapes.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  const auto patterns = selection::read_patterns(file_of(input), small_shape());
  selection::write_patterns(folder() / "again", patterns);
  require(selection::read_patterns(folder() / "again", small_shape()) == patterns,
          "patterns are read as they were written");
}
