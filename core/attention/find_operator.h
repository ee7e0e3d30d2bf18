// Our operators by name, as Torch's dispatcher calls them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace kvloupe::attention {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace kvloupe::attention
