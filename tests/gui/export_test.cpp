// Exported files are read back: pictures have the size asked for, tables and arrays the numbers of
// the answers they were made from.
#include "app/figure/export.h"

#include "app/figure/figure_page.h"
#include "app/state/questions/how_it_works/query_geometry.h"
#include "app/state/questions/kept/attention_map.h"
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/where/layer_head_overview.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/gui/view_fixture.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using state::Format;
using state::Slot;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Big-endian, as in a PNG's header.
std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return number;
}

// RFC 4180: the cells of a file, row by row, the header first.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& cell = rows.back().back();
    if (quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"')
      cell += text[++i];
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && text[i] == ',')
      rows.back().emplace_back();
    else if (!quoted && text[i] == '\n')
      rows.push_back({""});
    else
      cell += text[i];
  }
  rows.pop_back();  // after the last line end
  return rows;
}

struct Npy {
  std::string header, values;
};
Npy parse_npy(const std::string& bytes) {
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t length =
      static_cast<unsigned char>(bytes.at(8)) + 256U * static_cast<unsigned char>(bytes.at(9));
  return {bytes.substr(10, length), bytes.substr(10 + length)};
}

class Export : public test::ViewTest {
 protected:
  // Writes the view as the window shows it now.
  std::string write(const state::ViewInfo& view, Format format, int width = 400, int height = 300,
                    double scale = 1) {
    figure::ExportRequest request;
    request.what = state::describe(workspace, view);
    request.format = format;
    request.file = view.id + "." + state::name_of(format);
    request.what.picture = {
        .theme = state::ThemeKind::Light, .width = width, .height = height, .scale = scale};
    std::filesystem::remove(request.file);
    figure::export_view(request);
    return read_file(request.file);
  }
};

TEST_F(Export, APictureHasTheSizeAndScaleThatWereAskedFor) {
  open();
  const state::ViewInfo& view = *state::find_view("kv_map");
  for (const double scale : {1.0, 2.0, 0.5}) {
    const std::string png = write(view, Format::Png, 400, 300, scale);
    EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1A\n");
    EXPECT_EQ(number_at(png, 16), 400 * scale);
    EXPECT_EQ(number_at(png, 20), 300 * scale);
  }
}

// A figure too small for its view must not pass for a whole one.
TEST_F(Export, ASmallPictureSaysThatItMayBeCut) {
  open();
  const auto warns = [&](int width, int height) {
    figure::HeadlessRenderer small(width, height, 1.0F);
    small.gui().apply_style(widgets::ThemeKind::Light, 1.0F);
    const auto panel = panels::make_panel("trace_info");
    panels::DrawContext context{workspace, small.gui().palette(), true};
    for (int frame = 0; frame < 4; ++frame) {
      workspace.begin_frame();
      small.frame([&] { figure::figure_page_ui(context, *panel); });
      test::settle(workspace);
    }
    const figure::Image image = small.read();
    const ImU32 ink = context.palette.warning;
    int seen = 0;
    for (int y = height - 60; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const std::uint8_t* pixel =
            image.rgba.data() + (static_cast<std::size_t>(y) * image.width + x) * 4;
        // Strokes are thinner than a pixel: no pixel is all ink.
        const auto near = [&](int channel, unsigned shift) {
          return std::abs(pixel[channel] - static_cast<int>(ink >> shift & 255U)) < 48;
        };
        seen += near(0, IM_COL32_R_SHIFT) && near(1, IM_COL32_G_SHIFT) && near(2, IM_COL32_B_SHIFT);
      }
    return seen > 20;
  };
  EXPECT_TRUE(warns(579, 400));
  EXPECT_TRUE(warns(580, 399));
  EXPECT_FALSE(warns(580, 400));
}

TEST_F(Export, EveryViewHasAPictureAndItsTable) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=3,key=300-304"));
  for (const state::ViewInfo& view : state::views()) {
    ASSERT_EQ(fill(view), "") << view.id;
    const std::string png = write(view, Format::Png);
    EXPECT_EQ(number_at(png, 16), 400U) << view.id;
    EXPECT_GT(png.size(), 2000U) << view.id << " is blank";
    if (view.table == nullptr) continue;
    const auto rows = parse_csv(write(view, Format::Csv));
    const test::ExactTable table = test::exact(view.table(workspace));
    EXPECT_EQ(rows.at(0), table.columns) << view.id;
    if (view.id == "latency") continue;  // no two measurements are equal
    ASSERT_EQ(rows.size(), table.rows.size() + 1) << view.id;
    for (std::size_t row = 0; row < table.rows.size(); ++row)
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        if (table.columns[i] == "attend_ms") continue;  // a measurement too
        ASSERT_EQ(rows[row + 1].at(i), table.rows[row].at(i)) << view.id;
      }
  }
}

TEST_F(Export, EveryArrayIsThatOfItsView) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=3"));
  const std::map<std::string, const char*> own{{"quest_pages", "quest:budget_tokens=64"},
                                               {"aqua_lanes", "aqua:basis=self"}};
  int arrays = 0;
  for (const state::ViewInfo& view : state::views()) {
    if (view.array == nullptr) continue;
    ++arrays;
    ASSERT_EQ(fill(view), "") << view.id;
    if (own.count(view.id) != 0) workspace.cursor.set_method(Slot::A, own.at(view.id));
    ASSERT_EQ(test::problem_of_view(workspace, view), "") << view.id;
    const state::Array array = view.array(workspace);
    const Npy npy = parse_npy(write(view, Format::Npy));
    EXPECT_THAT(npy.header, HasSubstr("'descr': '" + array.dtype + "'")) << view.id;
    std::string shape;
    for (const std::int64_t extent : array.shape) shape += std::to_string(extent) + ", ";
    EXPECT_THAT(npy.header, HasSubstr("'shape': (" + shape + ")")) << view.id;
    EXPECT_FALSE(array.bytes.empty()) << view.id;
    EXPECT_TRUE(npy.values == array.bytes) << view.id;
  }
  EXPECT_GE(arrays, 9);
}

TEST_F(Export, TheNumbersOfHeadsAreThoseOfTheirQuestion) {
  open();
  workspace.cursor.go_to(state::parse_goto("chunk=3"));
  const auto overview = test::answer(workspace, state::overview_question(workspace));
  ASSERT_TRUE(overview) << overview.error;
  const analysis::Matrix& matrix = overview->overview.values;
  const state::ViewInfo& view = *state::find_view("layer_head_overview");
  const Npy npy = parse_npy(write(view, Format::Npy));
  ASSERT_EQ(npy.values.size(), matrix.values.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(npy.values.data(), matrix.values.data(), npy.values.size()), 0);
  const auto rows = parse_csv(write(view, Format::Csv));
  EXPECT_EQ(rows.at(0), (std::vector<std::string>{"layer", "kv_head", "mass_recall"}));
  ASSERT_EQ(rows.size(), matrix.values.size() + 1);
  for (std::size_t i = 0; i < matrix.values.size(); ++i)
    EXPECT_EQ(std::stof(rows[i + 1].at(2)), matrix.values[i]);
}

TEST_F(Export, TheNumbersOfQueriesAreThoseOfTheirQuestion) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=4,chunk=3"));
  const auto found =
      test::answer(workspace, state::QueryGeometryQuestion{workspace.place(), workspace.method()});
  ASSERT_TRUE(found) << found.error;
  const auto rows = parse_csv(write(*state::find_view("query_relevance"), Format::Csv));
  ASSERT_EQ(rows.size(), 129U);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(std::stoul(rows[i + 1].at(0)), 384 + i);
    EXPECT_EQ(std::stof(rows[i + 1].at(2)), found->geometry.relevance[i]);
    EXPECT_EQ(std::stof(rows[i + 1].at(3)), found->geometry.max_attention[i]);
    EXPECT_EQ(rows[i + 1].at(4) == "1", found->is_chosen(i));
  }
}

TEST_F(Export, TheArrayOfTheMapIsItsStates) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=7"));
  const auto map =
      test::answer(workspace, state::KvMapQuestion{workspace.place(), workspace.method()});
  ASSERT_TRUE(map) << map.error;
  const Npy npy = parse_npy(write(*state::find_view("kv_map"), Format::Npy));
  EXPECT_THAT(npy.header, HasSubstr("'descr': '|u1'"));
  EXPECT_THAT(npy.header, HasSubstr("'shape': (7, 642, )"));
  ASSERT_EQ(npy.values.size(), map->map.states.size());
  for (std::size_t i = 0; i < npy.values.size(); ++i)
    ASSERT_EQ(static_cast<unsigned char>(npy.values[i]),
              static_cast<unsigned char>(map->map.states[i]));
}

TEST_F(Export, TheArrayOfAttentionIsExact) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=2,q_head=7,chunk=3"));
  const auto rows = test::answer(workspace, state::AttentionRowsQuestion{workspace.place()});
  ASSERT_TRUE(rows) << rows.error;
  const Npy npy = parse_npy(write(*state::find_view("attention_map"), Format::Npy));
  EXPECT_THAT(npy.header, HasSubstr("'descr': '<f4'"));
  EXPECT_THAT(npy.header, HasSubstr("'shape': (128, 512, )"));
  ASSERT_EQ(npy.values.size(), rows->values.size() * sizeof(float));
  std::vector<float> values(rows->values.size());
  std::memcpy(values.data(), npy.values.data(), npy.values.size());
  for (std::size_t r = 0; r < 128; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < 512; ++c) {
      const float value = values[r * 512 + c];
      ASSERT_EQ(std::isnan(value), c > 384 + r) << r << " " << c;
      if (c > 384 + r) continue;
      ASSERT_EQ(value, rows->at(static_cast<std::int64_t>(r), static_cast<std::int64_t>(c)));
      sum += value;
    }
    EXPECT_NEAR(sum, 1, 1e-4) << "of query " << 384 + r;
  }
}

TEST_F(Export, TheTableOfKeysHasTheirExactMass) {
  open();
  workspace.cursor.set_method(Slot::B, "keydiff:budget_tokens=40");
  workspace.cursor.show(Slot::B);
  const auto verdicts =
      test::answer(workspace, state::SelectedVsTrueQuestion{workspace.place(), workspace.method()});
  ASSERT_TRUE(verdicts) << verdicts.error;
  const state::ViewInfo& view = *state::find_view("selected_vs_true");
  const auto rows = parse_csv(write(view, Format::Csv));
  ASSERT_EQ(rows.size(), verdicts->cell.by_true_rank.size() + 1);
  int selected = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const analysis::KeyRank& key = verdicts->cell.by_true_rank[i - 1];
    EXPECT_EQ(std::stoi(rows[i].at(0)), static_cast<int>(i));  // ranks count from 1
    EXPECT_EQ(std::stoi(rows[i].at(1)), key.position);
    EXPECT_EQ(std::stod(rows[i].at(3)), key.mass);
    selected += rows[i].at(5) == "1";
  }
  EXPECT_EQ(selected, 40);
  workspace.cursor.set_option("selected_vs_true.filter", "misses");
  const auto misses = parse_csv(write(view, Format::Csv));
  EXPECT_EQ(misses.size(), verdicts->listed.by("misses")->size() + 1);
}

TEST_F(Export, SeveralFilesInOneCallAreThoseOfOneEach) {
  open();
  const state::ViewInfo& view = *state::find_view("selected_vs_true");
  const std::string csv = write(view, Format::Csv), png = write(view, Format::Png);
  figure::ExportRequest request;
  request.what = state::describe(workspace, view);
  request.what.picture.width = 400;
  request.what.picture.height = 300;
  figure::export_view(request, {{Format::Csv, "both.csv"}, {Format::Png, "both.png"}});
  EXPECT_EQ(read_file("both.csv"), csv);
  EXPECT_EQ(read_file("both.png").substr(0, 24), png.substr(0, 24));
  // A picture of all chunks leaves the others their place.
  figure::export_view(request, {{Format::Gif, "both.gif"}, {Format::Csv, "both.csv"}});
  EXPECT_EQ(read_file("both.csv"), csv);
  EXPECT_EQ(read_file("both.gif").substr(0, 6), "GIF89a");
  // One that cannot be written, and nothing is.
  std::filesystem::remove("both.csv");
  EXPECT_THROW(figure::export_view(request, {{Format::Csv, "both.csv"}, {Format::Npy, "both.npy"}}),
               Error);
  EXPECT_FALSE(std::filesystem::exists("both.csv"));
}

TEST_F(Export, AllChunksStandInOneTable) {
  open();
  const state::ViewInfo& view = *state::find_view("selected_vs_true");
  figure::ExportRequest request;
  request.what = state::describe(workspace, view);
  request.format = Format::Csv;
  request.file = "all.csv";
  figure::export_all_chunks(request);
  const auto all = parse_csv(read_file("all.csv"));
  std::size_t at = 1;
  for (int chunk = 0; chunk < 7; ++chunk) {
    workspace.cursor.set_chunk(chunk);
    const auto one = parse_csv(write(view, Format::Csv));
    if (chunk == 0) {
      EXPECT_EQ(all[0].size(), one[0].size() + 1);
      EXPECT_EQ(all[0][0], "chunk");
    }
    for (std::size_t row = 1; row < one.size(); ++row, ++at) {
      ASSERT_LT(at, all.size());
      EXPECT_EQ(all[at][0], std::to_string(chunk));
      EXPECT_EQ(std::vector(all[at].begin() + 1, all[at].end()), one[row]);
    }
  }
  EXPECT_EQ(at, all.size());
  request.format = Format::Png;
  EXPECT_THROW(figure::export_all_chunks(request), Error);
  request.format = Format::Csv;
  request.what.view = "trace_info";
  EXPECT_THROW(figure::export_all_chunks(request), Error);
}

TEST_F(Export, WhatCannotBeWrittenIsRefusedAndLeavesNoFile) {
  open();
  const auto refusal = [&](auto change) -> std::pair<int, std::string> {
    figure::ExportRequest request;
    request.what = state::describe(workspace, *state::find_view("kv_map"));
    request.file = "never.out";
    change(request);
    try {
      figure::export_view(request);
      return {0, ""};
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists("never.out"));
      return {error.exit_code(), error.what()};
    }
  };
  using Request = figure::ExportRequest;
  EXPECT_THAT(refusal([](Request& r) {
                r.what.view = "selected_vs_true";
                r.format = Format::Npy;
              }),
              Pair(2, HasSubstr("--csv")));
  EXPECT_THAT(refusal([](Request& r) { r.what.place.chunk = 99; }), Pair(1, HasSubstr("0 to 6")));
  EXPECT_THAT(refusal([](Request& r) { r.what.trace = "absent.h5"; }),
              Pair(1, HasSubstr("absent.h5")));
  EXPECT_THAT(refusal([](Request& r) { r.what.methods = {"infinipot:budget_tokens=8"}; }),
              Pair(1, HasSubstr("probe")));
  EXPECT_THAT(refusal([](Request& r) { r.file = "no/such/folder/x.png"; }),
              Pair(1, HasSubstr("no/such/folder")));
}

}  // namespace
}  // namespace kvloupe
