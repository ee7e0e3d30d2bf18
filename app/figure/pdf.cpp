#include "app/figure/pdf.h"

#include "app/figure/font_face.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <cairo/cairo-ft.h>
#include <cairo/cairo-pdf.h>
#include <fmt/chrono.h>

#include <ft2build.h>
#include FT_FREETYPE_H

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvloupe::figure {
namespace {

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* gone) const {
    destroy(gone);
  }
};
using Surface = std::unique_ptr<cairo_surface_t, Destroy<cairo_surface_destroy>>;
using Pattern = std::unique_ptr<cairo_pattern_t, Destroy<cairo_pattern_destroy>>;
using Face = std::unique_ptr<cairo_font_face_t, Destroy<cairo_font_face_destroy>>;

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS)
    throw Error(ErrorKind::Internal, "the PDF could not be made", cairo_status_to_string(status),
                "please report this");
}

struct Rgba {
  double red, green, blue, alpha;
};
Rgba rgba(ImU32 color) {
  const auto part = [&](int shift) { return (color >> shift & 0xFF) / 255.0; };
  return {part(IM_COL32_R_SHIFT), part(IM_COL32_G_SHIFT), part(IM_COL32_B_SHIFT),
          part(IM_COL32_A_SHIFT)};
}

// As a date of ISO 8601, where SOURCE_DATE_EPOCH gives one: the same page is the same bytes then, as
// https://reproducible-builds.org/specs/source-date-epoch asks of all that writes a date. Else empty.
std::string date_of_source() {
  constexpr std::int64_t kEndOf9999 = 253402300799;
  const char* const text = std::getenv("SOURCE_DATE_EPOCH");
  const auto seconds = text != nullptr ? parse_int(text) : std::nullopt;
  if (!seconds || *seconds < 0 || *seconds > kEndOf9999) return {};
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(*seconds)));
}

// As Cairo keeps pixels: alpha multiplied in, four bytes as one number.
Surface surface_of(const Image& image) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, image.width, image.height));
  check(cairo_surface_status(surface.get()));
  unsigned char* rows = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int y = 0; y < image.height; ++y) {
    auto* row = reinterpret_cast<std::uint32_t*>(rows + static_cast<std::ptrdiff_t>(stride) * y);
    const std::uint8_t* from =
        image.rgba.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) * 4;
    for (int x = 0; x < image.width; ++x, from += 4) {
      const auto times_alpha = [&](int i) {
        return static_cast<std::uint32_t>(from[i] * from[3] / 255);
      };
      row[x] = static_cast<std::uint32_t>(from[3]) << 24 | times_alpha(0) << 16 |
               times_alpha(1) << 8 | times_alpha(2);
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

class PdfWriter {
 public:
  PdfWriter(const Scene& scene, double width_pt) {
    const double times = width_pt / scene.width;
    const auto take = [](void* to, const unsigned char* data, unsigned length) {
      static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    };
    const Surface surface(
        cairo_pdf_surface_create_for_stream(take, &bytes_, width_pt, scene.height * times));
    check(cairo_surface_status(surface.get()));
    cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_TITLE, scene.title.c_str());
    if (!scene.made_by.empty())
      cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_SUBJECT,
                                     scene.made_by.c_str());
    if (const std::string date = date_of_source(); !date.empty())
      cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATE_DATE, date.c_str());
    for (const auto& font : scene.fonts) add_face(font);
    const std::unique_ptr<cairo_t, Destroy<cairo_destroy>> cairo(cairo_create(surface.get()));
    cairo_ = cairo.get();
    cairo_scale(cairo_, times, times);
    color(scene.background);
    cairo_paint(cairo_);
    for (const Item& item : scene.items) draw(item);
    check(cairo_status(cairo_));
    cairo_surface_finish(surface.get());
    check(cairo_surface_status(surface.get()));
  }
  std::string take() { return std::move(bytes_); }

 private:
  // Cairo keeps fonts for longer than it is asked to: each holds the file that it draws from.
  void add_face(const std::shared_ptr<const FontFile>& font) {
    static const cairo_user_data_key_t key{};
    faces_.emplace_back(font);
    cairo_faces_.emplace_back(cairo_ft_font_face_create_for_ft_face(faces_.back().ft(), 0));
    auto held = std::make_unique<FontFace>(faces_.back());
    check(cairo_font_face_set_user_data(cairo_faces_.back().get(), &key, held.get(),
                                        [](void* gone) { delete static_cast<FontFace*>(gone); }));
    static_cast<void>(held.release());  // Cairo's now
  }

  void color(ImU32 of) {
    const Rgba c = rgba(of);
    cairo_set_source_rgba(cairo_, c.red, c.green, c.blue, c.alpha);
  }

  void rectangle(const Box& box) {
    cairo_rectangle(cairo_, box.left, box.top, box.right - box.left, box.bottom - box.top);
  }

  void draw(const Item& item) {
    cairo_save(cairo_);
    if (item.clip) {
      rectangle(*item.clip);
      cairo_clip(cairo_);
    }
    std::visit([this](const auto& shape) { draw_shape(shape); }, item.shape);
    cairo_restore(cairo_);
  }

  void draw_shape(const Area& area) {
    for (const Outline& outline : area.outlines) {
      cairo_move_to(cairo_, outline.front().x, outline.front().y);
      for (const ImVec2& at : outline) cairo_line_to(cairo_, at.x, at.y);
      cairo_close_path(cairo_);
    }
    if (area.right_color || area.bottom_color)
      fade(area);
    else
      color(area.color);
    cairo_fill(cairo_);
  }

  void fade(const Area& area) {
    const ImVec2 from = area.outlines.front()[0], to = area.outlines.front()[2];
    const Pattern pattern(area.right_color ? cairo_pattern_create_linear(from.x, 0, to.x, 0)
                                           : cairo_pattern_create_linear(0, from.y, 0, to.y));
    const auto stop = [&](double at, ImU32 of) {
      const Rgba c = rgba(of);
      cairo_pattern_add_color_stop_rgba(pattern.get(), at, c.red, c.green, c.blue, c.alpha);
    };
    stop(0, area.color);
    stop(1, area.right_color ? *area.right_color : *area.bottom_color);
    cairo_set_source(cairo_, pattern.get());
  }

  // With its text, so that it can be searched and copied.
  void draw_shape(const Words& words) {
    const FontFace& face = faces_[words.font];
    const double em = face.em(words.height);
    color(words.color);
    cairo_set_font_face(cairo_, cairo_faces_[words.font].get());
    const cairo_matrix_t matrix{
        em * words.along.x, em * words.along.y, -em * words.along.y, em * words.along.x, 0, 0};
    cairo_set_font_matrix(cairo_, &matrix);
    std::vector<cairo_glyph_t> glyphs;
    std::vector<cairo_text_cluster_t> clusters;
    std::string text;
    for (std::size_t i = 0; i < words.text.size(); ++i) {
      glyphs.push_back({FT_Get_Char_Index(face.ft(), words.text[i]),
                        words.origin.x + words.along.x * words.at[i],
                        words.origin.y + words.along.y * words.at[i]});
      const std::string letter = utf8_of({&words.text[i], 1});
      text += letter;
      clusters.push_back({static_cast<int>(letter.size()), 1});
    }
    cairo_show_text_glyphs(cairo_, text.c_str(), static_cast<int>(text.size()), glyphs.data(),
                           static_cast<int>(glyphs.size()), clusters.data(),
                           static_cast<int>(clusters.size()), cairo_text_cluster_flags_t{});
  }

  void draw_shape(const Picture& picture) {
    const Surface surface = surface_of(picture.image);
    const Box& box = picture.box;
    cairo_translate(cairo_, box.left, box.top);
    cairo_scale(cairo_, (box.right - box.left) / picture.image.width,
                (box.bottom - box.top) / picture.image.height);
    cairo_set_source_surface(cairo_, surface.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cairo_), CAIRO_FILTER_NEAREST);
    cairo_paint(cairo_);
  }

  std::string bytes_;
  std::vector<FontFace> faces_;
  std::vector<Face> cairo_faces_;
  cairo_t* cairo_ = nullptr;
};

}  // namespace

std::string pdf_bytes(const Scene& scene, double width_pt) {
  return PdfWriter(scene, width_pt).take();
}

}  // namespace kvloupe::figure
