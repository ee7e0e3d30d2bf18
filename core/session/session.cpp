#include "core/session/session.h"

#include "core/session/session_cache.h"

#include <utility>

namespace kvloupe::session {

struct TraceSession::Impl {
  Impl(const std::filesystem::path& path, std::uint64_t memory_limit_bytes)
      : reader(path),
        ids(reader.token_ids()),
        texts(reader.token_texts()),
        cache(reader, memory_limit_bytes) {}

  trace::TraceReader reader;
  std::vector<std::int32_t> ids;
  std::vector<std::string> texts;
  Cache cache;
};

TraceSession::TraceSession(const std::filesystem::path& path, std::uint64_t memory_limit_bytes)
    : impl_(std::make_unique<Impl>(
          path, memory_limit_bytes == 0 ? kDefaultMemoryLimit : memory_limit_bytes)) {}

TraceSession::~TraceSession() = default;

const trace::TraceInfo& TraceSession::info() const { return impl_->reader.info(); }
const trace::TraceReader& TraceSession::reader() const { return impl_->reader; }
const std::vector<std::int32_t>& TraceSession::token_ids() const { return impl_->ids; }
const std::vector<std::string>& TraceSession::token_texts() const { return impl_->texts; }
selection::ModelShape TraceSession::shape() const { return selection::shape_of(info().model); }
std::uint64_t TraceSession::cached_bytes() const { return impl_->cache.bytes(); }
TraceSession::Cache& TraceSession::cache() const { return impl_->cache; }

}  // namespace kvloupe::session
