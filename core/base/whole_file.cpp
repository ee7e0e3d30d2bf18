#include "core/base/whole_file.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

namespace kvloupe {

void write_whole_file(const std::filesystem::path& path,
                      const std::function<void(std::ostream&)>& write) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  std::error_code code;
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    write(stream);
    stream.close();
    if (!stream) code = std::make_error_code(std::errc::io_error);
  }
  if (!code) std::filesystem::rename(temporary, path, code);
  if (!code) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  throw input_error("cannot write " + path.string(), code.message(),
                    "check the free space and the permissions of its folder");
}

}  // namespace kvloupe
