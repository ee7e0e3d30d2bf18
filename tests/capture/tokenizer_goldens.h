// What tests/tools/make_tokenizer_goldens.py writes.
#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace kvloupe::capture {

inline const std::filesystem::path kTokenizers =
    std::filesystem::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/tokenizers";

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return nlohmann::json::parse(file);
}

}  // namespace kvloupe::capture
