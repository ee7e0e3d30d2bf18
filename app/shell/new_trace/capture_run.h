// Captures that the window runs, and the questions what one would take: each is this program's own
// command `capture` in a process of its own, told of by its lines of JSON.
#pragma once

#include "app/shell/new_trace/capture_request.h"
#include "core/base/run_self.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

// As `capture` counts it.
struct CaptureCost {
  struct Span {
    std::string name;
    std::int64_t begin = 0, end = 0;  // tokens
  };
  std::int64_t tokens = 0;
  int chunks = 0, layers = 0, model_layers = 0;
  std::uint64_t bytes = 0, memory = 0, weights = 0, kv_cache = 0, working_set = 0;
  double seconds = 0;
  std::vector<Span> spans;
};

// When a request is asked about. The process loads the model for that.
enum class AskCost { No, WhenStill, AtOnce };

// Asks what a capture would take.
class CaptureEstimator {
 public:
  std::string program = kOwnProgram;

  // Once a frame. `wanted`: the request as it is now, or nothing while it cannot be started.
  void follow(const std::optional<CaptureRequest>& wanted, double now, AskCost when);
  void stop();  // what is asked is no longer wanted

  bool asking() const { return asking_ != nullptr; }
  // Of the request that was last wanted, where they are known: one of them at most.
  const std::optional<CaptureCost>& cost() const { return cost_; }
  const std::string& problem() const { return problem_; }  // "error: " is cut off

 private:
  void begin(const CaptureRequest& request);
  void read();

  std::optional<CaptureRequest> wanted_;
  double since_ = 0;
  bool answered_ = false;
  std::unique_ptr<OwnCommand> asking_;
  std::vector<std::unique_ptr<OwnCommand>> dying_;
  std::optional<CaptureCost> cost_;
  std::string problem_;
};

enum class CaptureStage { Idle, Loading, Running, Done, Stopped, Failed };

// One capture under way.
class CaptureRun {
 public:
  std::string program = kOwnProgram;

  void start(const CaptureRequest& request);
  void poll();    // once a frame
  void cancel();  // after the chunk in flight; a second time: at once

  CaptureStage stage() const { return stage_; }
  bool running() const {
    return stage_ == CaptureStage::Loading || stage_ == CaptureStage::Running;
  }
  bool cancelling() const { return cancels_ > 0 && running(); }
  const CaptureRequest& request() const { return request_; }
  const std::optional<CaptureCost>& cost() const { return cost_; }
  // Progress, as far as it was told.
  int chunks() const { return chunks_; }
  int of_chunks() const { return of_chunks_; }
  const std::string& pace() const { return pace_; }                  // "213 tokens/s"
  const std::string& prefill_pace() const { return prefill_pace_; }  // the last one of the prefill
  // What came of it, as a sentence for people.
  const std::string& message() const { return message_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // A file is there to look at: all of the trace, or the chunks done.
  bool left_trace() const { return left_trace_; }

 private:
  void take(const std::string& line);
  void end();

  std::unique_ptr<OwnCommand> command_;
  CaptureRequest request_;
  CaptureStage stage_ = CaptureStage::Idle;
  std::optional<CaptureCost> cost_;
  int cancels_ = 0;
  int chunks_ = 0, of_chunks_ = 0;
  std::string pace_, prefill_pace_, message_;
  std::vector<std::string> warnings_;
  bool left_trace_ = false;
};

}  // namespace kvloupe::shell
