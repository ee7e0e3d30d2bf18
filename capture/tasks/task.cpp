// Parsing of task SPECs and what tasks share: sizing a prompt to a token count, and the score.
#include "capture/tasks/task.h"

#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr const char* kSeeHelp = "see kvloupe capture --help for the tasks and their parameters";

std::string list_of_tasks() {
  std::string list;
  for (const TaskInfo& task : task_catalogue()) list += (list.empty() ? "" : ", ") + task.id;
  return list;
}

const selection::ParamInfo& param_of(const TaskInfo& task, const std::string& name) {
  std::string known;
  for (const selection::ParamInfo& param : task.params) {
    if (param.name == name) return param;
    known += (known.empty() ? "" : ", ") + param.name;
  }
  throw usage_error(fmt::format("task {} has no parameter '{}'", task.id, name),
                    fmt::format("it has {}", known), kSeeHelp);
}

void check_value(const TaskInfo& task, const selection::ParamInfo& param, const std::string& text) {
  const bool whole = param.type == selection::ParamType::Int;
  std::optional<double> number;
  if (whole) {
    if (const auto value = parse_int(text)) number = static_cast<double>(*value);
  } else {
    number = parse_double(text);
  }
  // Written so that NaN fails as well.
  if (number && *number >= param.min && *number <= param.max) return;
  throw usage_error(
      fmt::format("parameter {} of task {} cannot be '{}'", param.name, task.id, text),
      fmt::format("it must be a {} from {} to {}", whole ? "whole number" : "number",
                  format_shortest(param.min), format_shortest(param.max)),
      kSeeHelp);
}

// Calls `use(name, value)` for each "name=value" of a comma-separated list.
template <typename Use>
void for_each_assignment(std::string_view list, const Use& use) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view part = list.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw usage_error(fmt::format("'{}' in a task SPEC is not name=value", part),
                        "a SPEC has the form id:name=value,name=value", kSeeHelp);
    }
    use(std::string(part.substr(0, equals)), std::string(part.substr(equals + 1)));
    begin = end + 1;
  }
}

Prompt prompt_of(const TaskRequest& request, const TaskText& task) {
  if (request.raw) {
    std::vector<TextSpan> spans = task.spans;
    spans.push_back({"prefix", task.text.size(), task.text.size() + task.answer_prefix.size()});
    return raw_prompt(request.tokenizer, task.text + task.answer_prefix, spans);
  }
  return chat_prompt(request.tokenizer, {{"user", task.text}}, task.spans, task.answer_prefix,
                     TemplateDay::Fixed);
}

}  // namespace

TaskSpec TaskSpec::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string id(text.substr(0, colon));
  TaskSpec spec;
  spec.info_ = find_task(id);
  if (!spec.info_) {
    throw usage_error(fmt::format("there is no task '{}'", id),
                      fmt::format("the tasks are {}", list_of_tasks()), kSeeHelp);
  }
  if (colon == text.size()) return spec;
  for_each_assignment(text.substr(colon + 1), [&](std::string name, std::string value) {
    check_value(*spec.info_, param_of(*spec.info_, name), value);
    if (!spec.given_.emplace(name, std::move(value)).second) {
      throw usage_error(fmt::format("parameter {} of task {} is given twice", name, id),
                        "a parameter has one value", "name it once");
    }
  });
  return spec;
}

std::string TaskSpec::value(std::string_view name) const {
  if (const auto found = given_.find(name); found != given_.end()) return found->second;
  return param_of(*info_, std::string(name)).default_text;
}

std::int64_t TaskSpec::integer(std::string_view name) const {
  return parse_int(value(name)).value();
}

double TaskSpec::real(std::string_view name) const { return parse_double(value(name)).value(); }

std::int64_t TaskSpec::seed(std::int64_t default_seed) const {
  return given_.contains("seed") ? integer("seed") : default_seed;
}

selection::ParamInfo length_param() {
  selection::ParamInfo param;
  param.name = "length";
  param.default_text = "4096";
  param.min = 1;
  param.max = 16777216;
  param.meaning = "tokens of the whole prompt at most, template and answer prefix included";
  return param;
}

selection::ParamInfo seed_param() {
  selection::ParamInfo param;
  param.name = "seed";
  param.default_text = "--seed";
  param.max = 9007199254740992.0;  // 2^53
  param.meaning = "what is drawn: haystack, key and value";
  return param;
}

TaskPrompt largest_prompt(const TaskRequest& request, std::int64_t length,
                          const std::function<TaskText(std::int64_t size)>& text_of_size) {
  check_prompt_fits("a task prompt", length, request.max_prompt_tokens,
                    "use a smaller length or fewer new tokens");
  const auto tokens_of = [](const TaskPrompt& task) {
    return static_cast<std::int64_t>(task.prompt.ids.size());
  };
  const auto make = [&](std::int64_t size) {
    TaskText text = text_of_size(size);
    return TaskPrompt{prompt_of(request, text), std::move(text.answers)};
  };
  TaskPrompt best = make(0);
  if (tokens_of(best) > length) {
    throw input_error(fmt::format("a length of {} tokens is too short for this task", length),
                      fmt::format("its text takes {} tokens with no haystack", tokens_of(best)),
                      "use a larger length");
  }
  // Every unit takes at least one token, so `length` units do not fit beside the task's own text.
  std::int64_t fits = 0, too_many = length;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    TaskPrompt candidate = make(middle);
    if (tokens_of(candidate) <= length) {
      fits = middle;
      best = std::move(candidate);
    } else {
      too_many = middle;
    }
  }
  return best;
}

double string_match_all(std::string_view prediction, const std::vector<std::string>& answers) {
  if (answers.empty()) return 0;
  const std::string text = lower_case(std::string(prediction));
  const auto found = std::count_if(answers.begin(), answers.end(), [&](const std::string& answer) {
    return text.find(lower_case(answer)) != std::string::npos;
  });
  return static_cast<double>(found) / static_cast<double>(answers.size());
}

}  // namespace kvloupe::capture
