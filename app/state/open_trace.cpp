#include "app/state/open_trace.h"

#include "app/state/token_text.h"
#include "core/base/error.h"
#include "core/base/held_bytes.h"
#include "core/base/printable.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <utility>

namespace kvloupe::state {

TracePtr open_trace(const std::string& path, const MemoryAccountPtr& memory) {
  return open_trace_with(path, memory, {});
}

TracePtr open_trace_with(const std::string& path, const MemoryAccountPtr& memory,
                         OpenOptions options) {
  const std::optional<int> chunk_size = options.chunk_size;
  static std::atomic<int> last_id = 0;
  auto opened = std::make_shared<OpenTrace>();
  opened->id = ++last_id;
  opened->path = path;
  opened->name = printable(std::filesystem::path(path).filename().string());
  if (chunk_size) opened->name += fmt::format(", cut anew into chunks of {}", *chunk_size);
  opened->session =
      std::make_shared<session::TraceSession>(path, memory, chunk_size, std::move(options.bases));
  if (opened->info().chunks.empty() || opened->info().layers.empty())
    throw input_error(fmt::format("{} cannot be shown", path), "it holds no finished chunk",
                      "capture it again");
  for (const std::string& token : opened->session->token_texts()) {
    opened->text.push_back(readable_text(token));
    opened->token_label.push_back(readable_token(token));
  }
  opened->labels =
      charge_load(memory, path, held_bytes(opened->text) + held_bytes(opened->token_label));
  return opened;
}

std::function<TracePtr(const std::string& path, const MemoryAccountPtr&)> opener_with(
    OpenOptions options) {
  return [options = std::move(options)](const std::string& path, const MemoryAccountPtr& memory) {
    return open_trace_with(path, memory, options);
  };
}

}  // namespace kvloupe::state
