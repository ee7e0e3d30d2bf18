// The set of what a trace stores, against its words as they stand in files and on the command line.
#include "core/trace/fields/stored_parts.h"

#include <gtest/gtest.h>

namespace kvloupe::trace {
namespace {

TEST(StoredParts, AreWrittenAsFilesHaveThem) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({Part::Lse, Part::Qkv}), "qkv,lse");
  EXPECT_EQ(text_of({Part::Qkv, Part::Lse, Part::Mass, Part::Probe, Part::Loss, Part::Top}),
            "qkv,lse,mass,probe");
  EXPECT_EQ(text_of({Part::Qkv, Part::Loss, Part::Drift}), "qkv,loss,drift");
}

TEST(StoredParts, AreReadFromWhatFilesHave) {
  EXPECT_EQ(stored_parts_of(""), StoredParts{});
  EXPECT_EQ(stored_parts_of("qkv,lse"), (StoredParts{Part::Qkv, Part::Lse}));
  EXPECT_EQ(stored_parts_of("qkv,lse,mass,probe"),
            (StoredParts{Part::Qkv, Part::Lse, Part::Mass, Part::Probe, Part::Loss}));
  EXPECT_EQ(stored_parts_of("loss,drift"), (StoredParts{Part::Loss, Part::Drift}));
  EXPECT_EQ(stored_parts_of("lse,entropy,,qkv,"), (StoredParts{Part::Qkv, Part::Lse}));
}

TEST(StoredParts, OfTheOptionAreAllButTheDrift) {
  EXPECT_EQ(store_words(), (std::vector<std::string_view>{"qkv", "lse", "mass", "probe", "loss"}));
  EXPECT_EQ(store_word("mass"), Part::Mass);
  EXPECT_EQ(store_word("drift"), std::nullopt);
  EXPECT_EQ(store_word(""), std::nullopt);
}

TEST(StoredParts, HasAllAsksForEach) {
  const StoredParts parts = {Part::Drift, Part::Loss};
  EXPECT_TRUE(parts.has_all({}));
  EXPECT_TRUE(parts.has_all({Part::Drift}));
  EXPECT_FALSE(parts.has_all({Part::Drift, Part::Top}));
}

}  // namespace
}  // namespace kvloupe::trace
