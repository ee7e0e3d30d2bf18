#include "app/figure/font_face.h"

#include "core/base/error.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_TRUETYPE_TABLES_H

namespace kvloupe::figure {
namespace {

FT_Library library() {
  static const FT_Library one = [] {
    FT_Library made = nullptr;
    if (FT_Init_FreeType(&made) != 0)
      throw Error(ErrorKind::Internal, "FreeType cannot be started", "it says no more",
                  "please report this");
    return made;
  }();
  return one;
}

}  // namespace

FontFace::FontFace(std::shared_ptr<const FontFile> file) : file_(std::move(file)) {
  FT_Face face = nullptr;
  if (FT_New_Memory_Face(library(), reinterpret_cast<const FT_Byte*>(file_->bytes.data()),
                         static_cast<FT_Long>(file_->bytes.size()), file_->face, &face) != 0)
    throw Error(ErrorKind::Internal, "the font " + file_->name + " is not read",
                "FreeType refuses it", "please report this");
  // The bytes live as long as the face.
  face_ = {face, [bytes = file_](FT_Face gone) { FT_Done_Face(gone); }};
}

std::string FontFace::family() const {
  return face_->family_name != nullptr ? face_->family_name : "sans-serif";
}

int FontFace::weight() const {
  const auto* table = static_cast<const TT_OS2*>(FT_Get_Sfnt_Table(face_.get(), FT_SFNT_OS2));
  return table != nullptr && table->usWeightClass > 0 ? table->usWeightClass : 400;
}

bool FontFace::fixed_width() const { return FT_IS_FIXED_WIDTH(face_.get()) != 0; }

float FontFace::em(float height) const {
  return height * static_cast<float>(face_->units_per_EM) /
         static_cast<float>(face_->ascender - face_->descender);
}

}  // namespace kvloupe::figure
