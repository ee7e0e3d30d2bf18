// `calibrate seer`: trains SeerAttention's gate on traces, so that its scores follow the dense
// model's own attention (self-distillation), and measures it on text that it was not trained on.
#pragma once

#include "core/base/cancel.h"
#include "core/base/memory_account.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::calibration {

struct GateTrainingOptions {
  // Of one model. The last of several is held out; of one its last quarter of query blocks.
  std::vector<std::filesystem::path> traces;
  std::filesystem::path output;
  bool force = false;  // overwrite the output
  int block_size = 64;
  int hidden = 128;
  int steps = 200;
  double learning_rate = 1e-3;
  double weight_decay = 0;
  // What a block pair's attention is: its largest entry (SeerAttention), or the sum.
  bool target_sum = false;
  std::uint64_t seed = 0;
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
};

struct GateLossPoint {
  int step = 0;
  double train = 0, held_out = 0;  // mean KL over layers, heads and query blocks, nats
};

// A method with lowering=budget on the held-out text, over the cells with more past keys than that.
struct GateRecall {
  std::string method;  // "seer_attention", ...
  std::int64_t budget_tokens = 0;
  std::int64_t cells = 0;  // (layer, KV head, chunk)
  double density = 0;      // kept past / past
  double mass_recall = 0;
};

struct GateTrainingReport {
  std::string held_out;                                // in words
  std::int64_t train_blocks = 0, held_out_blocks = 0;  // query blocks of a head, of all texts
  int num_layers = 0;
  double training_seconds = 0;
  std::vector<GateLossPoint> losses;
  std::vector<GateRecall> recalls;
};

// Writes the gate, then measures it beside flash_prefill and xattention (in blocks of the gate's
// size) and random keys. Throws Error.
GateTrainingReport train_gate(const GateTrainingOptions& options, const WorkContext& context);

}  // namespace kvloupe::calibration
