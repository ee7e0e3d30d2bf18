// What a method lost of a span, and why, as the commands print it.
#pragma once

#include "core/replay/span_loss.h"
#include "core/replay/table.h"
#include "core/session/session.h"

#include <string>

namespace kvloupe::cli {

// A row of heads each: what it keeps, what the span receives there, to what the rest was lost.
table::Table span_heads_table(const replay::SpanLoss& loss);
std::string span_loss_json(const replay::SpanLoss& loss, const session::TraceSession& session);
std::string span_loss_text(const replay::SpanLoss& loss, const session::TraceSession& session);

}  // namespace kvloupe::cli
