// The list of tasks. A new task adds its line here.
#include "capture/tasks/task.h"

#define KVLOUPE_TASKS(task) task(niah) task(perplexity)

namespace kvloupe::capture {

#define KVLOUPE_DECLARE(id) TaskInfo id##_task();
KVLOUPE_TASKS(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE

const std::vector<TaskInfo>& task_catalogue() {
#define KVLOUPE_CALL(id) id##_task(),
  static const std::vector<TaskInfo> tasks = {KVLOUPE_TASKS(KVLOUPE_CALL)};
#undef KVLOUPE_CALL
  return tasks;
}

const TaskInfo* find_task(std::string_view id) {
  for (const TaskInfo& task : task_catalogue()) {
    if (task.id == id) return &task;
  }
  return nullptr;
}

}  // namespace kvloupe::capture
