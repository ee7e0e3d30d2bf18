// Real small traces for tests of the window and of its state: a made-up model of a few heads with a
// sink, recent keys and a planted needle that the last queries look for, so that a method which
// reads the queries keeps it and one that goes by position loses it. Recorded runs are what
// `select --save` would have added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::test {

// A run that was recorded by a method which this version does not know.
inline constexpr const char* kUnknownMethod = "future_method:depth=3";

struct GuiTraceOptions {
  int num_tokens = 2048;  // of the prompt, 64 at least
  int chunk_size = 128;
  int decoded = 0;  // decode steps of one token after the prompt
  int num_layers = 4;
  std::vector<int> layers = {0, 1, 2, 3};  // captured
  int num_q_heads = 9, num_kv_heads = 3, head_dim = 16;
  std::int32_t needle_begin = -1;  // of 16 tokens; -1: at three eighths of the prompt
  std::int32_t nan_key_at = -1;    // in every layer and KV head: what reads the keys fails
  // Recorded runs, in this order; kUnknownMethod may be one.
  std::vector<std::string> runs = {"quoka:budget_tokens=256", "streaming_llm:budget_tokens=256",
                                   "xattention:lowering=union,block_size=32"};
  // Where there are any: the model, its architecture, spans, tokens and as many more runs of unknown
  // methods are called so, in turn.
  std::vector<std::string> hostile_names = {};
  std::uint32_t seed = 1;  // traces of two seeds hold other numbers
  // Traces of one text: the same words at the same places, but for `inserted` ones that no other trace
  // has, which stand at `inserted_at` and push what follows back. 0: a text of its own, of one token id.
  std::uint32_t text_seed = 0;
  std::int32_t inserted_at = 0, inserted = 0;
};

// Writes the trace and its runs beside it; files of these names are replaced. Returns the absolute
// path.
std::string write_gui_trace(const std::filesystem::path& file, const GuiTraceOptions& options = {});

}  // namespace kvloupe::test
