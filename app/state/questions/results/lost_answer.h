// From a sample of an evaluation to the head in which its method lost the answer.
#pragma once

#include "app/state/open_results.h"

#include <string>

namespace kvloupe::state {

class Workspace;

// The file of the sample's trace; empty: it has none, or one that does not lie with the results.
std::string trace_of(const ReadResults& results, const trace::ResultSample& sample);
// The line for a terminal that records one.
std::string record_command(const ReadResults& results, const trace::ResultSample& sample,
                           const RecordedFrom& from = {});
// A method that answered what this one did not: of the same text that with the highest score above the sample's, of those
// the one with its budget, else with the least that is known; dense, which keeps all, is none. Empty: no method did better.
std::string method_that_answered(const ReadResults& results, const trace::ResultSample& sample);
// Opens the trace of the sample at the span of the answer, with its method as A and the one that answered as B, in the
// workspace that says why it was lost.
void open_lost_answer(Workspace& workspace, const ReadResults& results,
                      const trace::ResultSample& sample);
// Once a frame: when it is known which head lost most of the answer, goes there.
void follow_lost_answer(Workspace& workspace);

}  // namespace kvloupe::state
