#include "app/bench/scratch_folder.h"

#include "core/base/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kvloupe::bench {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvloupe-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw input_error("the benchmark cannot write its files", std::strerror(errno),
                      "set TMPDIR to a folder that you may write to");
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kvloupe::bench
