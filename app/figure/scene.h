// What a frame drew, as shapes that stay sharp at any size: areas, words and pictures, in the order of
// drawing. Pixels of the page, y downwards. Vector files are written from it (svg.h, pdf.h).
#pragma once

#include "app/figure/image.h"

#include <imgui.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvloupe::figure {

struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
  bool contains(const Box& other) const {
    return other.left >= left && other.top >= top && other.right <= right && other.bottom <= bottom;
  }
  bool meets(const Box& other) const {
    return other.left < right && other.top < bottom && other.right > left && other.bottom > top;
  }
};

using Outline = std::vector<ImVec2>;  // a closed one, all of one direction

// Filled where any outline encloses it.
struct Area {
  std::vector<Outline> outlines;
  ImU32 color = 0;
  // Of a box whose colour changes evenly: the colour at its right side, or at its bottom.
  std::optional<ImU32> right_color = {}, bottom_color = {};
};

// A font file as it was loaded.
struct FontFile {
  std::string name;  // "Inter-Regular.otf"
  std::string bytes;
  int face = 0;  // its number in a file of several
};

// A line of text, or the part of it that one font draws.
struct Words {
  std::size_t font = 0;  // index in Scene::fonts
  float height = 0;      // of the font from its ascender to its descender
  ImVec2 origin;         // of the first character, on the base line
  ImVec2 along{1, 0};    // the direction of the line, of length 1
  std::u32string text;
  std::vector<float> at;  // where each character begins, from the origin
  float length = 0;       // to where the next one would begin
  ImU32 color = 0;
};
std::string utf8_of(std::u32string_view text);

struct Picture {
  Box box;
  Image image;
};

struct Item {
  std::variant<Area, Words, Picture> shape;
  std::optional<Box> clip = {};  // where a part lies outside of what may be drawn on
};

struct Scene {
  float width = 0, height = 0;
  ImU32 background = 0;
  std::string title;    // of the figure
  std::string made_by;  // the command that makes it again; may be empty
  std::vector<std::shared_ptr<const FontFile>> fonts;
  std::vector<Item> items;
};

// The frame that ImGui has ended, in the current context. `texture` gives the pixels of one that is not
// the font's. Lines and areas must have hard edges (GuiContext::draw_hard_edges). Throws
// Error{Internal} for triangles that it does not know.
Scene scene_of(const ImDrawData& drawn, const std::function<Image(ImTextureID)>& texture);

}  // namespace kvloupe::figure
