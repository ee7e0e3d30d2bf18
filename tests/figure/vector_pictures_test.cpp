// The vector files of every view, read by two programs that know nothing of KVLoupe: librsvg and Poppler.
// They look as the pixels do, their words are text, and the fonts of a PDF are in it.
#include "app/figure/export.h"
#include "app/figure/headless.h"
#include "app/figure/pdf.h"
#include "app/figure/scene.h"
#include "app/figure/svg.h"
#include "app/state/view_list.h"
#include "tests/figure/picture_difference.h"
#include "tests/figure/view_picture_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe::figure {
namespace {

using ::testing::HasSubstr;

void write(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

std::string output_of(const std::string& command) {
  EXPECT_EQ(std::system((command + " > output.txt").c_str()), 0) << command;
  std::ifstream file("output.txt");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Letters alone: a reader of pages sets spaces where it sees gaps, and ends lines where it likes.
std::string letters_of(const std::string& text) {
  std::string letters;
  for (const char c : text)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) letters += c;
  for (const char* space : {"\u00A0", "\u202F", "\u2009"})
    for (std::size_t at = 0; (at = letters.find(space)) != std::string::npos;)
      letters.erase(at, std::string_view(space).size());
  return letters;
}

// What stands between the tags <text ...> and </text>, one a line, as a reader of XML has it.
std::vector<std::string> texts_of_svg(const std::string& svg) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; (at = svg.find("<text ", at)) != std::string::npos;) {
    const std::size_t begin = svg.find('>', at) + 1, end = svg.find("</text>", begin);
    std::string text = svg.substr(begin, end - begin);
    for (const auto& [name, letter] :
         {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&amp;", "&"}})
      for (std::size_t from = 0; (from = text.find(name, from)) != std::string::npos; ++from)
        text.replace(from, std::string_view(name).size(), letter);
    texts.push_back(letters_of(text));
    at = end;
  }
  return texts;
}

constexpr double kMost = 0.005;

// The share of boxes of pixels whose mean colour is far apart: edges of glyphs do not count, what is
// missing or elsewhere does.
double difference(const Image& a, const Image& b) {
  constexpr int kBox = 8, kFar = 40;  // of 255
  EXPECT_EQ(std::pair(a.width, a.height), std::pair(b.width, b.height));
  int apart = 0, count = 0;
  for (int y = 0; y + kBox <= std::min(a.height, b.height); y += kBox)
    for (int x = 0; x + kBox <= std::min(a.width, b.width); x += kBox, ++count)
      for (int channel = 0; channel < 3; ++channel) {
        int sum = 0;
        for (int pixel = 0; pixel < kBox * kBox; ++pixel) {
          const std::size_t at =
              4 * (static_cast<std::size_t>(y + pixel / kBox) * a.width + x + pixel % kBox);
          sum += a.rgba[at + channel] - b.rgba[at + channel];
        }
        if (std::abs(sum) < kFar * kBox * kBox) continue;
        ++apart;
        break;
      }
  return static_cast<double>(apart) / count;
}

class VectorPicture : public ::testing::TestWithParam<testing::Picture> {};

TEST_P(VectorPicture, LooksAsThePixelsInOtherPrograms) {
  ExportRequest request = testing::request_of(GetParam());
  state::Workspace workspace;
  testing::show(workspace, request);
  const Image pixels = draw_view(workspace, request);
  request.format = state::Format::Svg;
  const Scene scene = draw_scene(workspace, request);
  const double width_pt = scene.width * 0.75;
  const std::string title = state::find_view(GetParam().view)->title;
  const std::string file = std::filesystem::path(request.what.trace).filename().string();

  const std::string svg = svg_text(scene, width_pt);
  write("view.svg", svg);
  output_of(fmt::format("rsvg-convert -w {} -o svg.png view.svg", pixels.width));
  EXPECT_LT(difference(testing::read_png("svg.png"), pixels), kMost);
  EXPECT_TRUE(has(svg, "<title>" + title + "</title>"));
  EXPECT_TRUE(has(svg, file + " --view " + GetParam().view));

  write("view.pdf", pdf_bytes(scene, width_pt));
  output_of("pdftoppm -r 96 -png -singlefile view.pdf pdf");
  EXPECT_LT(difference(testing::read_png("pdf.png"), pixels), kMost);
  std::istringstream fonts(output_of("pdffonts view.pdf"));
  std::string line;
  int embedded = 0;
  for (int i = 0; std::getline(fonts, line); ++i) {
    if (i < 2) continue;  // the head of the table
    EXPECT_THAT(line, HasSubstr(" yes yes yes ")) << "embedded, a part of it, with its letters";
    ++embedded;
  }
  EXPECT_GE(embedded, 1);
  const std::string text = letters_of(output_of("pdftotext -raw view.pdf -"));

  // Every word that is drawn, of axes, legends, ticks and chips, is text in both.
  const std::vector<std::string> in_svg = texts_of_svg(svg);
  int words = 0;
  double of_pictures = 0;
  for (const Item& item : scene.items) {
    if (const auto* picture = std::get_if<figure::Picture>(&item.shape)) {
      const Box& box = picture->box;
      of_pictures += (box.right - box.left) * (box.bottom - box.top);
    }
    const auto* drawn = std::get_if<Words>(&item.shape);
    // A line whose letters begin beyond the page's end is not read by anyone.
    if (drawn == nullptr || drawn->origin.y > scene.height) continue;
    const std::string letters = letters_of(utf8_of(drawn->text));
    if (letters.empty()) continue;
    ++words;
    EXPECT_THAT(in_svg, ::testing::Contains(letters)) << "SVG";
    EXPECT_TRUE(has(text, letters)) << "PDF: " << letters;
  }
  EXPECT_GE(words, 5);
  EXPECT_LT(of_pictures, 0.8 * scene.width * scene.height);
  EXPECT_TRUE(has(svg, ">" + file));
}

INSTANTIATE_TEST_SUITE_P(All, VectorPicture, ::testing::ValuesIn(testing::pictures()),
                         [](const auto& picture) { return picture.param.name; });

// A file may be called anything: what says how the figure was made is text all the same.
TEST(VectorPictures, OfAFileWithAStrangeNameAreRead) {
  const std::string strange = "bad\xFF name & <x>.h5";
  ExportRequest request = testing::request_of(testing::pictures().front());
  std::filesystem::copy_file(request.what.trace, strange,
                             std::filesystem::copy_options::overwrite_existing);
  request.what.trace = strange;
  export_view(request, {{state::Format::Svg, "strange.svg"}, {state::Format::Pdf, "strange.pdf"}});
  output_of("rsvg-convert -o strange.png strange.svg");
  EXPECT_TRUE(has(output_of("pdfinfo strange.pdf"), "bad\\xFF name"));
}

TEST(VectorPictures, WithoutTheirWordsDoNotPass) {
  ExportRequest request = testing::request_of(testing::pictures().front());
  state::Workspace workspace;
  testing::show(workspace, request);
  const Image pixels = draw_view(workspace, request);
  request.format = state::Format::Svg;
  Scene scene = draw_scene(workspace, request);
  std::erase_if(scene.items,
                [](const Item& item) { return std::holds_alternative<Words>(item.shape); });
  write("silent.svg", svg_text(scene, scene.width));
  output_of(fmt::format("rsvg-convert -w {} -o silent.png silent.svg", pixels.width));
  EXPECT_GT(difference(testing::read_png("silent.png"), pixels), kMost);
}

}  // namespace
}  // namespace kvloupe::figure
