// The row capture_vs_peer: the same prefill with the same arrays recorded, by transformers and h5py.
#pragma once

#include "app/bench/bench.h"

namespace kvloupe::bench {

// `peers`: that of SuiteRun.
Row capture_vs_peer(bool peers, const WorkContext& context);

}  // namespace kvloupe::bench
