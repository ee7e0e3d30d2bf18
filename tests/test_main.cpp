// The main of every GoogleTest program: a test that skipped because the machine lacks what it needs
// makes the program a skipped one, so that nobody counts it as passed.
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
