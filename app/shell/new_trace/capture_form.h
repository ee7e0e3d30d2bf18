// The controls with which a capture is described: they edit one CaptureRequest.
#pragma once

#include "app/shell/methods/method_finder.h"
#include "app/shell/new_trace/capture_choices.h"
#include "app/shell/new_trace/capture_prompt.h"
#include "app/shell/new_trace/capture_request.h"
#include "app/shell/new_trace/capture_run.h"
#include "app/shell/windows/file_dialog.h"
#include "app/state/method_draft.h"
#include "app/state/workspace.h"
#include "app/widgets/palette.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

class CaptureForm {
 public:
  CaptureForm(state::Workspace& workspace, FileDialog& files)
      : workspace_(workspace), files_(files), prompt_(files) {}

  // As it is to be captured.
  CaptureRequest& request() { return request_; }
  const CaptureRequest& request() const { return request_; }
  // For a new capture: a file that is not there yet. What was described stays.
  void begin(const std::string& folder);
  void add_method(const std::string& spec);
  // A closed loop of this method, of another one where it cannot stand, and its drift over an answer. The
  // prompt of the trace on screen, with its template, is taken where none is typed, and its model where
  // another one of this machine's is chosen (model_of_trace).
  void choose_drift(const std::string& spec, const std::string& prompt);

  // `cost`: where known. In the window's two columns.
  void model_and_prompt_ui(const widgets::Palette& palette, const std::optional<CaptureCost>& cost);
  void settings_ui(const widgets::Palette& palette, const std::optional<CaptureCost>& cost);
  // Bytes of the model's weights, where the disk says so.
  std::optional<std::uint64_t> model_bytes();

 private:
  void model_ui(const widgets::Palette& palette);
  void found_models_ui(const widgets::Palette& palette);
  void methods_ui(const widgets::Palette& palette, std::int64_t tokens);
  void closed_loop_ui(const widgets::Palette& palette, std::int64_t tokens);
  void device_ui(const widgets::Palette& palette);
  void output_ui();
  // The button of a method and its editor.
  void method_ui(const widgets::Palette& palette, state::MethodDraft& draft, std::int64_t tokens);
  void take_drafts();
  void take_traced_model();
  std::int64_t expected_tokens(const std::optional<CaptureCost>& cost) const;

  state::Workspace& workspace_;
  FileDialog& files_;
  CapturePrompt prompt_;
  CaptureRequest request_;
  std::string folder_;
  std::vector<state::MethodDraft> methods_;
  std::optional<state::MethodDraft> closed_loop_;
  MethodFinder finder_;
  std::shared_ptr<const CaptureChoicesQuestion::Answer> found_;  // null: not known yet
  std::string traced_prompt_;                                    // that was taken of a trace
  std::optional<trace::ModelInfo> traced_model_;  // its model, until it is looked for
  std::string measured_;                          // the model of `bytes_`
  std::optional<std::uint64_t> bytes_;
};

}  // namespace kvloupe::shell
