// See fonts.h.
#include "app/widgets/fonts.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <fontconfig/fontconfig.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>

namespace kvloupe::widgets {
namespace {

constexpr float kBaseSize = 15.0F;
constexpr float kGridStep = 8.0F;

float size_of(Type type) {
  switch (type) {
    case Type::Title: return 1.3F;
    case Type::Strong:
    case Type::Text: return 1.0F;
    case Type::Number: return 0.92F;
    case Type::Caption: return 0.84F;
  }
  return 1.0F;
}

ImFont* face_of(Type type) {
  switch (type) {
    case Type::Title:
    case Type::Strong: return fonts().strong;
    case Type::Number: return fonts().mono;
    case Type::Text:
    case Type::Caption: return fonts().body;
  }
  return fonts().body;
}
const char* const kNotoFolder = "/usr/share/fonts/truetype/noto/";

ImFont* load_first(const std::vector<const char*>& files, const char* purpose) {
  ImGuiIO& io = ImGui::GetIO();
  for (const char* file : files)
    if (std::filesystem::exists(file)) return io.Fonts->AddFontFromFileTTF(file, kBaseSize);
  log::warning("no font for {} was found; install fonts-inter and fonts-jetbrains-mono", purpose);
  return io.Fonts->AddFontDefault();
}

struct Script {
  char32_t first, last;
  const char* file;
};
// Blocks that readers of traces meet; the last resort is DejaVu.
constexpr std::array<Script, 22> kScripts{{{0x0530, 0x058F, "NotoSansArmenian-Regular.ttf"},
                                           {0x0590, 0x05FF, "NotoSansHebrew-Regular.ttf"},
                                           {0x0600, 0x06FF, "NotoSansArabic-Regular.ttf"},
                                           {0x0750, 0x077F, "NotoSansArabic-Regular.ttf"},
                                           {0x0900, 0x097F, "NotoSansDevanagari-Regular.ttf"},
                                           {0x0980, 0x09FF, "NotoSansBengali-Regular.ttf"},
                                           {0x0A00, 0x0A7F, "NotoSansGurmukhi-Regular.ttf"},
                                           {0x0A80, 0x0AFF, "NotoSansGujarati-Regular.ttf"},
                                           {0x0B80, 0x0BFF, "NotoSansTamil-Regular.ttf"},
                                           {0x0C00, 0x0C7F, "NotoSansTelugu-Regular.ttf"},
                                           {0x0C80, 0x0CFF, "NotoSansKannada-Regular.ttf"},
                                           {0x0D00, 0x0D7F, "NotoSansMalayalam-Regular.ttf"},
                                           {0x0E00, 0x0E7F, "NotoSansThai-Regular.ttf"},
                                           {0x0E80, 0x0EFF, "NotoSansLao-Regular.ttf"},
                                           {0x10A0, 0x10FF, "NotoSansGeorgian-Regular.ttf"},
                                           {0x1200, 0x137F, "NotoSansEthiopic-Regular.ttf"},
                                           {0x1780, 0x17FF, "NotoSansKhmer-Regular.ttf"},
                                           {0x2190, 0x21FF, "NotoSansMath-Regular.ttf"},
                                           {0x2200, 0x22FF, "NotoSansMath-Regular.ttf"},
                                           {0x2300, 0x2BFF, "NotoSansSymbols2-Regular.ttf"},
                                           {0x1F300, 0x1FAFF, "NotoSansSymbols2-Regular.ttf"},
                                           {0x1D400, 0x1D7FF, "NotoSansMath-Regular.ttf"}}};

ImFont* load_family(const std::string& family, int weight) {
  const auto [file, face] = font_file(family, weight);
  ImFontConfig config;
  config.FontNo = static_cast<ImU32>(face);
  return ImGui::GetIO().Fonts->AddFontFromFileTTF(file.c_str(), kBaseSize, &config);
}

void merge_into(ImFont* target, const std::string& file) {
  ImFontConfig config;
  config.MergeMode = true;
  config.DstFont = target;
  ImGui::GetIO().Fonts->AddFontFromFileTTF(file.c_str(), kBaseSize, &config);
}

}  // namespace

std::pair<std::string, int> font_file(const std::string& family, int weight) {
  const std::unique_ptr<FcPattern, decltype(&FcPatternDestroy)> wanted(FcPatternCreate(),
                                                                       FcPatternDestroy);
  const auto text = [](const std::string& of) {
    return reinterpret_cast<const FcChar8*>(of.c_str());
  };
  FcPatternAddString(wanted.get(), FC_FAMILY, text(family));
  FcPatternAddInteger(wanted.get(), FC_WEIGHT, FcWeightFromOpenType(weight));
  FcConfigSubstitute(nullptr, wanted.get(), FcMatchPattern);
  FcDefaultSubstitute(wanted.get());
  FcResult result = FcResultNoMatch;
  const std::unique_ptr<FcPattern, decltype(&FcPatternDestroy)> found(
      FcFontMatch(nullptr, wanted.get(), &result), FcPatternDestroy);
  FcChar8 *name = nullptr, *file = nullptr;
  int index = 0;
  // Without the family fontconfig gives another one.
  bool is_it = false;
  for (int i = 0; found && FcPatternGetString(found.get(), FC_FAMILY, i, &name) == FcResultMatch;
       ++i)
    is_it = is_it || FcStrCmpIgnoreCase(name, text(family)) == 0;
  if (!is_it || FcPatternGetString(found.get(), FC_FILE, 0, &file) != FcResultMatch)
    throw input_error(fmt::format("the font {} is not here", printable(family)),
                      "no family of this machine has this name", "see fc-list : family");
  FcPatternGetInteger(found.get(), FC_INDEX, 0, &index);
  return {reinterpret_cast<const char*>(file), index & 0xFFFF};
}

void load_fonts(Fonts& fonts, const std::string& family) {
  const std::string inter = "/usr/share/fonts/opentype/inter/";
  const std::string mono = "/usr/share/fonts/truetype/jetbrains-mono/";
  const char* dejavu = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
  if (family.empty()) {
    fonts.body = load_first({(inter + "Inter-Regular.otf").c_str(), dejavu}, "the interface");
    fonts.strong = load_first({(inter + "Inter-SemiBold.otf").c_str(), dejavu}, "headings");
  } else {
    fonts.body = load_family(family, 400);
    fonts.strong = load_family(family, 600);
    // Arrows and signs that many families lack.
    if (std::filesystem::exists(inter + "Inter-Regular.otf"))
      for (ImFont* font : {fonts.body, fonts.strong}) merge_into(font, inter + "Inter-Regular.otf");
  }
  fonts.mono = load_first({(mono + "JetBrainsMono-Regular.ttf").c_str(),
                           "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"},
                          "tokens");
  // Marks such as the line end that the mono face lacks.
  if (std::filesystem::exists(inter + "Inter-Regular.otf"))
    merge_into(fonts.mono, inter + "Inter-Regular.otf");
  ImGui::GetStyle().FontSizeBase = kBaseSize;
  ImGui::GetIO().UserData = &fonts;
}

void ensure_glyphs(Fonts& fonts, const std::vector<char32_t>& code_points) {
  for (const char32_t code_point : code_points)
    for (const Script& script : kScripts) {
      if (code_point < script.first || code_point > script.last) continue;
      const std::string file = std::string(kNotoFolder) + script.file;
      if (!fonts.merged.insert(file).second || !std::filesystem::exists(file)) continue;
      merge_into(fonts.body, file);
      merge_into(fonts.mono, file);
    }
}

FontScope::FontScope(Type type, float times) {
  ImGui::PushFont(face_of(type), ImGui::GetStyle().FontSizeBase * size_of(type) * times);
}

float grid(float steps) {
  const ImGuiStyle& style = ImGui::GetStyle();
  return std::round(kGridStep * steps * style.FontScaleMain);
}

Fonts& fonts() { return *static_cast<Fonts*>(ImGui::GetIO().UserData); }

}  // namespace kvloupe::widgets
