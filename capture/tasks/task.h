// Tasks: prompts generated from a SPEC ("niah:length=4096,depth=0.5,seed=1") whose answer is known.
// A task is one file task_<id>.cpp that defines `TaskInfo <id>_task()`, and one line in
// task_list.cpp.
#pragma once

#include "capture/text/prompt.h"
#include "capture/text/tokenizer.h"
#include "core/selection/spec/method_spec.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

struct TaskInfo;

class TaskSpec {
 public:
  // Throws Error{Usage}: unknown task or parameter, a value that is no number or out of its range.
  static TaskSpec parse(std::string_view text);

  const TaskInfo& info() const { return *info_; }
  // The value given or else the declared default.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  std::int64_t seed(std::int64_t default_seed) const;

 private:
  std::string value(std::string_view name) const;

  const TaskInfo* info_ = nullptr;
  std::map<std::string, std::string, std::less<>> given_;
};

// What a task is made for.
struct TaskRequest {
  const Tokenizer& tokenizer;
  bool raw = false;                    // no chat template
  std::int64_t max_prompt_tokens = 0;  // the model's context less the new tokens
  std::int64_t default_seed = 0;       // for a SPEC without one
};

struct TaskPrompt {
  Prompt prompt;
  std::vector<std::string> answers;  // all of them must be in the model's answer
  bool wants_losses = false;         // the loss of each token is what the task is for
};

struct TaskInfo {
  std::string id;
  std::string title;
  std::string source;   // where the task comes from
  std::string summary;  // one sentence
  std::vector<selection::ParamInfo> params;
  TaskPrompt (*build)(const TaskSpec& spec, const TaskRequest& request) = nullptr;
};

const std::vector<TaskInfo>& task_catalogue();
const TaskInfo* find_task(std::string_view id);

// Parameters that all tasks share: length (tokens of the whole prompt) and seed.
selection::ParamInfo length_param();
selection::ParamInfo seed_param();

// The user's text of a task at some size, before it is tokenised.
struct TaskText {
  std::string text;
  std::vector<TextSpan> spans;  // bytes of `text`
  std::string answer_prefix;    // forced first words of the answer
  std::vector<std::string> answers;
};

// The prompt of the largest size (words, lines; whatever the task counts) that has at most `length`
// tokens, template and answer prefix included: one more would not fit. Throws Error{Input} when
// `length` exceeds the request's limit or not even size 0 fits.
TaskPrompt largest_prompt(const TaskRequest& request, std::int64_t length,
                          const std::function<TaskText(std::int64_t size)>& text_of_size);

// RULER's score of one sample: the share of `answers` that stand in `prediction`, letter case
// ignored.
double string_match_all(std::string_view prediction, const std::vector<std::string>& answers);

}  // namespace kvloupe::capture
