// Copying what a capture that was cut short has done into the file that goes on. A killed file's
// structure may be half written beyond the chunks done, so it is read and never written to again.
#pragma once

#include "core/trace/hdf5.h"
#include "core/trace/run_storage.h"
#include "core/trace/trace_load.h"

#include <vector>

namespace kvloupe::trace {

// The first `dims` of the dataset of the same path, in pieces of bounded size; a dataset that grows
// is extended to them. Throws Defect where `from` has less.
void copy_values(hid_t from, const h5::Handle& to, h5::ValueClass value_class,
                 const std::vector<hsize_t>& dims);

// A run in one layer, all chunks; their mean kept keys go to kept[chunk * stride].
void copy_run_layer(hid_t from, const TraceInfo& info, const RunInfo& run, int layer,
                    std::int32_t max_tokens, RunLayerWriter& to, float* kept, std::size_t stride);

}  // namespace kvloupe::trace
