// "New capture": describes a capture, says what it will take, runs it, and shows the trace as it grows.
#pragma once

#include "app/shell/new_trace/capture_form.h"
#include "app/shell/new_trace/capture_run.h"
#include "app/shell/new_trace/growing_trace.h"
#include "app/shell/windows/messages.h"

#include <functional>
#include <string>

namespace kvloupe::shell {

class CaptureWindow {
 public:
  CaptureWindow(state::Workspace& workspace, FileDialog& files, Messages& messages)
      : workspace_(workspace), messages_(messages), form_(workspace, files), growing_(workspace) {}

  // `folder`: where traces are written, unless another one is named.
  void open(const std::string& folder);
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  // A dropped file or folder: a model, or while the window is open a prompt. False: it is neither.
  bool take(const std::string& path, const std::string& folder);

  void tick();  // once a frame
  // Called when a capture has left a trace, whether it is shown or not.
  std::function<void(const std::string& path)> on_trace;
  void draw(const widgets::Palette& palette);
  // While a capture runs: how far it is, in the status bar.
  void status_ui(const widgets::Palette& palette);
  bool running() const { return run_.running(); }
  // The path is that of the trace under way, which has not its own name yet.
  bool is_part(const std::string& path) const { return growing_.is_part(path); }

  CaptureForm& form() { return form_; }
  CaptureRun& run() { return run_; }
  CaptureEstimator& estimator() { return estimator_; }
  // Why it cannot be started now; empty: it can.
  std::string obstacle() const;
  void start();

 private:
  void costs_ui(const widgets::Palette& palette);
  void progress_ui(const widgets::Palette& palette, float width);
  void buttons_ui(const widgets::Palette& palette);
  AskCost when_to_ask();
  bool is_large();

  state::Workspace& workspace_;
  Messages& messages_;
  CaptureForm form_;
  CaptureRun run_;
  CaptureEstimator estimator_;
  GrowingTrace growing_;
  bool open_ = false, to_front_ = false, ask_now_ = false;
  bool makes_room_ = false;  // closes when the trace that was started is on screen
  std::string outcome_;      // of the last capture, where it failed
};

}  // namespace kvloupe::shell
