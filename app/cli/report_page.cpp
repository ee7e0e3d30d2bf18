#include "app/cli/report_page.h"

#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <md4c-html.h>

#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;

class Folder final : public ReportPage {
 public:
  Folder(fs::path folder, InputFiles inputs, bool force)
      : folder_(std::move(folder)), inputs_(std::move(inputs)), force_(force) {
    std::error_code failure;
    for (fs::path part = folder_; !part.empty() && !fs::exists(part, failure);
         part = part.parent_path())
      made_.push_back(part);
    fs::create_directories(folder_, failure);
    if (failure || !fs::is_directory(folder_))
      throw input_error(fmt::format("the report cannot be written to {}", folder_.string()),
                        failure ? failure.message() : "it is no folder",
                        "name another folder by -o");
  }
  ~Folder() override {
    std::error_code ignored;
    if (!written_)
      for (const fs::path& part : made_) fs::remove(part, ignored);  // what is empty
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void add(const std::string& markdown) override { text_ += markdown; }
  state::Format picture_format() const override { return state::Format::Png; }
  void add_picture(const std::string& view, const std::string& title,
                   const std::string& bytes) override {
    check_result_file(folder_ / (view + ".png"), inputs_, force_);
    pictures_.emplace_back(view + ".png", bytes);
    text_ += fmt::format("![{}]({})\n\n", title, pictures_.back().first);
  }
  void write() override {
    for (const auto& [name, bytes] : pictures_) write_whole_file(folder_ / name, bytes);
    write_whole_file(file(), text_);
    written_ = true;
  }
  fs::path file() const override { return folder_ / "report.md"; }

 private:
  fs::path folder_;
  InputFiles inputs_;
  bool force_;
  std::vector<fs::path> made_;  // the innermost first
  std::vector<std::pair<std::string, std::string>> pictures_;
  std::string text_;
  bool written_ = false;
};

// Plain enough for any reader, and for paper.
constexpr const char* kStyle =
    "body{font:16px/1.5 Inter,system-ui,sans-serif;color:#17202c;max-width:1100px;margin:2em auto;"
    "padding:0 1em}\n"
    "code{font-family:'JetBrains Mono',monospace;font-size:.9em;background:#f1f4f8;padding:.1em "
    ".3em;overflow-wrap:anywhere}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.25em .8em;border-bottom:1px solid #d3dae3;text-align:left}\n"
    "th{border-top:2px solid #17202c;border-bottom:1px solid #17202c}\n"
    "svg{width:100%;height:auto;border:1px solid #e4e8ee}\n";

class Html final : public ReportPage {
 public:
  explicit Html(fs::path file) : file_(std::move(file)) {}

  void add(const std::string& part) override {
    // How tables keep GitHub from reading a formula; here a dollar sign is one.
    constexpr std::string_view kDollar = "<span>$</span>";
    std::string markdown = part;
    for (std::size_t at = 0; (at = markdown.find(kDollar, at)) != std::string::npos; ++at)
      markdown.replace(at, kDollar.size(), "$");
    const auto take = [](const MD_CHAR* text, MD_SIZE size, void* to) {
      static_cast<std::string*>(to)->append(text, size);
    };
    // What a trace holds is text here, never HTML.
    constexpr unsigned kFlags = MD_FLAG_TABLES | MD_FLAG_NOHTML;
    if (md_html(markdown.data(), static_cast<MD_SIZE>(markdown.size()), take, &body_, kFlags, 0) !=
        0)
      throw Error(ErrorKind::Internal, "the report could not be made", "its Markdown was not read",
                  "please report this");
  }
  state::Format picture_format() const override { return state::Format::Svg; }
  void add_picture(const std::string& /*view*/, const std::string& /*title*/,
                   const std::string& bytes) override {
    body_ += bytes + "\n";
  }
  void write() override {
    write_whole_file(
        file_, fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
                           "charset=\"utf-8\">\n<title>KVLoupe report</title>\n<style>\n{}</style>"
                           "\n</head>\n<body>\n{}</body>\n</html>\n",
                           kStyle, body_));
  }
  fs::path file() const override { return file_; }

 private:
  fs::path file_;
  std::string body_;
};

}  // namespace

std::unique_ptr<ReportPage> open_report(const std::string& output, const InputFiles& inputs,
                                        bool force) {
  const std::string ending = lower_case(fs::path(output).extension().string());
  std::unique_ptr<ReportPage> page;
  if (ending == ".html" || ending == ".htm")
    page = std::make_unique<Html>(output);
  else
    page = std::make_unique<Folder>(output, inputs, force);
  check_result_file(page->file(), inputs, force);
  return page;
}

}  // namespace kvloupe::cli
