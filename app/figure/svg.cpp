#include "app/figure/svg.h"

#include "app/figure/font_face.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kvloupe::figure {
namespace {

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return safe;
}

std::string base64(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// A hundredth of a pixel is seen by nobody.
std::string number(float value) {
  const double rounded = std::round(value * 100.0) / 100.0;
  return fmt::format("{}", rounded == 0 ? 0.0 : rounded);
}

std::string hex(ImU32 color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color >> IM_COL32_R_SHIFT & 0xFF,
                     color >> IM_COL32_G_SHIFT & 0xFF, color >> IM_COL32_B_SHIFT & 0xFF);
}

std::string opacity(ImU32 color, const char* name) {
  const unsigned alpha = color >> IM_COL32_A_SHIFT & 0xFF;
  return alpha == 0xFF ? "" : fmt::format(" {}=\"{:.3g}\"", name, alpha / 255.0);
}

std::string fill(ImU32 color) {
  return fmt::format(" fill=\"{}\"{}", hex(color), opacity(color, "fill-opacity"));
}

// An upright box, if the outline is one.
std::optional<Box> box_of(const Outline& outline) {
  if (outline.size() != 4) return std::nullopt;
  const auto [left, right] = std::minmax({outline[0].x, outline[1].x, outline[2].x, outline[3].x});
  const auto [top, bottom] = std::minmax({outline[0].y, outline[1].y, outline[2].y, outline[3].y});
  for (std::size_t i = 0; i < 4; ++i) {
    const ImVec2 at = outline[i], next = outline[(i + 1) % 4];
    if ((at.x != left && at.x != right) || (at.y != top && at.y != bottom)) return std::nullopt;
    if (at.x != next.x && at.y != next.y) return std::nullopt;
  }
  return Box{left, top, right, bottom};
}

std::string attributes(const Box& box) {
  return fmt::format(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(box.left),
                     number(box.top), number(box.right - box.left), number(box.bottom - box.top));
}

class SvgWriter {
 public:
  SvgWriter(const Scene& scene, double width_pt, std::string prefix) : prefix_(std::move(prefix)) {
    for (const auto& font : scene.fonts) faces_.emplace_back(font);
    std::string body;
    for (const Item& item : scene.items) body += text_of(item);
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}pt\" height=\"{1:g}pt\" "
        "viewBox=\"0 0 {2} {3}\" xml:space=\"preserve\">\n",
        width_pt, width_pt * scene.height / scene.width, number(scene.width), number(scene.height));
    text_ += fmt::format("<title>{}</title>\n", escaped(scene.title));
    if (!scene.made_by.empty()) text_ += fmt::format("<desc>{}</desc>\n", escaped(scene.made_by));
    text_ += style() + "<defs>\n" + defined_ + "</defs>\n";
    text_ += fmt::format("<rect width=\"100%\" height=\"100%\"{}/>\n", fill(scene.background));
    text_ += body + "</svg>\n";
  }
  std::string take() { return std::move(text_); }

 private:
  // The advances of the window are those of the font alone, without kerning and ligatures.
  std::string style() const {
    std::string css = "text{white-space:pre;font-kerning:none;font-variant-ligatures:none}\n";
    // A browser that shows fewer pixels than a map has leaves out rows and columns, and with them
    // single kept keys; here it takes their mean.
    if (map_pixels_ > 1)
      css += fmt::format(
          "@media (max-resolution:{:.2f}dppx){{image{{image-rendering:auto!important}}}}\n",
          map_pixels_);
    for (std::size_t i = 0; i < faces_.size(); ++i)
      css += fmt::format(".{}f{}{{font-family:'{}',{};font-weight:{}}}\n", prefix_, i,
                         escaped(faces_[i].family()),
                         faces_[i].fixed_width() ? "monospace" : "sans-serif", faces_[i].weight());
    return "<style>\n" + css + "</style>\n";
  }

  std::string text_of(const Item& item) {
    const std::string text =
        std::visit([this](const auto& shape) { return this->shape_text(shape); }, item.shape);
    if (!item.clip) return text;
    return fmt::format("<g clip-path=\"url(#{})\">{}</g>\n", clip_id(*item.clip),
                       text.substr(0, text.size() - 1));
  }

  std::string clip_id(const Box& box) {
    const std::string shape = fmt::format("<rect{}/>", attributes(box));
    const auto [at, is_new] =
        clips_.try_emplace(shape, fmt::format("{}c{}", prefix_, clips_.size()));
    if (is_new) defined_ += fmt::format("<clipPath id=\"{}\">{}</clipPath>\n", at->second, shape);
    return at->second;
  }

  std::string shape_text(const Area& area) {
    if (area.right_color || area.bottom_color) return fading_text(area);
    // Cells that lie side by side show no seam where their sides fall on whole pixels.
    constexpr float kLeastCrisp = 3;
    std::string boxes, path;
    for (const Outline& outline : area.outlines) {
      if (const auto box = box_of(outline)) {
        const bool crisp =
            box->right - box->left >= kLeastCrisp && box->bottom - box->top >= kLeastCrisp;
        boxes += fmt::format("<rect{}{}{}/>\n", attributes(*box), fill(area.color),
                             crisp ? " shape-rendering=\"crispEdges\"" : "");
        continue;
      }
      for (std::size_t i = 0; i < outline.size(); ++i)
        path +=
            fmt::format("{}{} {}", i == 0 ? "M" : "L", number(outline[i].x), number(outline[i].y));
      path += "Z";
    }
    return path.empty() ? boxes
                        : boxes + fmt::format("<path d=\"{}\"{}/>\n", path, fill(area.color));
  }

  std::string fading_text(const Area& area) {
    const ImU32 to = area.right_color.value_or(area.bottom_color.value_or(area.color));
    const std::string stops = fmt::format(
        "<stop offset=\"0\" stop-color=\"{}\"{}/><stop offset=\"1\" stop-color=\"{}\"{}/>",
        hex(area.color), opacity(area.color, "stop-opacity"), hex(to), opacity(to, "stop-opacity"));
    const std::string id = fmt::format("{}g{}", prefix_, gradients_++);
    defined_ += fmt::format("<linearGradient id=\"{}\" x2=\"{}\" y2=\"{}\">{}</linearGradient>\n",
                            id, area.right_color ? 1 : 0, area.right_color ? 0 : 1, stops);
    return fmt::format("<rect{} fill=\"url(#{})\" shape-rendering=\"crispEdges\"/>\n",
                       attributes(*box_of(area.outlines.front())), id);
  }

  std::string shape_text(const Words& words) const {
    const double degrees = std::atan2(words.along.y, words.along.x) * 180 / 3.14159265358979323846;
    const std::string place =
        std::abs(degrees) < 0.01
            ? fmt::format("x=\"{}\" y=\"{}\"", number(words.origin.x), number(words.origin.y))
            : fmt::format("transform=\"translate({} {}) rotate({:g})\"", number(words.origin.x),
                          number(words.origin.y), degrees);
    const std::string length =
        words.text.size() > 1 ? fmt::format(" textLength=\"{}\"", number(words.length)) : "";
    return fmt::format("<text class=\"{}f{}\" font-size=\"{}\" {}{}{}>{}</text>\n", prefix_,
                       words.font, number(faces_[words.font].em(words.height)), place, length,
                       fill(words.color), escaped(utf8_of(words.text)));
  }

  std::string shape_text(const Picture& picture) {
    const float width = picture.box.right - picture.box.left;
    if (width > 0)
      map_pixels_ = std::max(map_pixels_, static_cast<float>(picture.image.width) / width);
    return fmt::format(
        "<image{} preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
        "href=\"data:image/png;base64,{}\"/>\n",
        attributes(picture.box), base64(png_bytes(picture.image)));
  }

  const std::string prefix_;
  std::vector<FontFace> faces_;
  std::map<std::string, std::string> clips_;  // ids, by what they are
  int gradients_ = 0;
  float map_pixels_ = 0;  // the most that a picture has for one of the figure
  std::string defined_, text_;
};

}  // namespace

std::string svg_text(const Scene& scene, double width_pt, const std::string& prefix) {
  return SvgWriter(scene, width_pt, prefix).take();
}

}  // namespace kvloupe::figure
