// The version is compiled into this file alone, so that a new one rebuilds nothing else.
#include "core/base/version.h"

namespace kvloupe {

std::string version() { return KVLOUPE_VERSION; }

}  // namespace kvloupe
