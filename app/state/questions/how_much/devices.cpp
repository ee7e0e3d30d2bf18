#include "app/state/questions/how_much/devices.h"

#include "core/engine/engine.h"

namespace kvloupe::state {

DevicesQuestion::Answer DevicesQuestion::work(Steps& /*steps*/) const {
  return engine().list_devices();
}

}  // namespace kvloupe::state
