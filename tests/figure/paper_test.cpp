// A figure's size on paper, several panels in one figure, and frames in turn.
#include "app/figure/apng.h"
#include "app/figure/font_face.h"
#include "app/figure/gif.h"
#include "app/figure/page.h"
#include "app/figure/panels_of_figure.h"
#include "app/figure/scene.h"
#include "app/widgets/fonts.h"
#include "core/base/error.h"

#include <gif_lib.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kvloupe::figure {
namespace {

Image filled(int width, int height, std::uint8_t red, std::uint8_t green = 0) {
  Image image{width, height, {}};
  for (int i = 0; i < width * height; ++i)
    image.rgba.insert(image.rgba.end(), {red, green, 0, 255});
  return image;
}

const std::uint8_t* at(const Image& image, int x, int y) {
  return &image.rgba[4 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) +
                          static_cast<std::size_t>(x))];
}

std::string four_bytes(std::size_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xFF);
  return text;
}

std::size_t number_at(const std::string& bytes, std::size_t at, std::size_t length) {
  std::size_t value = 0;
  for (std::size_t i = at; i < at + length; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(i));
  return value;
}

std::string chunk_of(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  return four_bytes(data.size()) + body +
         four_bytes(
             crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
}

// 8.4 cm are 238.11 points. Text is 18 pixels high from ascender to descender, an em of 14.87: as that has 6 points, 590
// pixels lie side by side.
TEST(Paper, AColumnHasItsWidthAndItsTextItsSize) {
  state::PictureForm form;
  form.column_cm = 8.4;
  const PageForm vectors = page_of(form, true);
  EXPECT_EQ(vectors.width, 590);
  EXPECT_EQ(vectors.height, 443);
  EXPECT_NEAR(vectors.width * vectors.points, 238.11, 0.01);
  EXPECT_NEAR(14.87 * vectors.points, 6, 0.01);
  const PageForm pixels = page_of(form, false);
  EXPECT_NEAR(pixels.width * static_cast<double>(pixels.scale), 8.4 / 2.54 * 300, 1);
  // The same size of a font whose em is another share of its height: 1000 of 1320 units of JetBrains Mono.
  form.font = "JetBrains Mono";
  EXPECT_NEAR(page_of(form, true).width, 590 * (1000 / 1320.0) / 0.826, 2);
  form.font.clear();
  form.font_pt = 14;
  EXPECT_EQ(page_of(form, true).width, 253);
}

TEST(Paper, WithoutOneAPixelIsThatOfABrowser) {
  state::PictureForm form;
  form.width = 800;
  form.height = 500;
  const PageForm page = page_of(form, false);
  EXPECT_EQ(page.width, 800);
  EXPECT_FALSE(page.grows);
  EXPECT_EQ(page.scale, 1);
  EXPECT_EQ(page.points, 0.75);
  EXPECT_TRUE(page_of({}, false).grows);
}

TEST(Panels, StandInRowsOfTheFiguresWidth) {
  PageForm figure;
  figure.width = 1600;
  figure.height = 900;
  EXPECT_EQ(grid_of(1, figure).columns, 1);
  EXPECT_EQ(grid_of(5, figure).columns, 2);
  EXPECT_EQ(grid_of(5, figure).page.width, 800);
  EXPECT_EQ(grid_of(2, figure).page.height, 900);  // one row has all of it
  EXPECT_EQ(grid_of(4, figure).page.height, 450);
  figure.grows = true;
  EXPECT_EQ(grid_of(2, figure).page.height, 450);
  figure.width = 500;
  EXPECT_EQ(grid_of(3, figure).columns, 1);
  EXPECT_EQ(letter_of_panel(0), "a");
  EXPECT_EQ(letter_of_panel(25), "z");
  EXPECT_EQ(letter_of_panel(26), "aa");
}

TEST(Panels, OfPixelsLieBesideAndBelowEachOther) {
  const Image figure =
      side_by_side(std::vector<Image>{filled(4, 2, 10), filled(4, 3, 20), filled(4, 1, 30)}, 2);
  EXPECT_EQ(figure.width, 8);
  EXPECT_EQ(figure.height, 4);
  EXPECT_EQ(at(figure, 3, 1)[0], 10);
  EXPECT_EQ(at(figure, 4, 2)[0], 20);
  EXPECT_EQ(at(figure, 0, 3)[0], 30);
  EXPECT_EQ(at(figure, 0, 2)[0], 10) << "what is free has the background's colour";
}

// Several fonts in one file, as those have whose names end in .ttc.
std::string collection_of(const std::vector<std::string>& fonts) {
  std::string places, bodies;
  for (std::string font : fonts) {
    bodies.resize((bodies.size() + 3) / 4 * 4);
    const std::size_t begin = 12 + 4 * fonts.size() + bodies.size();
    // The font's tables, counted from the begin of the file.
    for (std::size_t table = 0; table < number_at(font, 4, 2); ++table) {
      const std::size_t place = 12 + 16 * table + 8;
      font.replace(place, 4, four_bytes(number_at(font, place, 4) + begin));
    }
    places += four_bytes(begin);
    bodies += font;
  }
  return "ttcf" + four_bytes(0x10000) + four_bytes(fonts.size()) + places + bodies;
}

TEST(Paper, OfSeveralFontsInAFileEachIsItself) {
  const auto bytes_of = [](const std::string& family) {
    std::ifstream file(widgets::font_file(family, 400).first, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string both = collection_of({bytes_of("Inter"), bytes_of("JetBrains Mono")});
  const auto face = [&](int number) {
    return FontFace(std::make_shared<FontFile>(FontFile{"both.ttc", both, number}));
  };
  EXPECT_EQ(face(0).family(), "Inter");
  EXPECT_FALSE(face(0).fixed_width());
  EXPECT_EQ(face(1).family(), "JetBrains Mono");
  EXPECT_TRUE(face(1).fixed_width());
  EXPECT_NE(face(0).em(1), face(1).em(1));
}

TEST(Panels, OfShapesMoveAndShareTheirFonts) {
  const auto page = [](const char* font, int face = 0) {
    Scene scene;
    scene.width = 100;
    scene.height = 50;
    scene.fonts.push_back(std::make_shared<const FontFile>(FontFile{font, "bytes", face}));
    Words words;
    words.origin = {1, 2};
    scene.items.push_back({words, Box{0, 0, 10, 10}});
    scene.items.push_back({Area{{{{0, 0}, {1, 0}, {1, 1}}}, 7}});
    return scene;
  };
  const Scene figure = side_by_side(std::vector<Scene>{page("a"), page("b"), page("a")}, 2);
  EXPECT_EQ(figure.width, 200);
  EXPECT_EQ(figure.height, 100);
  EXPECT_EQ(figure.fonts.size(), 2U);
  ASSERT_EQ(figure.items.size(), 6U);
  const auto& second = std::get<Words>(figure.items[2].shape);
  EXPECT_EQ(second.font, 1U);
  EXPECT_EQ(second.origin.x, 101);
  EXPECT_EQ(figure.items[2].clip->left, 100);
  const auto& third = std::get<Words>(figure.items[4].shape);
  EXPECT_EQ(third.font, 0U);
  EXPECT_EQ(side_by_side(std::vector<Scene>{page("a"), page("a", 1)}, 2).fonts.size(), 2U);
  EXPECT_EQ(third.origin.y, 52);
  EXPECT_EQ(std::get<Area>(figure.items[5].shape).outlines[0][2].y, 51);
}

// Read by libpng: pixels a metre.
TEST(Paper, APictureSaysHowLargeItIs) {
  state::PictureForm form;
  EXPECT_EQ(dots_per_inch(form), 0);
  form.column_cm = 8.4;
  EXPECT_EQ(dots_per_inch(form), 300);
  form.scale = 2;
  EXPECT_EQ(dots_per_inch(form), 600);
  const Image image = filled(5, 4, 10);
  const std::string bytes = png_bytes(image, 300);
  EXPECT_EQ(image_of_png(bytes).rgba, image.rgba);
  const std::size_t at = bytes.find("pHYs");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(number_at(bytes, at + 4, 4), 11811U);  // 300 / 0.0254
  EXPECT_EQ(number_at(bytes, at + 8, 4), 11811U);
  EXPECT_EQ(bytes[at + 12], 1);
  EXPECT_EQ(png_bytes(image).find("pHYs"), std::string::npos);
}

// Read by giflib.
TEST(Gif, HoldsItsFramesAndTheirTimes) {
  GifWriter writer;
  writer.add(filled(6, 4, 200, 100), 50);
  writer.add(filled(8, 4, 1), 200);
  const std::string bytes = writer.take();
  std::string_view left = bytes;
  const auto read = [](GifFileType* file, GifByteType* to, int length) {
    auto& rest = *static_cast<std::string_view*>(file->UserData);
    const auto count = std::min<std::size_t>(rest.size(), static_cast<std::size_t>(length));
    std::memcpy(to, rest.data(), count);
    rest.remove_prefix(count);
    return static_cast<int>(count);
  };
  GifFileType* file = DGifOpen(&left, read, nullptr);
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(DGifSlurp(file), GIF_OK);
  EXPECT_EQ(file->SWidth, 8);
  EXPECT_EQ(file->SHeight, 4);
  ASSERT_EQ(file->ImageCount, 2);
  const SavedImage& first = file->SavedImages[0];
  EXPECT_EQ(first.ImageDesc.Width, 6);
  const GifColorType color = first.ImageDesc.ColorMap->Colors[first.RasterBits[23]];
  EXPECT_EQ(color.Red, 200);
  EXPECT_EQ(color.Green, 100);
  GraphicsControlBlock control{};
  ASSERT_EQ(DGifSavedExtensionToGCB(file, 1, &control), GIF_OK);
  EXPECT_EQ(control.DelayTime, 200);
  DGifCloseFile(file, nullptr);
}

// More colours than a frame has: the flat ones stay exact, the rest takes what is nearest.
TEST(Gif, KeepsFlatColorsExact) {
  Image image = filled(64, 64, 255, 255);
  for (int i = 0; i < 600; ++i) {
    image.rgba[static_cast<std::size_t>(4 * i)] = static_cast<std::uint8_t>(i % 250);
    image.rgba[static_cast<std::size_t>(4 * i + 1)] = static_cast<std::uint8_t>(i / 3);
  }
  GifWriter writer;
  writer.add(image, 10);
  const std::string bytes = writer.take();
  EXPECT_NE(bytes.find(std::string("\xFF\xFF\x00", 3)), std::string::npos);
}

// Read by libpng: the data of the second frame, put in a file of its own, is its picture.
TEST(Apng, HoldsItsFramesAndTheirTimes) {
  ApngWriter writer;
  const Image second = filled(8, 4, 1, 77);
  writer.add(filled(6, 4, 200, 100), 50);
  writer.add(second, 200);
  const std::string bytes = writer.take();
  const std::string signature = bytes.substr(0, 8);
  std::string alone = signature, types;
  std::vector<std::size_t> delays, sequence;
  for (std::size_t at = 8; at < bytes.size();) {
    const std::size_t length = number_at(bytes, at, 4);
    const std::string type = bytes.substr(at + 4, 4), data = bytes.substr(at + 8, length);
    EXPECT_EQ(bytes.substr(at, length + 12), chunk_of(type, data));
    types += type + " ";
    if (type == "IHDR") alone += chunk_of(type, data);
    if (type == "acTL") {
      EXPECT_EQ(number_at(data, 0, 4), 2U);
    }
    if (type == "fcTL") {
      delays.push_back(number_at(data, 20, 2));
      EXPECT_EQ(number_at(data, 22, 2), 100U);
    }
    if (type == "fcTL" || type == "fdAT") sequence.push_back(number_at(data, 0, 4));
    if (type == "fdAT") alone += chunk_of("IDAT", data.substr(4));
    at += length + 12;
  }
  EXPECT_EQ(types, "IHDR acTL fcTL IDAT fcTL fdAT IEND ");
  EXPECT_EQ(delays, (std::vector<std::size_t>{50, 200}));
  EXPECT_EQ(sequence, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(image_of_png(alone + chunk_of("IEND", "")).rgba, second.rgba);
  // Any reader of PNG shows the first frame, widened with white.
  const Image first = image_of_png(bytes);
  EXPECT_EQ(first.width, 8);
  EXPECT_EQ(at(first, 5, 0)[0], 200);
  EXPECT_EQ(at(first, 6, 0)[1], 255);
}

TEST(Fonts, OfTheMachineAreFoundByFamily) {
  EXPECT_NE(widgets::font_file("JetBrains Mono", 400).first.find("JetBrainsMono"),
            std::string::npos);
  EXPECT_THROW(widgets::font_file("No Such Family", 400), Error);
}

}  // namespace
}  // namespace kvloupe::figure
