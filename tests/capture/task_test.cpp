// Task SPECs and the needle task, with the tokenizer of the bundled model.
#include "capture/tasks/task.h"

#include "capture/model/model.h"
#include "capture/tasks/corpus.h"
#include "capture/tasks/seeded_random.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/capture/tiny_vocabulary.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

namespace kvloupe::capture {
namespace {

const Tokenizer& tokenizer() {
  static const std::shared_ptr<const LoadedModel> model = load_model("smollm2");
  return model->tokenizer;
}

TaskPrompt make(const std::string& spec_text, bool raw = false, std::int64_t default_seed = 0) {
  const TaskSpec spec = TaskSpec::parse(spec_text);
  return spec.info().build(spec, {tokenizer(), raw, 8192, default_seed});
}

std::string text_of(const Prompt& prompt, std::int32_t begin, std::int32_t end) {
  return tokenizer().decode(
      std::span(prompt.ids)
          .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

std::string text_of(const Prompt& prompt) {
  return text_of(prompt, 0, static_cast<std::int32_t>(prompt.ids.size()));
}

trace::TokenSpan span_of(const Prompt& prompt, const std::string& name) {
  for (const trace::TokenSpan& span : prompt.spans) {
    if (span.name == name) return span;
  }
  ADD_FAILURE() << "no span " << name;
  return {};
}

std::string span_text(const Prompt& prompt, const std::string& name) {
  const trace::TokenSpan span = span_of(prompt, name);
  return text_of(prompt, span.begin, span.end);
}

// The haystack: what stands between the first line of the user's text and the question's line.
std::string haystack_of(const Prompt& prompt) {
  const std::string text = text_of(prompt);
  const std::size_t begin = text.find("afterwards.\n") + std::string("afterwards.\n").size();
  return text.substr(begin, text.find("\nWhat is the special magic number") - begin);
}

ErrorKind kind_of_failure(const std::string& spec) {
  try {
    make(spec);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << spec << " was accepted";
  return ErrorKind::Internal;
}

// First draws of SplitMix64 with state 1234567, as listed with its reference implementation.
TEST(SeededRandom, IsSplitMix64) {
  SeededRandom random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(7), 7u);
}

TEST(Task, WrongSpecsAreUsageErrors) {
  for (const char* spec : {"haystack:length=128", "niah:size=128", "niah:length=many",
                           "niah:length", "niah:length=0", "niah:depth=1.5", "niah:depth=-0.1",
                           "niah:depth=nan", "niah:seed=-1", "niah:length=512,length=600", "niah:",
                           "niah:,", "", "niah:length=512,", "niah:length=99999999999999999999"}) {
    EXPECT_EQ(kind_of_failure(spec), ErrorKind::Usage) << spec;
  }
}

TEST(Task, LengthsThatCannotBeMadeAreInputErrors) {
  EXPECT_EQ(kind_of_failure("niah:length=8193"), ErrorKind::Input);
  EXPECT_EQ(kind_of_failure("niah:length=40"), ErrorKind::Input);
}

TEST(Task, SpansDecodeToTheirText) {
  const TaskPrompt task = make("niah:length=1024,depth=0.4,seed=7");
  ASSERT_EQ(task.answers.size(), 1u);
  ASSERT_EQ(task.answers[0].size(), 7u);
  const std::string key = span_text(task.prompt, "needle_key").substr(1);
  EXPECT_EQ(span_text(task.prompt, "needle"),
            " One of the special magic numbers for " + key + " is: " + task.answers[0] + ".");
  EXPECT_EQ(span_text(task.prompt, "needle_value"), task.answers[0]);
  EXPECT_EQ(span_text(task.prompt, "question"),
            "What is the special magic number for " + key + " mentioned in the provided text?");
  EXPECT_EQ(span_text(task.prompt, "prefix"),
            " The special magic number for " + key + " mentioned in the provided text is");
  EXPECT_THAT(key, HasSubstr("-"));
}

TEST(Task, ChatTemplateSurroundsTheText) {
  const TaskPrompt task = make("niah:length=600,seed=3");
  const std::string text = text_of(task.prompt);
  EXPECT_THAT(text, StartsWith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
                               "trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
                               "A special magic number is hidden within the following text. "
                               "Make sure to memorize it. I will quiz you about the number "
                               "afterwards.\n"));
  EXPECT_THAT(text, HasSubstr("provided text?<|im_end|>\n<|im_start|>assistant\n The special"));
  EXPECT_EQ(span_of(task.prompt, "prefix").end, static_cast<std::int32_t>(task.prompt.ids.size()));
  EXPECT_THAT(span_text(task.prompt, "role:user"), StartsWith("<|im_start|>user\nA special"));
}

TEST(Task, RawLeavesTheTemplateAway) {
  const TaskPrompt task = make("niah:length=600,seed=3", /*raw=*/true);
  EXPECT_THAT(text_of(task.prompt), StartsWith("A special magic number"));
  EXPECT_THAT(text_of(task.prompt), HasSubstr("provided text? The special magic number for"));
  EXPECT_THAT(span_text(task.prompt, "prefix"), StartsWith(" The special magic number for"));
  EXPECT_LE(task.prompt.ids.size(), 600u);
}

// One more word of the novel would not fit: the next one is found in the novels themselves.
TEST(Task, PromptIsTheLargestThatFits) {
  for (const std::int64_t length : {200, 511, 1000, 2048}) {
    const std::string spec = "niah:depth=0,seed=11,length=";
    const TaskPrompt task = make(spec + std::to_string(length));
    ASSERT_LE(static_cast<std::int64_t>(task.prompt.ids.size()), length);
    const std::string haystack = haystack_of(task.prompt);
    const std::string prose = haystack.substr(haystack.find(".", haystack.find(" is: ")) + 2);
    std::string next_word;
    for (const Novel& novel : austen_corpus().task_novels) {
      const std::size_t at = novel.text.find(prose);
      if (at == std::string::npos) continue;
      const std::size_t begin = at + prose.size();
      next_word = novel.text.substr(begin, novel.text.find(' ', begin + 1) - begin);
    }
    ASSERT_GT(next_word.size(), 1u) << "the haystack is not prose of the novels";
    std::string longer = text_of(task.prompt);
    longer.insert(longer.find("\nWhat is the special"), next_word);
    const auto tokens = tokenizer().encode(longer, SpecialTokens::Parse).size();
    EXPECT_GT(static_cast<std::int64_t>(tokens), length);
  }
}

TEST(Task, DepthPlacesTheNeedleBeforeItsSentence) {
  for (const double depth : {0.0, 0.1, 0.25, 0.5, 0.9, 1.0}) {
    const TaskPrompt task = make("niah:length=1500,seed=5,depth=" + std::to_string(depth));
    const std::string haystack = haystack_of(task.prompt);
    const std::size_t needle = haystack.find("One of the special magic numbers for ");
    const std::size_t after = haystack.find('.', haystack.find(" is: ", needle)) + 1;
    const std::string before = needle == 0 ? "" : haystack.substr(0, needle - 1);
    const std::string behind = after >= haystack.size() ? "" : haystack.substr(after + 1);
    const auto sentences_before = static_cast<double>(find_sentences(before).size());
    const double n = sentences_before + static_cast<double>(find_sentences(behind).size());
    EXPECT_EQ(sentences_before, std::floor(n * depth + 1e-9)) << depth;
    EXPECT_GT(n, 20);
  }
}

TEST(Task, SeedDecidesAllAndDefaultsToTheCommands) {
  const TaskPrompt task = make("niah:length=700,seed=9");
  EXPECT_EQ(task.prompt.ids, make("niah:length=700,seed=9").prompt.ids);
  EXPECT_EQ(task.prompt.ids, make("niah:length=700", false, 9).prompt.ids);
  EXPECT_EQ(task.prompt.ids, make("niah:seed=9,length=700", false, 4).prompt.ids);
  EXPECT_NE(task.prompt.ids, make("niah:length=700,seed=10").prompt.ids);
  // The same needle at every length and depth.
  EXPECT_EQ(task.answers, make("niah:length=1400,seed=9,depth=0.9").answers);
}

// Whatever a template that prints the date makes of it.
TEST(Task, ThePromptIsTheSameOnEveryDay) {
  TokenizerData data = tiny_vocabulary();
  data.chat_template = std::string("{{ strftime_now('%d %b %Y') }}") + kChatMl;
  const Tokenizer dated(std::move(data));
  const TaskSpec spec = TaskSpec::parse("niah:length=1500,seed=2");
  const TaskPrompt task = spec.info().build(spec, {dated, false, 8192, 0});
  EXPECT_THAT(dated.decode(task.prompt.ids), StartsWith("26 Jul 2024<|im_start|>system"));
}

TEST(Task, HaystacksComeFromTheTaskNovelsAlone) {
  for (int seed = 0; seed < 24; ++seed) {
    const TaskPrompt task = make("niah:length=400,depth=1,seed=" + std::to_string(seed));
    const std::string haystack = haystack_of(task.prompt);
    const std::string prose = haystack.substr(0, haystack.find(" One of the special"));
    EXPECT_EQ(austen_corpus().calibration_novel.text.find(prose), std::string::npos);
    bool found = false;
    for (const Novel& novel : austen_corpus().task_novels) {
      found = found || novel.text.find(prose) != std::string::npos;
    }
    EXPECT_TRUE(found) << seed;
  }
}

TEST(Task, ScoreIgnoresLetterCase) {
  EXPECT_EQ(string_match_all("It is 1234567.", {"1234567"}), 1);
  EXPECT_EQ(string_match_all("It is 123456.", {"1234567"}), 0);
  EXPECT_EQ(string_match_all("RED and blue", {"red", "Blue", "green", "x"}), 0.5);
}

}  // namespace
}  // namespace kvloupe::capture
