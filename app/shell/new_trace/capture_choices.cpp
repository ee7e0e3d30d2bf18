#include "app/shell/new_trace/capture_choices.h"

#include "capture/engine.h"

namespace kvloupe::shell {

CaptureChoicesQuestion::Answer CaptureChoicesQuestion::work(state::Steps& /*steps*/) const {
  Answer answer;
  answer.folders = capture_engine().model_folders();
  answer.models = capture_engine().find_models(answer.folders);
  answer.tasks = capture_engine().task_catalogue();
  return answer;
}

}  // namespace kvloupe::shell
