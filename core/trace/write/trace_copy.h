// Copying values of a trace into a new one: for a capture that goes on, and for a repair. The
// structure of a killed or damaged file is read and never written to.
#pragma once

#include "core/trace/hdf5/hdf5.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/runs/run_storage.h"

#include <vector>

namespace kvloupe::trace {

// The first `dims` of the dataset of the same path, in pieces of bounded size; a dataset that grows
// is extended to them. Throws Defect where `from` has less.
void copy_values(hid_t from, const h5::Handle& to, h5::ValueClass value_class,
                 const std::vector<hsize_t>& dims);

// Run `run` of `from`, where it has this number, in one layer: the chunks of `info`. Their mean kept
// keys go to kept[chunk * stride].
void copy_run_layer(hid_t from, int number, const TraceInfo& info, const RunInfo& run, int layer,
                    std::int32_t max_tokens, RunLayerWriter& to, float* kept, std::size_t stride);

}  // namespace kvloupe::trace
