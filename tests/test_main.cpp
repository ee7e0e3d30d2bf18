// The main of every GoogleTest program. When one test skips because the machine lacks what it needs,
// ctest reports the whole program as skipped, so that it does not count as passed.
#include <gmock/gmock.h>

#include <cstdio>

namespace {
constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in cmake/Modules.cmake
constexpr int kNoCommandLine = 2;
}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  // The window starts its own program for a capture (core/base/run_self.h). In a test that is this
  // program, which would run its tests again in the same folder.
  if (argc > 1) {
    std::fprintf(stderr, "error: %s is a test, not the program; it takes no %s\n", argv[0],
                 argv[1]);
    return kNoCommandLine;
  }
  const int result = RUN_ALL_TESTS();
  if (result != 0) return result;
  return testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? kSkipped : 0;
}
