// Every operator of ours that the program with this test knows: the libraries beside it decide which.
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace kvloupe {
namespace {

TEST(Operators, EachRunsOnTheCpuAndOnAnyOtherDevice) {
  int count = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("kvloupe::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), "");
    EXPECT_TRUE(op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
        << name.name;
    EXPECT_TRUE(op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) << name.name;
    ++count;
  }
  EXPECT_GE(count, 12);
}

}  // namespace
}  // namespace kvloupe
