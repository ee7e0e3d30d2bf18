#include "capture/engine.h"

#define KVLOUPE_FUNCTION(field, function) &kvloupe::function,
extern "C" const kvloupe::CaptureEngine kvloupe_capture_engine = {
    KVLOUPE_CAPTURE_ENGINE(KVLOUPE_FUNCTION)};
