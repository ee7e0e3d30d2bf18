// The form of an operator that runs on any device, for what its kernel does not do.
#pragma once

#include "core/attention/find_operator.h"

namespace kvloupe::cuda {

// Torch's dispatcher keeps it under no key at all, so that it needs no name of its own.
template <typename Signature, typename... Arguments>
auto run_generic(const char* name, const Arguments&... arguments) {
  return attention::find_operator<Signature>(name).redispatch(c10::DispatchKeySet(), arguments...);
}

}  // namespace kvloupe::cuda
