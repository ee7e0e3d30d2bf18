// Perplexity of prose: a passage of a novel as it stands, whose losses are stored by token. It asks
// nothing; the mean loss is what a method costs (Quest measures it on PG19, Figure 6, and AQUA on
// WikiText, Table 1; here Austen's novels, the one kept for calibration left out).
#include "capture/tasks/corpus.h"
#include "capture/tasks/seeded_random.h"
#include "capture/tasks/task.h"
#include "core/base/error.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {
namespace {

// The first `count` words of `text`, which has single spaces.
std::string_view first_words(std::string_view text, std::int64_t count) {
  std::size_t end = 0;
  for (; count > 0 && end != std::string_view::npos; --count) end = text.find(' ', end + 1);
  return count == 0 && end == 0 ? std::string_view() : text.substr(0, end);
}

TaskPrompt build_perplexity(const TaskSpec& spec, const TaskRequest& request) {
  const std::vector<Novel>& novels = austen_corpus().task_novels;
  SeededRandom random(static_cast<std::uint64_t>(spec.seed(request.default_seed)));
  const Novel& novel = novels[random.below(novels.size())];
  // From the first half, so that enough follows.
  const std::size_t sentence = random.below(novel.sentence_begins.size() / 2 + 1);
  const std::string_view rest =
      std::string_view(novel.text).substr(novel.sentence_begins[sentence]);
  TaskRequest raw = request;
  raw.raw = true;
  TaskPrompt task = largest_prompt(raw, spec.integer("length"), [&](std::int64_t size) {
    return TaskText{std::string(first_words(rest, size)), {}, "", {}};
  });
  if (task.prompt.ids.empty())
    throw input_error(
        "the passage holds no token",
        fmt::format("its first word takes more than {} tokens", spec.integer("length")),
        "use a larger length");
  task.wants_losses = true;
  return task;
}

}  // namespace

TaskInfo perplexity_task() {
  selection::ParamInfo length = length_param();
  length.min = 2;
  TaskInfo task;
  task.id = "perplexity";
  task.title = "Perplexity of prose";
  task.source = "Quest, Figure 6 (PG19) and AQUA, Table 1 (WikiText); prose: Jane Austen";
  task.summary = "A passage of a novel, as it stands, whose loss is stored by token.";
  task.params = {length, seed_param()};
  task.build = build_perplexity;
  return task;
}

}  // namespace kvloupe::capture
