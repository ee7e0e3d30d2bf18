// The group /capture of a trace.
#include "core/trace/capture_request.h"

#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/trace_layout.h"
#include "core/trace/load/trace_load.h"

namespace kvloupe::trace {

void write_request(hid_t file, const CaptureRequest& request) {
  const h5::Handle group = h5::create_group(file, "/capture");
  write_attributes(group.get(), request);
  const h5::Handle prompt =
      create_vector(group.get(), "prompt", H5T_STD_I32LE, request.prompt.size(), "token", "1",
                    "token ids of the whole prompt");
  h5::write_box(prompt.get(), H5T_NATIVE_INT32, {0}, {request.prompt.size()},
                request.prompt.data());
}

std::optional<CaptureRequest> load_request(hid_t file) {
  if (!h5::has_object(file, "/capture")) return std::nullopt;
  const h5::Handle group = h5::open_group(file, "/capture");
  CaptureRequest request;
  std::vector<std::string> none;  // of these attributes none is passed over
  read_attributes(group.get(), " of /capture", request, none);
  const auto prompt = h5::Dataset::open(file, "/capture/prompt", h5::ValueClass::Integer, 1);
  request.prompt = prompt.read_range<std::int32_t>(0, prompt.dims().front());
  return request;
}

}  // namespace kvloupe::trace
