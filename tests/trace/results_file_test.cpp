// Results that the Python package wrote (tests/tools/make_results.py), read whole or refused.
#include "core/trace/results/results_file.h"
#include "core/base/error.h"
#include "tests/base/temporary_folder.h"
#include "tests/trace/hdf5_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

namespace kvloupe::trace {
namespace {

using ::testing::HasSubstr;

const std::string kFile = std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../data/results/needles.h5";

TEST(ResultsFile, IsReadWhole) {
  ASSERT_TRUE(is_results_file(kFile));
  const Results results = read_results(kFile);
  EXPECT_EQ(results.model, "tiny-llama");
  EXPECT_TRUE(results.complete);
  EXPECT_EQ(results.total, 105);
  ASSERT_EQ(results.samples.size(), 105U);
  const ResultSample& first = results.samples.front();
  EXPECT_EQ(first.task, "kvloupe_niah");
  EXPECT_EQ(first.method, "dense");
  EXPECT_EQ(first.sample, "kvloupe_niah/512/0/0");
  EXPECT_EQ(first.id, "kvloupe_niah/512/0/0/dense");
  EXPECT_EQ(first.answer, "4093");
  EXPECT_EQ(first.length, 512);
  EXPECT_EQ(first.depth, 0);
  EXPECT_EQ(first.budget, -1);
  EXPECT_EQ(first.score, 1);
  EXPECT_EQ(first.seconds, 1.5);
  EXPECT_TRUE(std::isnan(first.kept));
  EXPECT_TRUE(first.higher_is_better);
  const ResultSample& last = results.samples.back();
  EXPECT_EQ(last.refused, "the prompt is too long");
  EXPECT_TRUE(std::isnan(last.score));
  EXPECT_TRUE(std::isnan(last.depth));
  const auto with_trace = std::count_if(results.samples.begin(), results.samples.end(),
                                        [](const auto& sample) { return !sample.trace.empty(); });
  EXPECT_EQ(with_trace, 1);
}

class DamagedResults : public ::testing::Test {
 protected:
  std::string refusal(const std::function<void(hid_t)>& damage) {
    const std::string path = (folder_ / "results.h5").string();
    std::filesystem::copy_file(kFile, path, std::filesystem::copy_options::overwrite_existing);
    {
      const h5::Lock lock;
      const h5::Handle file = h5::checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
      damage(file.get());
    }
    try {
      read_results(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(DamagedResults, AreRefusedByASentence) {
  const auto without = [&](const char* path) {
    return refusal([path](hid_t file) { testing::drop(file, path); });
  };
  const auto with_mark = [&](const char* name, const char* value) {
    return refusal([&](hid_t file) {
      H5Adelete(file, name);
      h5::write_attribute(file, name, value);
    });
  };
  for (const char* path : {"/samples", "/texts/answer", "/texts/sample_offsets", "/texts/trace",
                           "/numbers/doc", "/numbers/direction", "/numbers/kept"})
    EXPECT_THAT(without(path), HasSubstr("name a file that python -m kvloupe eval wrote")) << path;
  EXPECT_THAT(with_mark("schema_version", "3.0"), HasSubstr("its schema version is 3.0"));
  EXPECT_THAT(with_mark("format", "other"), HasSubstr("it does not carry the mark"));
  for (const char* path : {"/numbers/doc", "/texts/answer", "/texts/answer_offsets"})
    EXPECT_NE(
        refusal([&](hid_t file) { testing::claim(file, path, H5T_STD_I64LE, {hsize_t{1} << 40}); }),
        "")
        << path;
  EXPECT_NE(refusal([](hid_t file) {
              testing::claim(file, "/samples", H5T_STD_I64LE, {hsize_t{1} << 40});
            }),
            "");
  EXPECT_EQ(refusal([](hid_t) {}), "");
}

TEST(ResultsFile, OtherFilesAreNone) {
  EXPECT_FALSE(is_results_file("/nonexistent.h5"));
  EXPECT_FALSE(is_results_file("/dev/null"));
  EXPECT_FALSE(is_results_file(std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../data/v1_tiny.h5"));
  EXPECT_THROW(read_results("/nonexistent.h5"), Error);
}

}  // namespace
}  // namespace kvloupe::trace
