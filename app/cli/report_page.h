// Where a report is written: a folder with report.md and its pictures, or one HTML file that stands alone.
#pragma once

#include "app/figure/export.h"
#include "core/base/output_file.h"

#include <filesystem>
#include <memory>
#include <string>

namespace kvloupe::cli {

class ReportPage {
 public:
  virtual ~ReportPage() = default;
  virtual void add(const std::string& markdown) = 0;
  // Of what a picture must be.
  virtual state::Format picture_format() const = 0;
  virtual void add_picture(const std::string& view, const std::string& title,
                           const std::string& bytes) = 0;
  // All or nothing of the page; a folder that was made for it goes again where this is not called.
  virtual void write() = 0;
  // What write() writes.
  virtual std::filesystem::path file() const = 0;
};

// "report.html" is a file, all else a folder, which is made. Throws Error{Input} where that cannot be, and
// for each file of the page that may not be written (check_result_file), before any is.
std::unique_ptr<ReportPage> open_report(const std::string& output, const InputFiles& inputs,
                                        bool force);

}  // namespace kvloupe::cli
