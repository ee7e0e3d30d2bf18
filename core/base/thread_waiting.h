// How OpenMP's threads wait for each other.
#pragma once

namespace kvloupe {

// They spin for a moment at a barrier, then sleep: what was fastest on a quiet machine and beside other
// programs (docs/performance.md). Sets GOMP_SPINCOUNT, which the OpenMP library reads when it is loaded, unless the
// user's environment says how to wait. Before the engine is loaded and before any thread is started.
void spin_briefly();

}  // namespace kvloupe
