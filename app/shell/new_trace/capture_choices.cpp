#include "app/shell/new_trace/capture_choices.h"

#include "capture/engine.h"

#include <algorithm>

namespace kvloupe::shell {
namespace {

bool is_traced(const capture::FoundModel& model, const trace::ModelInfo& traced) {
  const bool same_heads =
      model.num_q_heads == traced.num_q_heads && model.num_kv_heads == traced.num_kv_heads;
  const bool some_heads_alone = !traced.kv_heads.empty();
  return model.refusal.empty() && model.title == traced.name &&
         model.family == traced.architecture && model.num_layers == traced.num_layers &&
         (same_heads || some_heads_alone);
}

}  // namespace

CaptureChoicesQuestion::Answer CaptureChoicesQuestion::work(state::Steps& /*steps*/) const {
  Answer answer;
  answer.folders = capture_engine().model_folders();
  answer.models = capture_engine().find_models(answer.folders);
  answer.tasks = capture_engine().task_catalogue();
  return answer;
}

std::string model_of_trace(const std::vector<capture::FoundModel>& models,
                           const trace::ModelInfo& traced, const std::string& chosen) {
  const auto is_chosen = [&](const capture::FoundModel& model) { return model.name == chosen; };
  if (!chosen.empty() && std::none_of(models.begin(), models.end(), is_chosen)) return chosen;
  const capture::FoundModel* first = nullptr;
  for (const capture::FoundModel& model : models) {
    if (!is_traced(model, traced)) continue;
    if (is_chosen(model)) return chosen;
    if (first == nullptr) first = &model;
  }
  return first == nullptr ? chosen : first->name;
}

}  // namespace kvloupe::shell
