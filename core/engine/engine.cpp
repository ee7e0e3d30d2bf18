#include "core/engine/engine.h"

#define KVLOUPE_FUNCTION(field, function) &kvloupe::function,
extern "C" const kvloupe::Engine kvloupe_engine = {KVLOUPE_ENGINE(KVLOUPE_FUNCTION)};
