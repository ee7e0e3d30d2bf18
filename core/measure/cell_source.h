// Where a timed cell comes from, and the chunks before it on which its choice rests. Private to
// core/measure: needs Torch.
#pragma once

#include "core/device/default_device.h"
#include "core/selection/selector.h"
#include "core/session/session.h"

#include <cstdint>
#include <memory>
#include <string>

namespace kvloupe::measure {

class CellSource {
 public:
  virtual ~CellSource() = default;
  // The timed chunk; those before it are 0 and on.
  virtual int chunk() const = 0;
  // The chunk of the trace whose queries are timed.
  virtual int trace_chunk() const = 0;
  virtual const std::string& device() const = 0;
  // Throws Error{Input} as session::load_cell() and add_probe().
  virtual selection::Cell load(int layer, int chunk) = 0;
};

// The cells as recorded, on a device as device::open_device() takes it, in its timed_type(). `session` is
// borrowed. Throws Error{Input}: no such chunk.
std::unique_ptr<CellSource> trace_cells(const session::TraceSession& session,
                                        const selection::MethodSpec& spec, int chunk,
                                        const std::string& device = device::kDefault);

// The same queries after another number of past keys: the chunk's own past, cut to its newest keys
// or repeated backwards until it has `past_len`. The chunks before it are as long as the prompt's
// and ask with its last full chunk's queries. Throws Error{Input}: no such chunk, one without past.
std::unique_ptr<CellSource> lengthened_cells(const session::TraceSession& session,
                                             const selection::MethodSpec& spec, int chunk,
                                             std::int64_t past_len,
                                             const std::string& device = device::kDefault);

}  // namespace kvloupe::measure
