#include "core/session/session.h"

namespace kvloupe::session {

TraceSession::TraceSession(const std::filesystem::path& path, std::uint64_t memory_limit_bytes)
    : reader_(path),
      ids_(reader_.token_ids()),
      texts_(reader_.token_texts()),
      memory_limit_(memory_limit_bytes == 0 ? kDefaultMemoryLimit : memory_limit_bytes) {}

}  // namespace kvloupe::session
