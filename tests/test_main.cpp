// The main of every GoogleTest program. When one test skips because the machine lacks what it needs,
// ctest reports the whole program as skipped, so that it does not count as passed.
#include <gmock/gmock.h>

namespace {
constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in cmake/Modules.cmake
}

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (result != 0) return result;
  return testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? kSkipped : 0;
}
