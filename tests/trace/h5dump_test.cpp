// What we write, HDF5 1.10 reads: FORMAT.md promises it to other tools. Debian's h5dump is of that version.
#include "tests/base/matchers.h"
#include "tests/trace/trace_fixture.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>

namespace kvloupe::trace::testing {
namespace {

// Output and errors of a command that must succeed.
std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 65536> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  EXPECT_EQ(pclose(pipe), 0) << command << ": " << output.substr(0, 500);
  return output;
}

TEST(H5dump, OfVersion110ReadsAllThatIsWritten) {
  ASSERT_THAT(output_of("h5dump --version"), HasSubstr("Version 1.10."));
  const TemporaryFolder folder;
  ReferenceTrace reference = make_reference(DType::F16);
  add_probe_and_lanes(reference);
  add_blocks(reference);
  const std::string path = (folder / "trace.h5").string();
  write_trace(path, reference);
  const std::string all = output_of("h5dump " + path);
  EXPECT_THAT(all, Not(HasSubstr("unable")));
  EXPECT_THAT(output_of("h5dump -y -w 0 -d /tokens/ids " + path),
              HasSubstr(fmt::format("{}", fmt::join(reference.ids, ", "))));
}

}  // namespace
}  // namespace kvloupe::trace::testing
