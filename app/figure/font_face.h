// What a vector file says of a font: its family, its weight, and how large an em is.
#pragma once

#include "app/figure/scene.h"

#include <memory>
#include <string>

struct FT_FaceRec_;

namespace kvloupe::figure {

class FontFace {
 public:
  // Throws Error{Internal} for a file that FreeType does not read.
  explicit FontFace(std::shared_ptr<const FontFile> file);

  std::string family() const;  // "Inter"
  int weight() const;          // 400 is regular, 600 semibold
  bool fixed_width() const;
  // The size that documents give, where the font is `height` from ascender to descender.
  float em(float height) const;
  FT_FaceRec_* ft() const { return face_.get(); }

 private:
  std::shared_ptr<const FontFile> file_;
  std::shared_ptr<FT_FaceRec_> face_;
};

}  // namespace kvloupe::figure
