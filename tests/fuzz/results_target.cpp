// Results of an evaluation.
#include "core/trace/results/results_file.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) { trace::read_results(file_of(input)); }
