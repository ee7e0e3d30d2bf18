#include "core/c_api/chunk_order.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace kvloupe::c_api {
namespace {

constexpr const char* kOrder =
    "give each layer its chunks in order, and each chunk to the layers in ascending order; reset "
    "the selector before another "
    "text";

}  // namespace

void ChunkOrder::check(int layer, const Chunk& chunk) const {
  const std::int64_t done = num_done(layer);
  const auto refuse = [&](const std::string& why) {
    return usage_error(
        fmt::format("layer {} cannot take the chunk at position {} now", layer, chunk.past), why,
        kOrder);
  };
  const auto index = static_cast<std::size_t>(done);
  const Chunk* before = done == 0 ? nullptr : &chunks_[index - 1];
  const std::int64_t next = before == nullptr ? begin_ : before->past + before->length;
  if (chunk.past != next)
    throw refuse(
        fmt::format("{} chunk there begins at {}", done == 0 ? "the first" : "the next", next));
  for (const auto& [other, count] : done_) {
    if (other < layer && count <= done)
      throw refuse(fmt::format("layer {} comes before it and has not taken that chunk", other));
    if (other > layer && count > done)
      throw refuse(fmt::format("layer {} comes after it and has taken that chunk", other));
  }
  if (index >= chunks_.size()) return;
  const Chunk& same = chunks_[index];
  if (chunk.length != same.length || chunk.phase != same.phase)
    throw refuse(fmt::format(
        "another layer took a {} chunk of {} tokens there, this one is a {} chunk of {}",
        name_of(same.phase), same.length, name_of(chunk.phase), chunk.length));
}

void ChunkOrder::note(int layer, const Chunk& chunk) {
  const std::int64_t done = num_done(layer);
  if (static_cast<std::size_t>(done) == chunks_.size()) chunks_.push_back(chunk);
  done_[layer] = done + 1;
}

}  // namespace kvloupe::c_api
