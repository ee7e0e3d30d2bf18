#include "app/figure/scene.h"

#include "core/base/error.h"

#include <imgui_internal.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>

namespace kvloupe::figure {
namespace {

constexpr float kSame = 0.01F;  // pixels

bool near(float a, float b, float by = kSame) { return std::abs(a - b) <= by; }
bool same(const ImVec2& a, const ImVec2& b) { return a.x == b.x && a.y == b.y; }

float doubled_area(const ImVec2& a, const ImVec2& b, const ImVec2& c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

Box box_of(std::span<const ImVec2> points) {
  Box box{points[0].x, points[0].y, points[0].x, points[0].y};
  for (const ImVec2& at : points)
    box = {std::min(box.left, at.x), std::min(box.top, at.y), std::max(box.right, at.x),
           std::max(box.bottom, at.y)};
  return box;
}

// The part of the outline on one side of a line across the page (Sutherland and Hodgman).
template <typename Inside>
Outline cut(const Outline& outline, float limit, float ImVec2::*axis, Inside inside) {
  Outline left;
  for (std::size_t i = 0; i < outline.size(); ++i) {
    const ImVec2 from = outline[i], to = outline[(i + 1) % outline.size()];
    if (inside(from.*axis)) left.push_back(from);
    if (inside(from.*axis) == inside(to.*axis)) continue;
    const float part = (limit - from.*axis) / (to.*axis - from.*axis);
    ImVec2 crossing{from.x + part * (to.x - from.x), from.y + part * (to.y - from.y)};
    crossing.*axis = limit;
    left.push_back(crossing);
  }
  return left;
}

Outline clipped(Outline outline, const Box& clip) {
  if (clip.contains(box_of(outline))) return outline;
  outline = cut(outline, clip.left, &ImVec2::x, [&](float x) { return x >= clip.left; });
  outline = cut(outline, clip.right, &ImVec2::x, [&](float x) { return x <= clip.right; });
  outline = cut(outline, clip.top, &ImVec2::y, [&](float y) { return y >= clip.top; });
  return cut(outline, clip.bottom, &ImVec2::y, [&](float y) { return y <= clip.bottom; });
}

// Glyphs of the font texture by where they lie in it.
class Glyphs {
 public:
  struct Found {
    const ImFontBaked* font;
    const ImFontGlyph* glyph;
  };

  explicit Glyphs(const ImFontAtlas& atlas) {
    auto& pool = atlas.Builder->BakedPool;
    for (int i = 0; i < pool.Size; ++i) {
      const ImFontBaked& font = pool[i];
      if (font.WantDestroy || font.OwnerFont == nullptr) continue;
      for (const ImFontGlyph& glyph : font.Glyphs)
        if (glyph.Visible) by_row_[glyph.V0].push_back({&font, &glyph});
    }
  }

  // The one whose part of the texture holds the point.
  std::optional<Found> at(ImVec2 uv) const {
    for (auto row = by_row_.upper_bound(uv.y); row != by_row_.begin();) {
      --row;
      for (const Found& found : row->second) {
        const ImFontGlyph& glyph = *found.glyph;
        if (uv.x >= glyph.U0 && uv.x <= glyph.U1 && uv.y <= glyph.V1) return found;
      }
    }
    return std::nullopt;
  }

  static float space_of(const ImFontBaked& font) {
    for (const ImFontGlyph& glyph : font.Glyphs)
      if (glyph.Codepoint == U' ') return glyph.AdvanceX;
    return 0;
  }

 private:
  std::map<float, std::vector<Found>> by_row_;
};

// Where the texture's coordinates lie on the page: three corners of a glyph say it, turned or cut.
class TextureToPage {
 public:
  TextureToPage(const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c)
      : uv_(a.uv), at_(a.pos) {
    const float u1 = b.uv.x - a.uv.x, v1 = b.uv.y - a.uv.y;
    const float u2 = c.uv.x - a.uv.x, v2 = c.uv.y - a.uv.y;
    const float determinant = u1 * v2 - u2 * v1;
    KVLOUPE_CHECK(determinant != 0);
    const auto solve = [&](float p1, float p2) {
      return ImVec2((p1 * v2 - p2 * v1) / determinant, (p2 * u1 - p1 * u2) / determinant);
    };
    x_ = solve(b.pos.x - a.pos.x, c.pos.x - a.pos.x);
    y_ = solve(b.pos.y - a.pos.y, c.pos.y - a.pos.y);
  }
  ImVec2 operator()(ImVec2 uv) const {
    const float u = uv.x - uv_.x, v = uv.y - uv_.y;
    return {at_.x + x_.x * u + x_.y * v, at_.y + y_.x * u + y_.y * v};
  }

 private:
  ImVec2 uv_, at_, x_, y_;
};

class SceneMaker {
 public:
  SceneMaker(const ImDrawData& drawn, const std::function<Image(ImTextureID)>& texture)
      : texture_(texture),
        atlas_(*ImGui::GetIO().Fonts),
        glyphs_(atlas_),
        shift_(drawn.DisplayPos) {
    scene_.width = drawn.DisplaySize.x;
    scene_.height = drawn.DisplaySize.y;
    for (const ImDrawList* list : drawn.CmdLists)
      for (const ImDrawCmd& command : list->CmdBuffer) add(*list, command);
  }

  Scene take() { return std::move(scene_); }

 private:
  using Triangle = std::array<ImDrawVert, 3>;

  void add(const ImDrawList& list, const ImDrawCmd& command) {
    if (command.UserCallback != nullptr || command.ElemCount == 0) return;
    end_area();
    clip_ = {std::max(command.ClipRect.x - shift_.x, 0.0F),
             std::max(command.ClipRect.y - shift_.y, 0.0F),
             std::min(command.ClipRect.z - shift_.x, scene_.width),
             std::min(command.ClipRect.w - shift_.y, scene_.height)};
    if (clip_.left >= clip_.right || clip_.top >= clip_.bottom) return;
    std::vector<Triangle> triangles(command.ElemCount / 3);
    for (std::size_t i = 0; i < command.ElemCount / 3 * 3; ++i) {
      const auto index = list.IdxBuffer[static_cast<int>(command.IdxOffset + i)];
      ImDrawVert vertex = list.VtxBuffer[static_cast<int>(command.VtxOffset + index)];
      vertex.pos = {vertex.pos.x - shift_.x, vertex.pos.y - shift_.y};
      triangles[i / 3][i % 3] = vertex;
    }
    const bool is_of_fonts = command.TexRef._TexData == atlas_.TexRef._TexData;
    std::size_t next = 0;
    while (next < triangles.size()) {
      const std::span rest = std::span(triangles).subspan(next);
      next += is_of_fonts ? add_drawn(rest) : add_picture(rest, command.GetTexID());
    }
    end_area();
  }

  static bool is_plain(const Triangle& triangle, ImVec2 white) {
    return std::all_of(triangle.begin(), triangle.end(), [&](const ImDrawVert& vertex) {
      return near(vertex.uv.x, white.x, 1e-6F) && near(vertex.uv.y, white.y, 1e-6F);
    });
  }

  // Returns how many triangles it took.
  std::size_t add_drawn(std::span<const Triangle> rest) {
    const Triangle& first = rest.front();
    // A space of an upright label is drawn as a glyph of no size.
    if (doubled_area(first[0].pos, first[1].pos, first[2].pos) == 0) return 1;
    if (!is_plain(first, atlas_.TexUvWhitePixel)) {
      end_area();
      add_glyph(rest);
      return 2;
    }
    if (first[0].col == first[1].col && first[0].col == first[2].col) {
      add_triangle(first);
      return 1;
    }
    end_area();
    add_fading_box(rest);
    return 2;
  }

  [[noreturn]] static void unknown(const char* what) {
    throw Error(ErrorKind::Internal, "the figure cannot be written as vectors", what,
                "please report this, with the command");
  }

  // Triangles of one colour that follow each other side by side are one area.
  void add_triangle(const Triangle& triangle) {
    ImVec2 a = triangle[0].pos, b = triangle[1].pos, c = triangle[2].pos;
    const ImU32 color = triangle[0].col;
    if ((color & IM_COL32_A_MASK) == 0) return;
    if (doubled_area(a, b, c) < 0) std::swap(b, c);
    if (!outline_.empty() && color == color_ && grow({a, b, c})) return;
    color == color_ ? end_outline() : end_area();
    color_ = color;
    outline_ = {a, b, c};
    grown_at_ = 2;
  }

  // Where the triangle has a side in common with the outline, and lies outside of it, it joins. Both go
  // round in one direction, so a common side is met from both ends.
  bool grow(const std::array<ImVec2, 3>& triangle) {
    const std::size_t count = outline_.size();
    // Fans go on at the end, strips where the last corner came in.
    for (const std::size_t side : {count - 1, grown_at_, grown_at_ - 1}) {
      const ImVec2 from = outline_[side], to = outline_[(side + 1) % count];
      for (std::size_t i = 0; i < 3; ++i)
        if (same(triangle[i], to) && same(triangle[(i + 1) % 3], from)) {
          grown_at_ = side + 1;
          outline_.insert(outline_.begin() + static_cast<std::ptrdiff_t>(grown_at_),
                          triangle[(i + 2) % 3]);
          return true;
        }
    }
    return false;
  }

  void end_outline() {
    if (outline_.empty()) return;
    Outline outline = clipped(std::exchange(outline_, {}), clip_);
    if (outline.size() < 3) return;
    area_.color = color_;
    area_.outlines.push_back(std::move(outline));
    // What is seen through shows what lies over each other in one area once only: it stays apart.
    if ((color_ >> IM_COL32_A_SHIFT & 0xFF) != 0xFF) push_area();
  }

  void end_area() {
    end_outline();
    push_area();
  }

  void push_area() {
    if (!area_.outlines.empty()) scene_.items.push_back({std::exchange(area_, {})});
  }

  void add_fading_box(std::span<const Triangle> rest) {
    if (rest.size() < 2) unknown("a triangle fades");
    const std::array<ImDrawVert, 4> corners{rest[0][0], rest[0][1], rest[0][2], rest[1][2]};
    std::array<ImVec2, 4> points;
    std::transform(corners.begin(), corners.end(), points.begin(),
                   [](const ImDrawVert& corner) { return corner.pos; });
    const Box box = box_of(points);
    const auto color_at = [&](float x, float y) {
      for (const ImDrawVert& corner : corners)
        if (near(corner.pos.x, x) && near(corner.pos.y, y)) return corner.col;
      unknown("what fades is no box");
    };
    const ImU32 top_left = color_at(box.left, box.top), top_right = color_at(box.right, box.top);
    const ImU32 bottom_left = color_at(box.left, box.bottom);
    const ImU32 bottom_right = color_at(box.right, box.bottom);
    Area area;
    area.color = top_left;
    if (top_left == bottom_left && top_right == bottom_right)
      area.right_color = top_right;
    else if (top_left == top_right && bottom_left == bottom_right)
      area.bottom_color = bottom_left;
    else
      unknown("a box fades in two directions");
    area.outlines = {{{box.left, box.top},
                      {box.right, box.top},
                      {box.right, box.bottom},
                      {box.left, box.bottom}}};
    if (clip_.meets(box)) push_clipped({std::move(area)}, box);
  }

  void push_clipped(Item item, const Box& box) {
    if (!clip_.contains(box)) item.clip = clip_;
    scene_.items.push_back(std::move(item));
  }

  std::size_t add_picture(std::span<const Triangle> rest, ImTextureID id) {
    if (rest.size() < 2) unknown("a picture has one triangle");
    const ImDrawVert& first = rest[0][0];
    const ImDrawVert& last = rest[0][2];
    const Box box{std::min(first.pos.x, last.pos.x), std::min(first.pos.y, last.pos.y),
                  std::max(first.pos.x, last.pos.x), std::max(first.pos.y, last.pos.y)};
    if (first.uv.x != 0 || first.uv.y != 0 || last.uv.x != 1 || last.uv.y != 1)
      unknown("a part of a picture is drawn");
    if (clip_.meets(box)) push_clipped({Picture{box, texture_(id)}}, box);
    return 2;
  }

  void add_glyph(std::span<const Triangle> rest) {
    if (rest.size() < 2) unknown("a glyph has one triangle");
    const ImDrawVert &a = rest[0][0], &b = rest[0][1], &c = rest[0][2];
    const auto found = glyphs_.at({(a.uv.x + c.uv.x) / 2, (a.uv.y + c.uv.y) / 2});
    if (!found) unknown("a part of the font's texture is no glyph");
    const ImFontGlyph& glyph = *found->glyph;
    const ImFontBaked& font = *found->font;
    const TextureToPage page(a, b, c);
    // The pen's place on the base line, and the next pixel on it, in the glyph's own pixels.
    const auto of_glyph = [&](float x, float y) {
      return page({glyph.U0 + (x - glyph.X0) / (glyph.X1 - glyph.X0) * (glyph.U1 - glyph.U0),
                   glyph.V0 + (y - glyph.Y0) / (glyph.Y1 - glyph.Y0) * (glyph.V1 - glyph.V0)});
    };
    const float base_line = std::round(font.Ascent);
    const ImVec2 pen = of_glyph(0, base_line), next = of_glyph(100, base_line);
    const float times = std::hypot(next.x - pen.x, next.y - pen.y) / 100;
    const ImVec2 along{(next.x - pen.x) / times / 100, (next.y - pen.y) / times / 100};
    std::array<ImVec2, 4> corners{a.pos, b.pos, c.pos, rest[1][2].pos};
    const Box box = box_of(corners);
    if (!clip_.meets(box)) return;
    Words one{font_of(font, glyph), font.Size * times, pen, along, {}, {}, 0, a.col};
    std::optional<Box> clip;
    if (!clip_.contains(box)) clip = clip_;
    Words& words = line_for(one, clip, Glyphs::space_of(font) * times);
    words.text += static_cast<char32_t>(glyph.Codepoint);
    words.at.push_back(distance(words, pen));
    words.length = words.at.back() + glyph.AdvanceX * times;
  }

  static float distance(const Words& words, ImVec2 at) {
    return (at.x - words.origin.x) * words.along.x + (at.y - words.origin.y) * words.along.y;
  }

  // The words before, where these follow them at once or after some spaces; otherwise new ones.
  Words& line_for(const Words& one, const std::optional<Box>& clip, float space) {
    constexpr float kOff = 0.6F;  // pixels that letters are moved by rounding
    constexpr int kMostSpaces = 3;
    if (!scene_.items.empty()) {
      Item& last = scene_.items.back();
      auto* words = std::get_if<Words>(&last.shape);
      const auto same_box = [](const Box& x, const Box& y) {
        return x.contains(y) && y.contains(x);
      };
      if (words != nullptr && words->font == one.font && near(words->height, one.height) &&
          words->color == one.color && near(words->along.x, one.along.x) &&
          near(words->along.y, one.along.y) &&
          (!last.clip || !clip || same_box(*last.clip, *clip))) {
        const float gap = distance(*words, one.origin) - words->length;
        const float aside = (one.origin.x - words->origin.x) * words->along.y -
                            (one.origin.y - words->origin.y) * words->along.x;
        const auto spaces = space > 0 ? std::lround(gap / space) : 0;
        if (near(aside, 0, kOff) && spaces >= 0 && spaces <= kMostSpaces &&
            near(gap, static_cast<float>(spaces) * space, kOff)) {
          for (long i = 0; i < spaces; ++i) {
            words->text += U' ';
            words->at.push_back(words->length);
            words->length += space;
          }
          if (clip) last.clip = clip;
          return *words;
        }
      }
    }
    scene_.items.push_back({one, clip});
    return std::get<Words>(scene_.items.back().shape);
  }

  std::size_t font_of(const ImFontBaked& font, const ImFontGlyph& glyph) {
    const ImFontConfig* source = font.OwnerFont->Sources[glyph.SourceIdx];
    const auto face = static_cast<int>(source->FontNo);
    const auto [at, is_new] =
        fonts_.try_emplace(std::pair(source->FontData, face), scene_.fonts.size());
    if (is_new)
      scene_.fonts.push_back(std::make_shared<const FontFile>(
          FontFile{source->Name,
                   std::string(static_cast<const char*>(source->FontData),
                               static_cast<std::size_t>(source->FontDataSize)),
                   face}));
    return at->second;
  }

  const std::function<Image(ImTextureID)>& texture_;
  const ImFontAtlas& atlas_;
  const Glyphs glyphs_;
  const ImVec2 shift_;
  Scene scene_;
  // Indices in the scene, by their bytes here and the face's number in them.
  std::map<std::pair<const void*, int>, std::size_t> fonts_;
  Box clip_;
  Outline outline_;  // that still grows
  std::size_t grown_at_ = 0;
  ImU32 color_ = 0;
  Area area_;
};

}  // namespace

std::string utf8_of(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) {
    std::array<utf8proc_uint8_t, 4> one{};
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), one.data());
    bytes.append(one.begin(), one.begin() + length);
  }
  return bytes;
}

Scene scene_of(const ImDrawData& drawn, const std::function<Image(ImTextureID)>& texture) {
  return SceneMaker(drawn, texture).take();
}

}  // namespace kvloupe::figure
