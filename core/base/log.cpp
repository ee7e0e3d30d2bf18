// One write per line, so that messages of several threads do not mix.
#include "core/base/log.h"

#include "core/base/printable.h"

#include <atomic>
#include <cstdio>

namespace kvloupe::log {
namespace {

std::atomic<bool> quiet_flag{false};

const char* prefix_of(Level level) {
  switch (level) {
    case Level::Info: return "";
    case Level::Warning: return "warning: ";
    case Level::Error: return "error: ";
  }
  return "";
}

}  // namespace

void set_quiet(bool quiet) { quiet_flag = quiet; }

void write(Level level, const std::string& text) {
  if (level == Level::Info && quiet_flag) return;
  const std::string line = prefix_of(level) + printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace kvloupe::log
