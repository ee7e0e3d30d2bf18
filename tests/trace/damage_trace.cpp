// damage_trace structure|random SEED COUNT FOLDER: writes a sound trace with everything that a trace can hold and COUNT
// damaged copies of it, 0.h5, 1.h5, ..., into FOLDER; a line for each says what was done. For tests/tools/damage_files.py.
#include "tests/trace/hdf5_structure.h"
#include "tests/trace/trace_fixture.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string_view>

namespace kvloupe::trace::testing {
namespace {

int damage_traces(bool structured, std::uint64_t seed, int count,
                  const std::filesystem::path& folder) {
  ReferenceTrace reference = make_reference(DType::F16);
  add_probe_and_lanes(reference);
  add_blocks(reference);
  write_trace(folder / "sound.h5", reference);
  std::ifstream file(folder / "sound.h5", std::ios::binary);
  const std::string sound{std::istreambuf_iterator<char>(file), {}};
  const Structure structure = find_structure(sound);
  std::mt19937_64 random{seed};
  for (int i = 0; i < count; ++i) {
    const Damage damage =
        structured ? damage_structure(sound, structure, random) : damage_at_random(sound, random);
    std::ofstream(folder / (std::to_string(i) + ".h5"), std::ios::binary) << damage.bytes;
    std::cout << damage.what << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace kvloupe::trace::testing

int main(int argc, char** argv) {
  const std::string_view kind = argc == 5 ? argv[1] : "";
  if (kind != "structure" && kind != "random") {
    std::cerr << "error: damage_trace takes structure or random, a seed, a count and a folder\n";
    return 2;
  }
  return kvloupe::trace::testing::damage_traces(
      kind == "structure", std::strtoull(argv[2], nullptr, 10), std::atoi(argv[3]), argv[4]);
}
