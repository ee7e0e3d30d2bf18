#include "core/base/error.h"

#include "core/base/printable.h"

#include <fmt/format.h>

#include <utility>

namespace kvloupe {

Error::Error(ErrorKind kind, std::string what_failed, std::string why, std::string remedy)
    : kind_(kind),
      what_failed_(printable(what_failed)),
      why_(printable(why)),
      remedy_(printable(remedy)),
      text_(fmt::format("{}; {}; {}", what_failed_, why_, remedy_)) {}

int Error::exit_code() const noexcept {
  switch (kind_) {
    case ErrorKind::Usage: return 2;
    case ErrorKind::Cancelled: return 130;
    case ErrorKind::Input:
    case ErrorKind::Internal: return 1;
  }
  return 1;
}

Error usage_error(std::string what_failed, std::string why, std::string remedy) {
  return {ErrorKind::Usage, std::move(what_failed), std::move(why), std::move(remedy)};
}

Error input_error(std::string what_failed, std::string why, std::string remedy) {
  return {ErrorKind::Input, std::move(what_failed), std::move(why), std::move(remedy)};
}

Error cancelled_error() {
  return {ErrorKind::Cancelled, "cancelled", "it was interrupted before it ended", "run it again"};
}

void fail_check(const char* condition, const char* file, int line) {
  throw Error(ErrorKind::Internal, fmt::format("internal check failed: {}", condition),
              fmt::format("at {}:{}", file, line), "please report this with the command you ran");
}

}  // namespace kvloupe
