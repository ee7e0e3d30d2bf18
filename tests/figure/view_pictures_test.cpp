// Every view looks as it did: its exported picture against tests/data/pictures/<name>.png. A picture
// that differs, and where, is written to out/pictures/; tests/tools/make_pictures.sh makes all
// references anew.
#include "app/figure/export.h"
#include "app/figure/headless.h"
#include "app/state/view_list.h"
#include "core/base/whole_file.h"
#include "tests/figure/picture_difference.h"
#include "tests/figure/view_picture_list.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace kvloupe::figure {
namespace {

namespace fs = std::filesystem;
using testing::Picture;
using widgets::ThemeKind;

const fs::path kReferences = fs::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/pictures";
const fs::path kDifferences = fs::path(KVLOUPE_TEST_SOURCE_DIR) / "../../out/pictures";

Image draw(const Picture& picture) {
  const ExportRequest request = testing::request_of(picture);
  state::Workspace workspace;
  testing::show(workspace, request);
  return draw_view(workspace, request);
}

class ViewPicture : public ::testing::TestWithParam<Picture> {};

TEST_P(ViewPicture, LooksAsItsReference) {
  const std::string& name = GetParam().name;
  const std::string reference = (kReferences / (name + ".png")).string();
  const Image got = draw(GetParam());
  if (std::getenv("KVLOUPE_MAKE_PICTURES") != nullptr) {
    testing::write_reference(reference, got);
    return;
  }
  ASSERT_TRUE(fs::exists(reference))
      << "tests/data/pictures/" << name << ".png is missing; tests/tools/make_pictures.sh makes it";
  const testing::PictureDifference found = testing::difference(got, testing::read_png(reference));
  const fs::path got_file = kDifferences / (name + ".got.png"),
                 difference_file = kDifferences / (name + ".difference.png");
  fs::remove(got_file);
  fs::remove(difference_file);
  if (found.tolerable()) return;
  fs::create_directories(kDifferences);
  write_whole_file(got_file.string(), png_bytes(got));
  write_whole_file(difference_file.string(), png_bytes(found.shown));
  ADD_FAILURE() << name << ": " << found.text() << "; see out/pictures/" << name
                << ".difference.png; if it should look so, tests/tools/make_pictures.sh makes the "
                   "references anew";
}

INSTANTIATE_TEST_SUITE_P(All, ViewPicture, ::testing::ValuesIn(testing::pictures()),
                         [](const auto& picture) { return picture.param.name; });

TEST(ViewPictures, ShowEveryViewAndSixInBothThemes) {
  std::map<std::string, std::set<ThemeKind>> themes;
  std::set<std::string> names;
  for (const Picture& picture : testing::pictures()) {
    themes[picture.view].insert(picture.theme);
    EXPECT_TRUE(names.insert(picture.name + ".png").second) << picture.name;
  }
  int both = 0;
  for (const state::ViewInfo& view : state::views()) {
    EXPECT_FALSE(themes[view.id].empty()) << view.id << " has no picture";
    both += themes[view.id].size() == 2 ? 1 : 0;
  }
  EXPECT_GE(both, 6);
  for (const auto& entry : fs::directory_iterator(kReferences))
    EXPECT_TRUE(names.count(entry.path().filename().string()) == 1)
        << entry.path() << " belongs to no picture";
}

}  // namespace
}  // namespace kvloupe::figure
