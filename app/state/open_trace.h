// A trace that the user looks at: an immutable value that places, questions and results share.
#pragma once

#include "core/session/session.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::state {

struct OpenTrace {
  int id = 0;  // of this opening: a file opened again has another one
  std::string path, name;
  session::SessionPtr session;
  std::vector<std::string> text;         // readable_text of each token
  std::vector<std::string> token_label;  // readable_token of each token

  const trace::TraceInfo& info() const { return session->info(); }
  selection::ModelShape shape() const { return session->shape(); }
  std::string key() const { return "t" + std::to_string(id); }
};
using TracePtr = std::shared_ptr<const OpenTrace>;

// Reads what a window needs at once; from any thread. memory_limit 0: the default. Throws
// Error{Input}, also for a trace that holds no finished chunk.
TracePtr open_trace(const std::string& path, std::uint64_t memory_limit);

}  // namespace kvloupe::state
