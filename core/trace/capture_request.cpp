// The group /capture of a trace.
#include "core/trace/capture_request.h"

#include "core/trace/fields/trace_layout.h"
#include "core/trace/load/trace_load.h"

namespace kvloupe::trace {

void write_request(hid_t file, const CaptureRequest& request) {
  const h5::Handle group = h5::create_group(file, "/capture");
  h5::write_attribute(group.get(), "model", request.model);
  h5::write_attribute(group.get(), "chunk_size", request.chunk_size);
  h5::write_attribute(group.get(), "max_new_tokens", request.max_new_tokens);
  h5::write_attribute(group.get(), "store", text_of(request.store));
  if (!request.device.empty()) h5::write_attribute(group.get(), "device", request.device);
  if (!request.answers.empty()) h5::write_attribute(group.get(), "answers", request.answers);
  const h5::Handle prompt =
      create_vector(group.get(), "prompt", H5T_STD_I32LE, request.prompt.size(), "token", "1",
                    "token ids of the whole prompt");
  h5::write_box(prompt.get(), H5T_NATIVE_INT32, {0}, {request.prompt.size()},
                request.prompt.data());
}

std::optional<CaptureRequest> load_request(hid_t file) {
  if (!h5::has_object(file, "/capture")) return std::nullopt;
  const h5::Handle group = h5::open_group(file, "/capture");
  const auto number = [&](const char* name) {
    const auto value = h5::int_attribute(group.get(), name);
    if (!value || *value < 0 || *value > 1 << 24)
      throw h5::Defect(std::string("the attribute ") + name + " of /capture is not usable");
    return static_cast<int>(*value);
  };
  CaptureRequest request;
  request.model = h5::string_attribute(group.get(), "model").value_or("");
  request.chunk_size = number("chunk_size");
  request.max_new_tokens = number("max_new_tokens");
  request.store = stored_parts_of(h5::string_attribute(group.get(), "store").value_or(""));
  request.device = h5::string_attribute(group.get(), "device").value_or("");
  request.answers =
      h5::strings_attribute(group.get(), "answers").value_or(std::vector<std::string>{});
  const auto prompt = h5::Dataset::open(file, "/capture/prompt", h5::ValueClass::Integer, 1);
  request.prompt = prompt.read_range<std::int32_t>(0, prompt.dims().front());
  return request;
}

}  // namespace kvloupe::trace
