#include "app/cli/chart_files.h"

#include "core/base/whole_file.h"

namespace kvloupe::cli {

std::vector<std::pair<std::string, std::string>> ChartFiles::named() const {
  return {{"--png", png}, {"--svg", svg}, {"--pdf", pdf}};
}

void add_chart_files(Command& command, ChartFiles& files, const std::string& what) {
  command.option("--png", &files.png, "also draw " + what + " to this file");
  command.option("--svg", &files.svg, "the same as SVG: text is text, lines are vectors");
  command.option("--pdf", &files.pdf, "the same as a page with its fonts embedded");
}

void write_chart(const figure::Chart& chart, const ChartFiles& files) {
  for (const auto& [format, file] :
       {std::pair{state::Format::Png, &files.png}, std::pair{state::Format::Svg, &files.svg},
        std::pair{state::Format::Pdf, &files.pdf}})
    if (!file->empty()) write_whole_file(*file, figure::chart_bytes(chart, format));
}

}  // namespace kvloupe::cli
