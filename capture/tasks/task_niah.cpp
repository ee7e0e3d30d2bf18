// Needle in a haystack, after RULER's niah_single_2 (Hsieh et al. 2024, arXiv 2404.06654; texts of
// github.com/NVIDIA/RULER, Apache-2.0): one sentence with a 7-digit number stands in prose, and the
// number is asked for. The prose is Austen instead of RULER's essays, and draws come from a
// generator of our own: the same distribution, not the same samples.
#include "capture/tasks/corpus.h"
#include "capture/tasks/seeded_random.h"
#include "capture/tasks/task.h"
#include "core/base/rounded_down.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {
namespace {

// Words of the task novels in order, from one sentence on, going round when the last novel ends.
class Haystack {
 public:
  Haystack(const std::vector<Novel>& novels, std::size_t novel, std::size_t sentence,
           std::size_t max_words) {
    std::size_t from = novels[novel].sentence_begins[sentence];
    while (words_.size() < max_words) {
      append(novels[novel], from, sentence, max_words);
      novel = (novel + 1) % novels.size();
      from = sentence = 0;
    }
  }

  // The first `count` words as whole sentences and a rest; the rest counts as one too.
  std::vector<std::string> sentences(std::size_t count) const {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < count; ++i) {
      if (words_[i].begins_sentence || result.empty()) {
        result.emplace_back(words_[i].text);
      } else {
        (result.back() += ' ') += words_[i].text;
      }
    }
    return result;
  }

 private:
  struct Word {
    std::string_view text;
    bool begins_sentence;
  };

  void append(const Novel& novel, std::size_t at, std::size_t sentence, std::size_t max_words) {
    const std::string_view text = novel.text;
    while (at < text.size() && words_.size() < max_words) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      const bool begins =
          sentence < novel.sentence_begins.size() && novel.sentence_begins[sentence] == at;
      if (begins) ++sentence;
      words_.push_back({text.substr(at, end - at), begins});
      at = end + 1;
    }
  }

  std::vector<Word> words_;
};

struct Needle {
  std::string key, value;
};

// Adds a piece to the text and gives it a span.
void append_span(TaskText& task, const std::string& name, const std::string& piece) {
  task.spans.push_back({name, task.text.size(), task.text.size() + piece.size()});
  task.text += piece;
}

void append_needle(TaskText& task, const Needle& needle) {
  const std::string key_lead = "One of the special magic numbers for ", value_lead = " is: ";
  const std::size_t begin = task.text.size();
  task.text += key_lead;
  append_span(task, "needle_key", needle.key);
  task.text += value_lead;
  append_span(task, "needle_value", needle.value);
  task.text += '.';
  task.spans.push_back({"needle", begin, task.text.size()});
}

// One needle, one query: RULER then words template and prefix in the singular, the needle stays
// plural.
TaskText niah_text(const std::vector<std::string>& sentences, double depth, const Needle& needle) {
  TaskText task;
  task.text =
      "A special magic number is hidden within the following text. Make sure to memorize it. "
      "I will quiz you about the number afterwards.\n";
  const auto count = static_cast<double>(sentences.size());
  const auto before = static_cast<std::size_t>(rounded_down(count * depth));
  const auto separate = [&task] {
    if (task.text.back() != '\n') task.text += ' ';
  };
  for (std::size_t i = 0; i <= sentences.size(); ++i) {
    if (i == before) {
      separate();
      append_needle(task, needle);
    }
    if (i < sentences.size()) {
      separate();
      task.text += sentences[i];
    }
  }
  task.text += '\n';
  append_span(task, "question",
              fmt::format("What is the special magic number for {} mentioned in the provided text?",
                          needle.key));
  task.answer_prefix =
      fmt::format(" The special magic number for {} mentioned in the provided text is", needle.key);
  task.answers = {needle.value};
  return task;
}

// Drawn in a fixed order, so that a seed gives the same needle and prose at every length and depth.
TaskPrompt build_niah(const TaskSpec& spec, const TaskRequest& request) {
  const std::vector<Novel>& novels = austen_corpus().task_novels;
  const WordLists& words = word_lists();
  SeededRandom random(static_cast<std::uint64_t>(spec.seed(request.default_seed)));
  const std::size_t novel = random.below(novels.size());
  const std::size_t sentence = random.below(novels[novel].sentence_begins.size());
  Needle needle;
  needle.key = words.adjectives[random.below(words.adjectives.size())] + '-' +
               words.nouns[random.below(words.nouns.size())];
  needle.value = std::to_string(1000000 + random.below(9000000));

  const std::int64_t length = spec.integer("length");
  const double depth = spec.real("depth");
  const std::int64_t max_words = std::min(length, request.max_prompt_tokens);
  const Haystack haystack(novels, novel, sentence,
                          static_cast<std::size_t>(std::max<std::int64_t>(0, max_words)));
  return largest_prompt(request, length, [&](std::int64_t size) {
    return niah_text(haystack.sentences(static_cast<std::size_t>(size)), depth, needle);
  });
}

}  // namespace

TaskInfo niah_task() {
  selection::ParamInfo depth;
  depth.name = "depth";
  depth.type = selection::ParamType::Float;
  depth.default_text = "0.5";
  depth.max = 1;
  depth.meaning = "where the needle stands: before sentence floor(n*depth) of n";

  TaskInfo task;
  task.id = "niah";
  task.title = "Needle in a haystack";
  task.source = "Hsieh et al. 2024, RULER, arXiv 2404.06654 (niah_single_2; prose: Jane Austen)";
  task.summary =
      "One sentence of a long text names a number for a key; the key's number is asked for.";
  task.params = {length_param(), depth, seed_param()};
  task.build = build_niah;
  return task;
}

}  // namespace kvloupe::capture
