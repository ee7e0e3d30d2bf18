// From a sample of an evaluation to the head in which its method lost the answer.
#pragma once

#include "app/state/open_results.h"

#include <string>

namespace kvloupe::state {

class Workspace;

// The file of the sample's trace; empty: it has none, or one that does not lie with the results.
std::string trace_of(const ReadResults& results, const trace::ResultSample& sample);
// The line for a terminal that records one.
std::string record_command(const ReadResults& results, const trace::ResultSample& sample);
// Opens the trace at the span of the answer, by the method, in the workspace that says why it was lost.
void open_lost_answer(Workspace& workspace, const std::string& trace, const std::string& method);
// Once a frame: when it is known which head lost most of the answer, goes there.
void follow_lost_answer(Workspace& workspace);

}  // namespace kvloupe::state
