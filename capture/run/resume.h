// Going on with a capture that was cut short: what it left is compared with what is asked for, and
// what it has done need not be run again.
#pragma once

#include "capture/model/decoder.h"
#include "capture/run/recorder.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"

namespace kvloupe::capture {

// Throws Error{Input} that names the first difference.
void require_same_request(const trace::TraceHeader& asked, const trace::TraceReader& left);

// Fills the decoder's cache and the selectors' state as the chunks done had left them. Returns the
// first chunk to be run: the last one done, whose logits no trace has; or 0 where the trace lacks
// keys and values of some layer, so that all has to be run again.
int restore(const trace::TraceReader& left, Decoder& decoder, Recorder& recorder);

}  // namespace kvloupe::capture
