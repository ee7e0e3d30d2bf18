// The one exception type: text on one line, exit codes of the contract, cancel flags.
#include "core/base/error.h"
#include "core/base/cancel.h"
#include "core/base/engine_library.h"
#include "core/base/foreign_error.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kvloupe {
namespace {

TEST(ErrorTest, ExitCodesAreThoseOfTheContract) {
  EXPECT_EQ(usage_error("a", "b", "c").exit_code(), 2);
  EXPECT_EQ(input_error("a", "b", "c").exit_code(), 1);
  EXPECT_EQ(cancelled_error().exit_code(), 130);
}

TEST(ErrorTest, TextIsOneLineInThreeParts) {
  EXPECT_STREQ(input_error("cannot open x", "line one\nline two", "try y").what(),
               "cannot open x; line one\\x0Aline two; try y");
}

TEST(ErrorTest, CheckThrowsInsteadOfAborting) {
  EXPECT_THROW(KVLOUPE_CHECK(1 + 1 == 3), Error);
  EXPECT_NO_THROW(KVLOUPE_CHECK(1 + 1 == 2));
}

// As Torch words them, with the stack below, and as our own kernels do.
TEST(ErrorTest, WhatAGpuLacksIsASentenceWithARemedy) {
  const auto of = [](const char* text) {
    return error_from("layer 3 cannot be selected in", std::runtime_error(text));
  };
  const Error memory = of(
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 11.00 GiB of "
      "which 1.10 GiB is free.\nException raised from malloc at CUDACachingAllocator.cpp");
  EXPECT_EQ(memory.kind(), ErrorKind::Input);
  EXPECT_EQ(memory.why(),
            "the GPU has not enough memory (CUDA out of memory. Tried to allocate 2.00 GiB)");
  EXPECT_NE(memory.remedy().find("--device cpu"), std::string::npos);
  EXPECT_FALSE(is_gpu_failure(std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB")));
  const char* of_kernel = "CUDA out of memory (score_keys)";
  EXPECT_EQ(of(of_kernel).kind(), ErrorKind::Input);
  EXPECT_EQ(of(of_kernel).why(), "the GPU has not enough memory (CUDA out of memory (score_keys))");
  EXPECT_FALSE(is_gpu_failure(std::runtime_error(of_kernel)));
  for (const char* text :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA driver error: out of memory"}) {
    EXPECT_EQ(of(text).kind(), ErrorKind::Input) << text;
    EXPECT_NE(of(text).why().find("has not enough memory"), std::string::npos) << text;
    EXPECT_FALSE(is_gpu_failure(std::runtime_error(text))) << text;
  }
  EXPECT_FALSE(is_gpu_failure(std::runtime_error("CUDA error: invalid argument")));
  const char* before_it_begins = "CUDA error: out of memory\nCUDA kernel errors might be";
  EXPECT_EQ(of(before_it_begins).why(),
            "the GPU has not enough memory (CUDA error: out of memory)");
  EXPECT_FALSE(is_gpu_failure(std::runtime_error(before_it_begins)));
  for (const char* text :
       {"CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be",
        "CUDA error: unspecified launch failure (score_keys)",
        "CUDA driver error: device not ready"}) {
    const Error lost = of(text);
    EXPECT_EQ(lost.kind(), ErrorKind::Input) << text;
    EXPECT_TRUE(is_gpu_failure(std::runtime_error(text))) << text;
    EXPECT_EQ(lost.why().find('\n'), std::string::npos);
    EXPECT_NE(lost.remedy().find("--device cpu"), std::string::npos) << text;
  }
  EXPECT_EQ(of("expected scalar type Float but found Half").kind(), ErrorKind::Internal);
}

// This program has no engine beside it.
TEST(ErrorTest, AMissingEngineIsASentence) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      load_engine();
      FAIL() << "an engine was found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_NE(std::string(error.what()).find("libkvloupe_engine.so"), std::string::npos);
    }
  }
  EXPECT_FALSE(engine_loaded());
}

TEST(CancelTest, TokensSeeTheirSource) {
  CancelSource source;
  const CancelToken token = source.token();
  EXPECT_FALSE(token.cancelled());
  EXPECT_NO_THROW(token.throw_if_cancelled());
  source.cancel();
  EXPECT_TRUE(token.cancelled());
  EXPECT_THROW(token.throw_if_cancelled(), Error);
  EXPECT_FALSE(CancelToken().cancelled());
}

}  // namespace
}  // namespace kvloupe
