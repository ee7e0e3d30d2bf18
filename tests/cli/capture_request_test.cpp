// What the window asks `capture` for goes through the command line of the built program and comes out as
// the same request; the copied line does, too. And what the program tells of a capture under way.
#include "app/shell/new_trace/capture_request.h"
#include "app/shell/new_trace/capture_choices.h"
#include "app/shell/new_trace/capture_run.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/cli/run_program.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe {
namespace {

using nlohmann::json;
using shell::CaptureRequest;
using shell::PromptKind;

const std::string kModel = std::string(KVLOUPE_TEST_DATA_DIR) + "/models/llama/model.gguf";

class CaptureRequestTest : public ::testing::Test {
 protected:
  // One that the program takes.
  CaptureRequest plain() const {
    CaptureRequest request;
    request.model = kModel;
    request.text = "One of the special magic numbers is 3968761.";
    request.output = (folder_ / "a trace.h5").string();
    return request;
  }

  const TemporaryFolder folder_;
};

json estimate_of(const CaptureRequest& request) {
  std::vector<std::string> words = shell::capture_arguments(request);
  words.insert(words.end(), {"--estimate", "--json"});
  const test::ProgramResult result = test::run_program(words, shell::capture_input(request));
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  return result.exit_code == 0 ? json::parse(result.standard_output) : json();
}

// The request as the program says it back, written by hand from its members.
json said_of(const CaptureRequest& request) {
  const auto of_kind = [&](PromptKind kind, const std::string& text) {
    return request.kind == kind ? json(text) : json(nullptr);
  };
  json spans = json::array();
  for (const auto& span : request.spans)
    spans.push_back({{"name", span.name}, {"text", span.text}});
  const bool chat = request.kind == PromptKind::Chat;
  return {
      {"model", request.model},
      {"prompt", of_kind(PromptKind::Text, request.text)},
      {"prompt_file", of_kind(PromptKind::TextFile, request.file)},
      {"messages", chat ? json("-") : of_kind(PromptKind::ChatFile, request.file)},
      {"task", of_kind(PromptKind::Task, request.task)},
      {"raw", request.raw},
      {"special", request.special},
      {"decode_from", nullptr},
      {"spans", spans},
      {"chunk_size", request.chunk_size},
      {"layers", request.layers.empty() || request.layers == "all" ? json(nullptr) : json{0, 1}},
      {"methods", request.methods},
      {"closed_loop", request.closed_loop.empty() ? json(nullptr) : json(request.closed_loop)},
      {"drift", request.drift},
      {"max_new_tokens", request.max_new_tokens},
      {"device", request.device},
      {"force", request.force},
      {"output", request.output}};
}

void expect_survives(const CaptureRequest& request) {
  EXPECT_EQ(shell::problem_of(request), "");
  const json answer = estimate_of(request);
  EXPECT_EQ(answer["schema"], "kvloupe-capture-estimate/1");
  EXPECT_EQ(answer["request"], said_of(request))
      << ::testing::PrintToString(shell::capture_arguments(request));
}

TEST_F(CaptureRequestTest, AsItIsAtFirst) { expect_survives(plain()); }

TEST_F(CaptureRequestTest, EveryFieldAtOnce) {
  CaptureRequest request = plain();
  request.raw = request.special = true;
  request.spans = {{"needle", "3968761"}, {"a name", "magic=numbers"}};
  request.text += " Not magic=numbers.";
  request.chunk_size = 8;
  request.layers = "0-1";
  request.methods = {"quoka:budget_tokens=16", "random:budget_tokens=16,seed=7", "dense"};
  request.closed_loop = "streaming_llm:budget_tokens=12";
  request.drift = true;
  request.max_new_tokens = 3;
  request.device = "sim";
  request.force = true;
  expect_survives(request);
}

TEST_F(CaptureRequestTest, LayersAsTheCommandTakesThem) {
  for (const char* layers : {"all", "0-1", "0,1", "1,0-0"}) {
    CaptureRequest request = plain();
    request.layers = layers;
    expect_survives(request);
  }
}

// What the chat template made is the same prompt again, with one begin token.
TEST_F(CaptureRequestTest, ATextWithItsTemplateInIt) {
  CaptureRequest chat = plain(), made = plain();
  chat.text = "Hi there";
  made.text = "<|begin_of_text|><|user|>Hi there<|end_of_text|><|assistant|>";
  made.raw = made.special = true;
  EXPECT_EQ(estimate_of(made)["tokens"], estimate_of(chat)["tokens"]);
  made.special = false;
  EXPECT_NE(estimate_of(made)["tokens"], estimate_of(chat)["tokens"]);
  // Other prompts have their special tokens.
  made.special = true;
  made.kind = PromptKind::Task;
  made.task = "niah";
  EXPECT_THAT(shell::capture_arguments(made), Not(Contains("--special")));
  made.kind = PromptKind::Text;
  made.raw = false;
  EXPECT_THAT(shell::capture_arguments(made), Not(Contains("--special")));
}

capture::FoundModel smollm2_as(const std::string& name) {
  capture::FoundModel model;
  model.name = name;
  model.title = "SmolLM2-135M-Instruct";
  model.family = "llama";
  model.num_layers = 30;
  model.num_kv_heads = 3;
  return model;
}

trace::ModelInfo traced_smollm2() {
  trace::ModelInfo traced;
  traced.name = "SmolLM2-135M-Instruct";
  traced.architecture = "llama";
  traced.num_layers = 30;
  traced.num_kv_heads = 3;
  return traced;
}

TEST_F(CaptureRequestTest, TheModelOfATraceIsFoundByItsName) {
  capture::FoundModel damaged = smollm2_as("damaged"), other = smollm2_as("other");
  damaged.refusal = "it is damaged";
  other.title = "SmolLM2-360M";
  const capture::FoundModel same = smollm2_as("smollm2");
  trace::ModelInfo traced = traced_smollm2();
  EXPECT_EQ(shell::model_of_trace({damaged, other, same}, traced, ""), "smollm2");
  EXPECT_EQ(shell::model_of_trace({damaged, other, same}, traced, "other"), "smollm2");
  EXPECT_EQ(shell::model_of_trace({damaged, other, same}, traced, "damaged"), "smollm2");
  EXPECT_EQ(shell::model_of_trace({damaged, other}, traced, ""), "");
  EXPECT_EQ(shell::model_of_trace({damaged, other}, traced, "other"), "other");
  traced.architecture = "qwen3";
  EXPECT_EQ(shell::model_of_trace({same}, traced, ""), "");
}

TEST_F(CaptureRequestTest, TheModelThatIsChosenStaysWhereItIsTheOneOfTheTrace) {
  const capture::FoundModel first = smollm2_as("smollm2");
  capture::FoundModel second = smollm2_as("org/smollm2-f16.gguf");
  trace::ModelInfo traced = traced_smollm2();
  EXPECT_EQ(shell::model_of_trace({first, second}, traced, second.name), second.name);
  EXPECT_EQ(shell::model_of_trace({first, second}, traced, first.name), first.name);
  EXPECT_EQ(shell::model_of_trace({first, second}, traced, "own/model.gguf"), "own/model.gguf")
      << "who names a path means it";
  second.num_kv_heads = 9;
  EXPECT_EQ(shell::model_of_trace({first, second}, traced, second.name), first.name)
      << "of that name alone";
  traced.kv_heads = "0,2";
  traced.num_kv_heads = 2;
  EXPECT_EQ(shell::model_of_trace({first, second}, traced, second.name), second.name)
      << "the trace counts those that were recorded";
  second.num_layers = 24;
  EXPECT_EQ(shell::model_of_trace({first, second}, traced, second.name), first.name);
}

TEST_F(CaptureRequestTest, TextsThatLookLikeSomethingElse) {
  for (const char* text : {"-v", "--help", "-", "= a", "it's \"so\" $HOME `id` \\n", "two\nlines\t",
                           "\u00e9\u4e2d\U0001F600", " "}) {
    CaptureRequest request = plain();
    request.text = text;
    expect_survives(request);
  }
  CaptureRequest request = plain();
  request.output = (folder_ / "-o.h5").string();
  request.spans = {{"-n", "3968761"}};
  expect_survives(request);
}

TEST_F(CaptureRequestTest, FilesAndTasks) {
  CaptureRequest request = plain();
  request.file = (folder_ / "it's a prompt.txt").string();
  std::ofstream(request.file) << "A prompt.";
  request.kind = PromptKind::TextFile;
  expect_survives(request);
  request.kind = PromptKind::Task;
  request.task = "niah:length=400,depth=0.25,seed=3";
  expect_survives(request);
  request.file = (folder_ / "chat.json").string();
  std::ofstream(request.file) << R"([{"role": "user", "content": "A question?"}])";
  request.kind = PromptKind::ChatFile;
  expect_survives(request);
}

// A typed chat is the same prompt as its file.
TEST_F(CaptureRequestTest, AChatThatIsTyped) {
  CaptureRequest typed = plain();
  typed.kind = PromptKind::Chat;
  typed.chat = {{"system", "Be \"brief\"."}, {"user", "What's\nthe number, \u00e9?"}};
  expect_survives(typed);
  CaptureRequest file = plain();
  file.kind = PromptKind::ChatFile;
  file.file = (folder_ / "chat.json").string();
  std::ofstream(file.file) << R"([{"role": "system", "content": "Be \"brief\"."},)"
                           << R"({"role": "user", "content": "What's\nthe number, \u00e9?"}])";
  EXPECT_EQ(estimate_of(typed)["tokens"], estimate_of(file)["tokens"]);
}

TEST_F(CaptureRequestTest, ALongTextGoesByStandardInput) {
  CaptureRequest request = plain();
  request.raw = true;
  for (int i = 0; i < 30'000; ++i) request.text += " word";
  const std::vector<std::string> words = shell::capture_arguments(request);
  EXPECT_THAT(words, ::testing::IsSupersetOf({"--prompt-file", "-"}));
  EXPECT_EQ(shell::capture_input(request), request.text);
  // The model's context is far shorter; its sentence says how long the text was that arrived.
  const test::ProgramResult result = test::run_program(words, shell::capture_input(request));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.last_error_line(), HasSubstr("token"));
}

// In a shell, as it was copied.
TEST_F(CaptureRequestTest, TheCopiedLineMeansTheSame) {
  CaptureRequest request = plain();
  request.text = "it's \"3968761\" $HOME `id`\n!";
  request.spans = {{"needle", "\"3968761\""}};
  CaptureRequest chat = plain();
  chat.kind = PromptKind::Chat;
  chat.chat = {{"user", "100 % it's $HOME \\n?"}};
  for (const CaptureRequest& one : {request, chat}) {
    const test::ProgramResult result =
        test::run_script("program=\"$kvloupe\"; kvloupe() { \"$program\" \"$@\"; }\n" +
                         shell::capture_command_text(one) + " --estimate --json");
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    const json answer = json::parse(result.standard_output);
    EXPECT_EQ(answer["request"], said_of(one));
    EXPECT_EQ(answer["tokens"], estimate_of(one)["tokens"]);
  }
}

TEST_F(CaptureRequestTest, WhatIsMissingIsSaid) {
  const auto problem = [&](auto change) {
    CaptureRequest request = plain();
    change(request);
    return shell::problem_of(request);
  };
  EXPECT_THAT(problem([](auto& r) { r.model.clear(); }), HasSubstr("No model"));
  EXPECT_THAT(problem([](auto& r) { r.text.clear(); }), HasSubstr("no prompt"));
  EXPECT_THAT(problem([](auto& r) { r.kind = PromptKind::TextFile; }), HasSubstr("no text file"));
  EXPECT_THAT(problem([](auto& r) { r.kind = PromptKind::ChatFile; }), HasSubstr("no file of"));
  EXPECT_THAT(problem([](auto& r) { r.kind = PromptKind::Chat; }), HasSubstr("Message 1"));
  EXPECT_THAT(problem([](auto& r) { r.kind = PromptKind::Task; }), HasSubstr("No task"));
  EXPECT_THAT(problem([](auto& r) { r.spans = {{"a", "not there"}}; }), HasSubstr("span a"));
  EXPECT_THAT(problem([](auto& r) { r.spans = {{"a=b", "magic"}}; }), HasSubstr("a=b"));
  EXPECT_THAT(problem([](auto& r) {
                r.spans = {{"a", "magic"}, {"a", "numbers"}};
              }),
              HasSubstr("Two spans"));
  for (const char* layers : {"x", "3-1", "-1", "1,", "1,,2", "all,1", "0-1-2"})
    EXPECT_THAT(problem([&](auto& r) { r.layers = layers; }), HasSubstr("0-5")) << layers;
  EXPECT_THAT(problem([](auto& r) { r.methods = {"quokka"}; }), HasSubstr("quokka"));
  EXPECT_THAT(problem([](auto& r) { r.closed_loop = "quoka:budget_tokens=x"; }),
              HasSubstr("budget_tokens"));
  EXPECT_THAT(problem([](auto& r) { r.drift = true; }), HasSubstr("closed loop"));
  EXPECT_THAT(problem([](auto& r) { r.output.clear(); }), HasSubstr("no file"));
}

TEST_F(CaptureRequestTest, SpansOfAText) {
  CaptureRequest request = plain();
  request.text = "aa b aa b";
  EXPECT_EQ(shell::occurrences(request, "aa"), 2);
  EXPECT_EQ(shell::occurrences(request, "b a"), 1);
  EXPECT_EQ(shell::occurrences(request, "c"), 0);
  EXPECT_EQ(shell::occurrences(request, " b aa "), 1);
  EXPECT_EQ(shell::occurrences(request, ""), 0);
  // As many as `capture` marks: none begins within another one.
  request.text = "aaaaa";
  request.raw = true;
  request.spans = {{"pair", "aa"}};
  const json spans = estimate_of(request)["spans"];
  EXPECT_EQ(shell::occurrences(request, "aa"), 2);
  EXPECT_EQ(std::count_if(spans.begin(), spans.end(),
                          [](const json& span) {
                            return span["name"].get<std::string>().starts_with("pair");
                          }),
            2);
}

TEST_F(CaptureRequestTest, ModelsAndFreeNamesByTheirPaths) {
  std::filesystem::create_directory(folder_ / "hf");
  std::ofstream(folder_ / "hf" / "config.json") << "{}";
  std::filesystem::create_directory(folder_ / "empty");
  const std::string folder = (folder_ / "hf").string();
  EXPECT_EQ(shell::model_of_path(folder), folder);
  EXPECT_EQ(shell::model_of_path(folder + "/config.json"), folder);
  EXPECT_EQ(shell::model_of_path("/x/y.gguf"), "/x/y.gguf");
  EXPECT_EQ(shell::model_of_path((folder_ / "empty").string()), "");
  EXPECT_EQ(shell::model_of_path("/x/notes.txt"), "");

  const std::string here = folder_.path().string();
  EXPECT_EQ(shell::unused_output(here), here + "/capture.h5");
  std::ofstream(folder_ / "capture.h5") << "";
  std::ofstream(folder_ / "capture-2.h5.part") << "";
  EXPECT_EQ(shell::unused_output(here), here + "/capture-3.h5");
}

// --- a capture under way
// -----------------------------------------------------------------------------

// A program that says what it is told to.
class Actor {
 public:
  Actor(const std::filesystem::path& file, const std::string& script) : file_(file) {
    std::ofstream(file_) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  }
  std::string path() const { return file_.string(); }

 private:
  std::filesystem::path file_;
};

void follow(shell::CaptureRun& run, const std::function<bool()>& until) {
  while (run.running() && !until()) {
    run.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

constexpr const char* kEstimated =
    "echo '{\"event\": \"estimate\", \"tokens\": 8, \"chunks\": 2, \"layers\": [0], "
    "\"model_layers\": 1,"
    " \"bytes\": 1, \"seconds\": 1, \"memory\": {\"total\": 1, \"weights\": 1, \"kv_cache\": 0,"
    " \"working_set\": 0}, \"spans\": []}'\n";

TEST_F(CaptureRequestTest, WhatFailsAfterACancelIsSaidWithWhatIsLeft) {
  const CaptureRequest request = plain();
  const std::string failure = "error: the capture was stopped; No space left on device; make room";
  const std::string script =
      "trap 'echo \"" + failure + "\" >&2; exit 130' INT\n: >'" + request.output + ".part'\n" +
      kEstimated +
      "echo '{\"event\": \"progress\", \"chunks\": 3, \"pace\": \"\", \"phase\": \"prefill\"}'\n"
      "while :; do sleep 0.02; done\n";
  const Actor actor(folder_ / "fails", script);
  shell::CaptureRun run;
  run.program = actor.path();
  run.start(request);
  follow(run, [&] { return run.chunks() == 3; });
  ASSERT_TRUE(run.running()) << run.message();
  run.cancel();
  follow(run, [] { return false; });
  EXPECT_EQ(run.stage(), shell::CaptureStage::Failed);
  EXPECT_THAT(run.message(), HasSubstr("No space left on device"));
  EXPECT_THAT(run.message(), HasSubstr(request.output + ".part holds the chunks done"));
}

// Before the estimate nothing was written: the part is of an earlier capture.
TEST_F(CaptureRequestTest, APartThatWasThereBeforeIsNotWhatIsLeft) {
  const CaptureRequest request = plain();
  const std::string ready = (folder_ / "ready").string();
  const Actor actor(
      folder_ / "loads",
      "trap 'echo \"error: the capture was stopped; it was cancelled; start it anew\" "
      ">&2; exit 130' INT\n: >'" +
          ready + "'\nwhile :; do sleep 0.02; done\n");
  std::ofstream(request.output + ".part") << "of another";
  shell::CaptureRun run;
  run.program = actor.path();
  run.start(request);
  follow(run, [&] { return std::filesystem::exists(ready); });
  run.cancel();
  follow(run, [] { return false; });
  EXPECT_EQ(run.stage(), shell::CaptureStage::Stopped);
  EXPECT_THAT(run.message(), HasSubstr("nothing is left"));
}

// A basis that is made first has a progress of its own.
TEST_F(CaptureRequestTest, ChunksAreCountedFromTheEstimateOn) {
  const Actor actor(
      folder_ / "counts",
      std::string("echo '{\"event\": \"progress\", \"chunks\": 96, \"pace\": \"\", \"phase\": "
                  "\"prefill\"}'\n") +
          kEstimated);
  shell::CaptureRun run;
  run.program = actor.path();
  run.start(plain());
  follow(run, [] { return false; });
  EXPECT_EQ(run.of_chunks(), 2);
  EXPECT_EQ(run.chunks(), 0);
}

TEST_F(CaptureRequestTest, ATraceGrowsBesideTheFileThatALinkLeadsTo) {
  const std::string link = (folder_ / "link.h5").string();
  std::filesystem::create_symlink("/elsewhere/own.h5", link);
  EXPECT_EQ(shell::part_of(link), "/elsewhere/own.h5.part");
  EXPECT_EQ(shell::part_of("/x/own.h5"), "/x/own.h5.part");
}

// --- what the program says
// --------------------------------------------------------------------------

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    names.push_back(file.path().filename().string());
  return names;
}

TEST_F(CaptureRequestTest, AnEstimateWritesNothingAndCountsWhatIsWritten) {
  CaptureRequest request = plain();
  request.spans = {{"needle", "3968761"}};
  request.chunk_size = 8;
  request.methods = {"quoka:budget_tokens=16"};
  request.max_new_tokens = 3;
  const json estimate = estimate_of(request);
  EXPECT_THAT(files_in(folder_.path()), ElementsAre());
  EXPECT_EQ(estimate["memory"]["total"].get<std::int64_t>(),
            estimate["memory"]["weights"].get<std::int64_t>() +
                estimate["memory"]["kv_cache"].get<std::int64_t>() +
                estimate["memory"]["working_set"].get<std::int64_t>());
  const auto needle = std::find_if(estimate["spans"].begin(), estimate["spans"].end(),
                                   [](const json& span) { return span["name"] == "needle"; });
  ASSERT_NE(needle, estimate["spans"].end()) << "beside those of the chat template";
  EXPECT_LT((*needle)["begin"], (*needle)["end"]);

  ASSERT_EQ(test::run_program(shell::capture_arguments(request)).exit_code, 0);
  const json info = test::answer_of({"info", request.output, "--json"});
  EXPECT_EQ(estimate["tokens"], info["tokens"]) << info.dump(1);
  const auto bytes = static_cast<double>(std::filesystem::file_size(request.output));
  EXPECT_NEAR(estimate["bytes"].get<double>(), bytes, bytes / 2 + (1 << 20));
}

TEST_F(CaptureRequestTest, AnEstimateForPeopleAndItsRefusals) {
  std::vector<std::string> words = shell::capture_arguments(plain());
  words.emplace_back("--estimate");
  const test::ProgramResult result = test::run_program(words);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output, HasSubstr("expecting about"));
  EXPECT_THAT(result.standard_output, HasSubstr("memory on cpu"));
  // Nothing is written, so no file need be named.
  const auto output = std::ranges::find(words, "--output");
  ASSERT_NE(output, words.end());
  words.erase(output, output + 2);
  const test::ProgramResult nameless = test::run_program(words);
  EXPECT_EQ(nameless.exit_code, 0) << nameless.standard_error;
  EXPECT_THAT(nameless.standard_output, HasSubstr("expecting about"));

  const auto refusal = [&](auto change) {
    CaptureRequest request = plain();
    change(request);
    std::vector<std::string> wrong = shell::capture_arguments(request);
    wrong.emplace_back("--estimate");
    const test::ProgramResult refused = test::run_program(wrong);
    EXPECT_EQ(refused.exit_code, 1) << refused.standard_error;
    return refused.last_error_line();
  };
  EXPECT_THAT(refusal([](auto& r) { r.model = "/nowhere/model.gguf"; }), HasSubstr("model.gguf"));
  EXPECT_THAT(refusal([](auto& r) { r.layers = "7"; }), HasSubstr("layer 7"));
  EXPECT_THAT(refusal([](auto& r) { r.output = "/nowhere/t.h5"; }), HasSubstr("/nowhere"));
  EXPECT_THAT(refusal([](auto& r) { r.output = kModel; }), HasSubstr("model.gguf"));
  EXPECT_THAT(refusal([&](auto& r) {
                r.output = (folder_ / "there.h5").string();
                std::ofstream(r.output) << "x";
              }),
              HasSubstr("--force"));
}

TEST_F(CaptureRequestTest, EventsOfACapture) {
  CaptureRequest request = plain();
  request.chunk_size = 8;
  request.max_new_tokens = 3;
  std::vector<std::string> words = shell::capture_arguments(request);
  words.emplace_back("--events");
  const test::ProgramResult result = test::run_program(words);
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  std::vector<json> events;
  std::istringstream lines(result.standard_output);
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  ASSERT_GE(events.size(), 4);
  for (const json& event : events) EXPECT_EQ(event["schema"], "kvloupe-capture-event/1");
  EXPECT_EQ(events.front()["event"], "estimate");
  EXPECT_EQ(events.back()["event"], "done");
  const json& estimate = events.front();
  const int prompt = estimate["prompt_tokens"];
  int chunks = 0;
  for (std::size_t i = 1; i + 1 < events.size(); ++i) {
    const json& progress = events[i];
    EXPECT_EQ(progress["event"], "progress");
    EXPECT_EQ(progress["chunks"], ++chunks);
    EXPECT_EQ(progress["of_chunks"], estimate["chunks"]);
    EXPECT_EQ(progress["tokens"],
              chunks * 8 < prompt ? chunks * 8 : prompt + chunks - (prompt + 7) / 8);
    EXPECT_EQ(progress["phase"], progress["tokens"] <= prompt ? "prefill" : "decode");
    EXPECT_THAT(progress["pace"].get<std::string>(), HasSubstr("tokens/s"));
  }
  EXPECT_EQ(events.back()["chunks"], chunks);
  EXPECT_EQ(events.back()["path"], request.output);
  EXPECT_EQ(test::answer_of({"info", request.output, "--json"})["complete"], true);
}

}  // namespace
}  // namespace kvloupe
