// OpenGL texture behind a map; see map_texture.h.
#include "app/widgets/map_texture.h"

#include <epoxy/gl.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::widgets {

MapTexture::~MapTexture() {
  if (texture_ != 0) glDeleteTextures(1, &texture_);
}

void MapTexture::update(const MemoryAccountPtr& memory, const std::string& key,
                        const MapWindow& window, const Fill& fill) {
  if (window.width <= 0 || window.height <= 0) return;
  if (texture_ != 0 && key == key_ && window == window_) return;
  key_ = key;
  window_ = window;
  // The pixels here and those of the texture.
  const std::uint64_t bytes = sizeof(ImU32) * window.width * window.height;
  charge_ = MemoryCharge(memory, MemoryPart::Textures, 2 * bytes);
  pixels_.assign(static_cast<std::size_t>(window.width) * window.height, 0);
  fill(window, pixels_);

  GLint bound = 0;
  glGetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
  if (texture_ == 0) glGenTextures(1, &texture_);
  glBindTexture(GL_TEXTURE_2D, texture_);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, window.width, window.height, 0, GL_RGBA,
               GL_UNSIGNED_BYTE, pixels_.data());
  glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(bound));
}

ImTextureRef MapTexture::ref() const { return ImTextureRef(static_cast<ImTextureID>(texture_)); }

std::pair<std::int64_t, std::int64_t> MapTexture::cells_of_pixel(double begin, double end, int n,
                                                                 int i, std::int64_t limit) {
  const double step = (end - begin) / n;
  const double from = begin + step * i;
  const double to = from + step;
  if (to <= 0 || from >= static_cast<double>(limit)) return {0, 0};
  // Zoomed in, a pixel shows the cell under its centre; zoomed out, every cell that begins in it.
  if (step <= 1.0) {
    const auto cell = static_cast<std::int64_t>(std::floor((from + to) / 2));
    return cell < 0 || cell >= limit ? std::pair<std::int64_t, std::int64_t>{0, 0}
                                     : std::pair{cell, cell + 1};
  }
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(from)));
  const auto last = std::min<std::int64_t>(limit, static_cast<std::int64_t>(std::ceil(to)));
  return {first, last};
}

}  // namespace kvloupe::widgets
