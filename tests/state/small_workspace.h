// A small trace in memory (tests/replay/small_trace.h) as one that the window has open.
#pragma once

#include "app/state/workspace.h"
#include "tests/replay/small_trace.h"

#include <memory>
#include <string>

namespace kvloupe::state::testing {

// The trace must outlive it.
inline std::shared_ptr<OpenTrace> opened(const replay::testing::SmallTrace& trace, int id = 1,
                                         const std::string& path = "small.h5") {
  auto opened = std::make_shared<OpenTrace>();
  opened->id = id;
  opened->path = opened->name = path;
  opened->session = session::SessionPtr(session::SessionPtr(), &trace.session());
  opened->token_label.assign(static_cast<std::size_t>(trace.num_tokens()), "token");
  return opened;
}

inline Place place_in(const replay::testing::SmallTrace& trace, int layer, int q_head, int chunk,
                      int id = 1) {
  Place place;
  place.trace = opened(trace, id);
  place.layer = layer;
  place.q_head = q_head;
  place.chunk = chunk;
  return place;
}

}  // namespace kvloupe::state::testing
