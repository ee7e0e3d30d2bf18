// The prompt of a capture: typed, a file, a chat or a task, and the spans that are named in it.
#pragma once

#include "app/shell/new_trace/capture_choices.h"
#include "app/shell/new_trace/capture_request.h"
#include "app/shell/new_trace/capture_run.h"
#include "app/shell/windows/file_dialog.h"
#include "app/widgets/palette.h"

#include <map>
#include <optional>
#include <string>

namespace kvloupe::shell {

class CapturePrompt {
 public:
  explicit CapturePrompt(FileDialog& files) : files_(files) {}

  // Fills the room that is left.
  void draw(const widgets::Palette& palette, CaptureRequest& request,
            const CaptureChoicesQuestion::Answer* choices, const std::optional<CaptureCost>& cost,
            const std::string& folder);

 private:
  void kinds_ui(CaptureRequest& request);
  void text_ui(CaptureRequest& request, float height);
  void file_ui(const widgets::Palette& palette, CaptureRequest& request, const std::string& folder);
  void chat_ui(const widgets::Palette& palette, CaptureRequest& request, float height);
  void task_ui(const widgets::Palette& palette, CaptureRequest& request,
               const CaptureChoicesQuestion::Answer* choices);
  void spans_ui(const widgets::Palette& palette, CaptureRequest& request,
                const std::optional<CaptureCost>& cost);
  void new_span_ui(CaptureRequest& request);
  bool marked_text_ui(const char* id, std::string& text, float height);

  FileDialog& files_;
  std::string span_name_, span_text_;  // of the span that is being named
  std::string task_id_;
  std::map<std::string, std::string> task_values_;  // of the task's parameters
  std::string problem_;                             // of a file that was to be read
};

}  // namespace kvloupe::shell
