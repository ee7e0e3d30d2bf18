#include "app/shell/windows/figure_sheet.h"

#include "app/state/export_words.h"
#include "app/state/shell_words.h"
#include "app/widgets/figure.h"
#include "core/base/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A new file of its own, which goes with this.
class TemporaryPicture {
 public:
  TemporaryPicture() : name_((fs::temp_directory_path() / "kvloupe-XXXXXX.png").string()) {
    const int descriptor = ::mkstemps(name_.data(), 4);
    if (descriptor < 0)
      throw input_error(
          "the figure cannot be drawn",
          fmt::format("no file can be made in {}", fs::temp_directory_path().string()),
          "make room there, or set TMPDIR to another folder");
    ::close(descriptor);
  }
  ~TemporaryPicture() {
    std::error_code ignored;
    fs::remove(name_, ignored);
  }
  TemporaryPicture(const TemporaryPicture&) = delete;
  TemporaryPicture& operator=(const TemporaryPicture&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

FigureSheet::Preview drawn(const CommandRunner& run, std::vector<std::string> arguments,
                           const std::string& command, const CancelToken& cancel) {
  const TemporaryPicture file;
  arguments.insert(arguments.end(), {"--png", file.name(), "--force"});
  FigureSheet::Preview preview{command, {}, run(arguments, cancel)};
  if (preview.problem.empty()) preview.image = figure::image_of_png(content_of(file.name()));
  return preview;
}

// A form field with its name before it.
void named(const widgets::Palette& palette, const char* name, float width) {
  widgets::text_colored(palette.muted, name);
  ImGui::SameLine(widgets::em(5.5F));
  ImGui::SetNextItemWidth(width);
}

void theme_ui(const widgets::Palette& palette, state::PictureForm& form) {
  named(palette, "colours", widgets::em(9));
  int theme = form.theme == state::ThemeKind::Dark ? 1 : 0;
  if (ImGui::Combo("##theme", &theme, "light\0dark\0"))
    form.theme = theme == 1 ? state::ThemeKind::Dark : state::ThemeKind::Light;
  bool gray = form.colors == state::Colors::Gray;
  if (ImGui::Checkbox("in shades of gray", &gray))
    form.colors = gray ? state::Colors::Gray : state::Colors::Usual;
}

void pixels_ui(const widgets::Palette& palette, state::PictureForm& form) {
  constexpr std::array<std::pair<int, int>, 5> kSizes{
      {{1600, 900}, {1200, 800}, {1200, 675}, {800, 600}, {800, 500}}};
  named(palette, "pixels", widgets::em(9));
  if (ImGui::BeginCombo("##size", fmt::format("{} x {}", form.width, form.height).c_str())) {
    for (const auto& [width, height] : kSizes)
      if (ImGui::Selectable(fmt::format("{} x {}", width, height).c_str(),
                            form.width == width && form.height == height)) {
        form.width = width;
        form.height = height;
      }
    ImGui::EndCombo();
  }
  named(palette, "sharpness", widgets::em(9));
  if (ImGui::BeginCombo("##scale", fmt::format("{} times", form.scale).c_str())) {
    for (const double scale : {1.0, 2.0, 3.0})
      if (ImGui::Selectable(fmt::format("{} times", scale).c_str(), form.scale == scale))
        form.scale = scale;
    ImGui::EndCombo();
  }
}

// A column of a journal, or of a page, in centimetres.
void paper_ui(const widgets::Palette& palette, state::PictureForm& form) {
  constexpr double kLeast = 2, kMost = 120, kLeastText = 3, kMostText = 30;
  named(palette, "width", widgets::em(9));
  double width = form.column_cm;
  if (ImGui::InputDouble("##column", &width, 0, 0, "%.1f cm") && width >= kLeast && width <= kMost)
    form.column_cm = width;
  named(palette, "text", widgets::em(9));
  double points = form.font_pt;
  if (ImGui::InputDouble("##points", &points, 0, 0, "%.1f pt") && points >= kLeastText &&
      points <= kMostText)
    form.font_pt = points;
}

}  // namespace

void FigureSheet::open(const state::ViewInfo& view) {
  open_ = true;
  asked_.clear();
  // What failed is tried again; of another view a picture would pass for one of this.
  if (preview_ != nullptr && (!preview_->problem.empty() || title_ != view.title)) preview_.reset();
  what_ = state::describe(workspace_, view);
  // Results alone have no place that would remember it.
  if (view.shows_results && !workspace_.has_trace()) what_.picture = last_form_;
  title_ = view.title;
  formats_ = view.formats();
  std::erase_if(formats_, [](state::Format format) { return !state::is_picture(format); });
}

std::string FigureSheet::wanted() const {
  return state::shell_line(state::export_arguments(what_));
}

void FigureSheet::draw(const widgets::Palette& palette, const std::string& folder) {
  if (!open_) return;
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const ImVec2 most(viewport->WorkSize.x - widgets::em(3), viewport->WorkSize.y - widgets::em(3));
  ImGui::SetNextWindowPos(viewport->GetWorkCenter(), ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(most.x, widgets::em(68)), std::min(most.y, widgets::em(40))},
                           ImGuiCond_Appearing);
  ImGui::SetNextWindowSizeConstraints({std::min(most.x, widgets::em(36)), widgets::em(20)}, most);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoDocking | ImGuiWindowFlags_NoCollapse;
  if (ImGui::Begin(fmt::format("Figure: {}###figure", title_).c_str(), &open_, kFlags)) {
    ask();
    ImGui::BeginChild("form", {widgets::em(15.5F), 0});
    form_ui(palette);
    files_ui(folder);
    ImGui::EndChild();
    ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("picture", {0, 0});
    picture_ui(palette);
    ImGui::EndChild();
  }
  ImGui::End();
}

void FigureSheet::form_ui(const widgets::Palette& palette) {
  state::PictureForm& form = what_.picture;
  const state::PictureForm before = form;
  theme_ui(palette, form);
  bool paper = form.column_cm > 0;
  constexpr double kOneColumn = 8.4;
  if (ImGui::RadioButton("for a screen", !paper)) form.column_cm = 0;
  ImGui::SameLine();
  if (ImGui::RadioButton("for paper", paper) && !paper) form.column_cm = kOneColumn;
  paper = form.column_cm > 0;
  paper ? paper_ui(palette, form) : pixels_ui(palette, form);
  ImGui::Checkbox("title and chips", &form.head);
  // The next figure has it, too.
  if (form == before) return;
  workspace_.cursor.set_picture(form);
  last_form_ = form;
}

void FigureSheet::files_ui(const std::string& folder) {
  ImGui::Dummy({0, widgets::em(0.5F)});
  for (const state::Format format : formats_) {
    std::string name = state::name_of(format);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (ImGui::Button(fmt::format("Save as {}\u2026", name).c_str(), {widgets::em(14.5F), 0}))
      exporter_.ask(what_, title_, format, folder);
  }
  if (ImGui::Button("Copy the command", {widgets::em(14.5F), 0}))
    ImGui::SetClipboardText(Exporter::command_of(what_).c_str());
}

void FigureSheet::picture_ui(const widgets::Palette& palette) {
  const bool shows = preview_ != nullptr && preview_->problem.empty();
  if (was_cancelled()) {
    if (ImGui::Button("Draw it")) asked_.clear();
  } else if (!shows && is_current()) {
    widgets::error_ui(palette, preview_->problem);
  } else if (!shows) {
    widgets::loading_ui(palette, "Drawing the figure");
  }
  if (!shows) return;
  const figure::Image& image = preview_->image;
  texture_.update(workspace_.memory, preview_->of,
                  {0, static_cast<double>(image.height), 0, static_cast<double>(image.width),
                   image.width, image.height},
                  [&](const widgets::MapWindow&, std::vector<ImU32>& pixels) {
                    for (std::size_t i = 0; i < pixels.size(); ++i)
                      pixels[i] = IM_COL32(image.rgba[4 * i], image.rgba[4 * i + 1],
                                           image.rgba[4 * i + 2], image.rgba[4 * i + 3]);
                  });
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float caption = ImGui::GetTextLineHeightWithSpacing();
  const auto width = static_cast<float>(image.width), height = static_cast<float>(image.height);
  const float share = std::min({1.0F, room.x / width, (room.y - caption) / height});
  const ImVec2 size(width * share, height * share);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::Image(texture_.ref(), size);
  ImGui::GetWindowDrawList()->AddRect(at, {at.x + size.x, at.y + size.y}, palette.line);
  // It is drawn no sharper than the screen shows; the file is.
  const double sharper = std::max(what_.picture.scale, 1.0);
  const std::string words =
      fmt::format("{:.0f} x {:.0f} pixels{}", image.width * sharper, image.height * sharper,
                  share < 1 ? fmt::format(", shown at {:.0f} %", 100 * share) : "");
  widgets::text_colored(palette.muted, is_current() ? words : "drawing it anew\u2026");
}

bool FigureSheet::was_cancelled() const {
  return !asked_.empty() && asked_ == wanted() && !is_current() && workspace_.answers.jobs().idle();
}

// By the command line, into a file that is read and removed. What changes while it is typed waits a moment.
void FigureSheet::ask() {
  constexpr double kPause = 0.3;
  const std::string wanted = this->wanted();
  if (wanted != seen_) {
    seen_ = wanted;
    changed_at_ = ImGui::GetTime();
  }
  if (asked_ == wanted || is_current() || ImGui::GetTime() < changed_at_ + kPause) return;
  asked_ = wanted;
  state::ViewState what = what_;
  what.picture.scale = std::min(what.picture.scale, 1.0);
  workspace_.answers.jobs().submit<Preview>(
      Lane::Command, "figure", "Drawing the figure",
      [run = exporter_.run_command, arguments = state::export_arguments(what),
       wanted](const WorkContext& context) {
        return std::make_shared<const Preview>(drawn(run, arguments, wanted, context.cancel));
      },
      [this](std::shared_ptr<const Preview> preview) { preview_ = std::move(preview); },
      [this, wanted](const Error& error) {
        if (error.kind() == ErrorKind::Cancelled) return;  // was_cancelled() says so
        preview_ = std::make_shared<const Preview>(Preview{wanted, {}, error.what()});
      });
}

}  // namespace kvloupe::shell
