// A trace that the user looks at: an immutable value that places, questions and results share.
#pragma once

#include "core/session/session.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct OpenTrace {
  int id = 0;  // of this opening: a file opened again has another one
  std::string path, name;
  session::SessionPtr session;
  std::vector<std::string> text;         // readable_text of each token
  std::vector<std::string> token_label;  // readable_token of each token
  MemoryCharge labels;                   // what these two hold

  const trace::TraceInfo& info() const { return session->info(); }
  selection::ModelShape shape() const { return session->shape(); }
  std::string key() const { return "t" + std::to_string(id); }
};
using TracePtr = std::shared_ptr<const OpenTrace>;

// Reads what a window needs at once; from any thread. Throws Error{Input}, also for a trace that
// holds no finished chunk and for one whose load finds no room.
TracePtr open_trace(const std::string& path, const MemoryAccountPtr& memory);
// The same as the session takes them; the name says where the prompt is cut anew.
struct OpenOptions {
  std::optional<int> chunk_size = {};
  selection::BasisMaker bases = {};
};
TracePtr open_trace_with(const std::string& path, const MemoryAccountPtr& memory,
                         OpenOptions options);
// All traces with the same options.
std::function<TracePtr(const std::string& path, const MemoryAccountPtr&)> opener_with(
    OpenOptions options);

}  // namespace kvloupe::state
