// What one measurement of several may fail by without ending the others.
#include "core/measure/failure_of_one.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace kvloupe::measure {
namespace {

template <typename Thrown>
Error failure_by(const Thrown& what) {
  try {
    throw what;
  } catch (const std::exception& thrown) {
    return failure_of_one("it is not measured", thrown);
  }
}

TEST(FailureOfOne, MemoryThatOneDoesNotGetIsItsReason) {
  const Error error = failure_by(
      std::runtime_error("CUDA out of memory. Tried to allocate 40.00 GiB. GPU 0 has a"));
  EXPECT_EQ(error.kind(), ErrorKind::Input);
  EXPECT_EQ(error.what_failed(), "it is not measured");
  EXPECT_EQ(error.why(),
            "the GPU has not enough memory (CUDA out of memory. Tried to allocate 40.00 GiB)");
  EXPECT_EQ(failure_by(std::bad_alloc()).kind(), ErrorKind::Input);
  EXPECT_EQ(failure_by(input_error("aqua", "it has no basis", "fit one")).why(), "it has no basis");
}

TEST(FailureOfOne, WhatFailsInTheOthersTooIsThrownOnAsItCame) {
  EXPECT_THROW(failure_by(std::runtime_error("CUDA error: an illegal memory access was met")),
               std::runtime_error);
  EXPECT_THROW(failure_by(std::logic_error("a bug of ours")), std::logic_error);
  EXPECT_THROW(failure_by(cancelled_error()), Error);
}

}  // namespace
}  // namespace kvloupe::measure
