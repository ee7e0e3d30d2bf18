#include "core/trace/capture_speed.h"

#include "core/base/units.h"
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/trace_layout.h"
#include "core/trace/load/trace_load.h"

#include <fmt/format.h>

#include <vector>

namespace kvloupe::trace {
namespace {

constexpr const char* kOwn = "";
constexpr const char* kDense = "dense_";

// Nothing where it has no time to the first token; then it has the others, too.
std::optional<ModelSpeed> load_speed(hid_t group, const std::string& prefix) {
  ModelSpeed speed;
  std::vector<std::string> none;  // of these attributes none is passed over
  const auto found = read_attributes(group, " of /capture", speed, none, prefix);
  if (!found.contains(prefix + "ttft_ms")) return std::nullopt;
  if (found.size() < 3)
    throw h5::Defect(fmt::format("/capture has {}ttft_ms but not all three speeds", prefix));
  return speed;
}

}  // namespace

void write_speed(hid_t file, const CaptureSpeed& speed) {
  const h5::Handle group = h5::open_group(file, "/capture");
  write_attributes(group.get(), speed.model, kOwn);
  if (speed.dense) write_attributes(group.get(), *speed.dense, kDense);
}

std::optional<CaptureSpeed> load_speed(hid_t file) {
  if (!h5::has_object(file, "/capture")) return std::nullopt;
  const h5::Handle group = h5::open_group(file, "/capture");
  const auto own = load_speed(group.get(), kOwn);
  if (!own) return std::nullopt;
  return CaptureSpeed{*own, load_speed(group.get(), kDense)};
}

std::string text_of(const ModelSpeed& speed) {
  std::string text = fmt::format("time to first token {}, prefill {:.1f} tokens/s",
                                 format_duration(speed.ttft_ms / 1000), speed.prefill_tokens_per_s);
  if (speed.decode_tokens_per_s > 0)
    text += fmt::format(", decode {:.1f} tokens/s", speed.decode_tokens_per_s);
  return text;
}

}  // namespace kvloupe::trace
