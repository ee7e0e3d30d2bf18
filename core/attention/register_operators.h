// Tells Torch of operators. LIST(DO) has DO(name, schema) for each. For the namespace whose namespaces `cpu`
// and `generic` have a form of each name: one for CPU tensors, one for those of any device that has no
// kernel of its own.
#pragma once

#include <torch/library.h>

#define KVLOUPE_OPERATOR_SCHEMA(name, schema) m.def(#name schema);
#define KVLOUPE_OPERATOR_ON_CPU(name, schema) m.impl(#name, cpu::name);
#define KVLOUPE_OPERATOR_ANYWHERE(name, schema) m.impl(#name, generic::name);
#define KVLOUPE_REGISTER_OPERATORS(LIST)                                                         \
  TORCH_LIBRARY_FRAGMENT(kvloupe, m){LIST(KVLOUPE_OPERATOR_SCHEMA)} TORCH_LIBRARY_IMPL(kvloupe,  \
                                                                                       CPU, m){  \
      LIST(KVLOUPE_OPERATOR_ON_CPU)} TORCH_LIBRARY_IMPL(kvloupe, CompositeExplicitAutograd, m) { \
    LIST(KVLOUPE_OPERATOR_ANYWHERE)                                                              \
  }
