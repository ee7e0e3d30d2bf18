#include "core/trace/capture_speed.h"

#include "core/base/units.h"
#include "core/trace/fields/trace_layout.h"
#include "core/trace/load/trace_load.h"

#include <fmt/format.h>

#include <cmath>

namespace kvloupe::trace {
namespace {

constexpr const char* kOwn = "";
constexpr const char* kDense = "dense_";

void write_speed(hid_t group, const std::string& prefix, const ModelSpeed& speed) {
  h5::write_attribute(group, prefix + "ttft_ms", speed.ttft_ms);
  h5::write_attribute(group, prefix + "prefill_tokens_per_s", speed.prefill_tokens_per_s);
  h5::write_attribute(group, prefix + "decode_tokens_per_s", speed.decode_tokens_per_s);
}

std::optional<ModelSpeed> load_speed(hid_t group, const std::string& prefix) {
  if (!h5::double_attribute(group, prefix + "ttft_ms")) return std::nullopt;
  const auto number = [&](const char* name) {
    const auto value = h5::double_attribute(group, prefix + name);
    if (!value || !std::isfinite(*value) || *value < 0)
      throw h5::Defect("the attribute " + prefix + name + " of /capture is not usable");
    return *value;
  };
  return ModelSpeed{number("ttft_ms"), number("prefill_tokens_per_s"),
                    number("decode_tokens_per_s")};
}

}  // namespace

void write_speed(hid_t file, const CaptureSpeed& speed) {
  const h5::Handle group = h5::open_group(file, "/capture");
  write_speed(group.get(), kOwn, speed.model);
  if (speed.dense) write_speed(group.get(), kDense, *speed.dense);
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
