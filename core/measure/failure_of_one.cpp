#include "core/measure/failure_of_one.h"

#include "core/base/foreign_error.h"

namespace kvloupe::measure {

Error failure_of_one(const std::string& what_failed, const std::exception& thrown) {
  Error error = error_from(what_failed, thrown);
  if (is_gpu_failure(thrown) || error.kind() != ErrorKind::Input) throw;
  return error;
}

}  // namespace kvloupe::measure
