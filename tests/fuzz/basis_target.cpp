// A calibrated basis of loki and the AQUA methods.
#include "core/trace/basis_file.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  const trace::Basis basis = trace::read_basis(file_of(input));
  trace::shares_text(basis, {1, 2, 3});
}
