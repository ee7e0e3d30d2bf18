// Captures of the tiny model for tests, and what they left in the file.
#pragma once

#include "capture/run/capture.h"
#include "core/trace/trace_reader.h"
#include "tests/capture/tiny_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace kvloupe::capture {

// 230 bytes: with chunks of 64 the last one is ragged.
inline std::string some_text() {
  std::string text;
  for (int i = 0; i < 230; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  return text;
}

inline CaptureOptions tiny_options(const std::string& name) {
  CaptureOptions options;
  options.prompt_text = some_text();
  options.raw = true;
  options.chunk_size = 64;
  options.max_new_tokens = 6;
  options.output = name;
  options.force = true;
  return options;
}

inline CaptureReport capture_tiny(const CaptureOptions& options, const WorkContext& context = {},
                                  std::shared_ptr<const LoadedModel> model = make_tiny_model()) {
  // The model is too small to share among threads.
  at::set_num_threads(1);
  return capture_with(std::move(model), options, {}, context);
}

// Writes all.h5, and one.h5 with layer 2 alone.
inline void capture_all_and_one_layer(CaptureOptions options) {
  options.output = "all.h5";
  capture_tiny(options);
  options.output = "one.h5";
  options.layers = {2};
  capture_tiny(options);
  EXPECT_EQ(trace::TraceReader("one.h5").info().layers, std::vector<int>{2});
}

// Leaves options.output.part with `tokens` tokens done, or a chunk more.
inline void cut_short(const CaptureOptions& options, std::int64_t tokens,
                      std::shared_ptr<const LoadedModel> model = make_tiny_model()) {
  const std::string part = options.output.string() + ".part";
  struct Cut : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  WorkContext context;
  context.progress = [&](std::int64_t done, std::int64_t, const std::string&) {
    if (done < tokens) return;
    // The writer's lane is behind the model.
    while (trace::TraceReader(part).info().num_tokens < tokens) std::this_thread::yield();
    throw Cut("cut short");
  };
  EXPECT_THROW(capture_tiny(options, context, std::move(model)), Cut);
  EXPECT_TRUE(std::filesystem::exists(part));
}

inline at::Tensor read_heads(const trace::TraceReader& reader, trace::Stored what, int layer) {
  const trace::TraceInfo& info = reader.info();
  const int heads = what == trace::Stored::Q ? info.model.num_q_heads : info.model.num_kv_heads;
  at::Tensor result = at::empty({heads, info.num_tokens, info.model.head_dim}, at::kFloat);
  for (int head = 0; head < heads; ++head) {
    reader.read_rows(what, layer, head, 0, info.num_tokens, result[head].data_ptr<float>());
  }
  return result;
}

struct StoredLayer {
  at::Tensor q, k, v;
};

inline StoredLayer read_layer(const trace::TraceReader& reader, int layer) {
  return {read_heads(reader, trace::Stored::Q, layer), read_heads(reader, trace::Stored::K, layer),
          read_heads(reader, trace::Stored::V, layer)};
}

}  // namespace kvloupe::capture
