// What the list of views says of each.
#include "app/state/view_list.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace kvloupe::state {
namespace {

std::set<std::string> headings(const std::filesystem::path& file) {
  std::set<std::string> found;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.rfind("## ", 0) == 0) found.insert(line.substr(3));
  return found;
}

TEST(ViewList, EachViewLinksToAParagraphThatThereIs) {
  const auto root = std::filesystem::path(KVLOUPE_TEST_SOURCE_DIR) / "../..";
  const std::set<std::string> paragraphs = headings(root / kMetricsFile);
  ASSERT_FALSE(paragraphs.empty());
  for (const ViewInfo& view : views()) {
    if (view.id == "trace_info") {
      EXPECT_EQ(view.metrics_link(), "");
      continue;
    }
    EXPECT_TRUE(paragraphs.contains(view.metrics)) << view.id << ": " << view.metrics;
  }
  EXPECT_EQ(find_view("query_geometry")->metrics_link(), "docs/metrics.md#queries-keys-and-heads");
  EXPECT_EQ(find_view("latency")->metrics_link(), "docs/metrics.md#time");
}

}  // namespace
}  // namespace kvloupe::state
