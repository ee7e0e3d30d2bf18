// Requests as the model answers them: as a capture does, whatever was asked before.
#include "capture/run/request_run.h"

#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "core/base/error.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using nlohmann::json;
using selection::MethodSpec;

struct Answers {
  std::vector<json> lines;
  RequestTotals totals;
};

Answers answers_to(const std::vector<std::string>& requests, const RequestOptions& options = {},
                   const WorkContext& context = {}) {
  at::set_num_threads(1);
  Answers answers;
  std::size_t next = 0;
  answers.totals = answer_requests(
      make_tiny_model(), options,
      {[&] { return next < requests.size() ? std::optional(requests[next++]) : std::nullopt; },
       [&](const std::string& line, bool is_error) {
         answers.lines.push_back(json::parse(line));
         EXPECT_EQ(is_error, answers.lines.back().contains("error"));
       }},
      context);
  return answers;
}

RequestOptions tiny_run(const std::string& closed_loop = "") {
  RequestOptions options;
  options.chunk_size = 64;
  if (!closed_loop.empty()) options.closed_loop = MethodSpec::parse(closed_loop);
  return options;
}

std::string request(int id, const std::string& prompt, const json& more = json::object()) {
  json line{{"id", id}, {"prompt", prompt}, {"raw", true}, {"max_new_tokens", 6}};
  line.update(more);
  return line.dump();
}

TEST(RequestRun, AnswersAsACaptureDoes) {
  for (const char* spec :
       {"", "quoka:budget_tokens=40", "h2o:budget_tokens=40", "infinipot:budget_tokens=40",
        "quest:budget_tokens=32,prefill=dense,skip_layers=0,page_size=8",
        "xattention:lowering=union,block_size=16,stride=4"}) {
    for (const bool decodes : {false, true}) {
      CaptureOptions capture = tiny_options("same.h5");
      capture.dtype = trace::DType::F32;
      if (*spec != '\0') capture.closed_loop = MethodSpec::parse(spec);
      if (decodes) capture.decode_from = "150";
      const CaptureReport report = capture_tiny(capture);
      const json more = decodes ? json{{"decode_from", 150}} : json::object();
      const Answers answers =
          answers_to({request(1, "something else"), request(2, some_text(), more)}, tiny_run(spec));
      ASSERT_EQ(answers.lines.size(), 2u);
      const json& answer = answers.lines[1];
      ASSERT_TRUE(answer.contains("text")) << answer;
      EXPECT_EQ(answer["tokens"], trace::TraceReader("same.h5").info().generated) << spec;
      EXPECT_EQ(answer["prompt_tokens"], 230);
      EXPECT_EQ(answer["kept"].is_null(), *spec == '\0');
      EXPECT_EQ(answer["finish"], answer["tokens"].size() < 6 ? "stop" : "length");
    }
  }
}

// As compare counts a run's effective budget.
TEST(RequestRun, SaysWhatTheMethodKept) {
  CaptureOptions capture = tiny_options("kept.h5");
  capture.dtype = trace::DType::F32;
  capture.closed_loop = MethodSpec::parse("h2o:budget_tokens=40");
  capture_tiny(capture);
  const trace::TraceReader reader("kept.h5");
  double keys = 0, rows = 0;
  for (const int layer : reader.info().layers)
    for (int c = 0; c < static_cast<int>(reader.info().chunks.size()); ++c) {
      const trace::CellRecord cell = reader.read_run(0, layer, c).cells.front();
      if (cell.dense_reason) continue;
      for (const trace::SelectedRow& row : cell.rows) {
        keys += static_cast<double>(row.positions.size());
        ++rows;
      }
    }
  const Answers answers = answers_to({request(1, some_text())}, tiny_run("h2o:budget_tokens=40"));
  EXPECT_DOUBLE_EQ(answers.lines[0]["kept"], keys / rows);
}

TEST(RequestRun, StopTextsEndAnAnswer) {
  const json whole = answers_to({request(1, some_text())}, tiny_run()).lines[0];
  const std::vector<std::int32_t> tokens = whole["tokens"];
  ASSERT_EQ(tokens.size(), 6u);
  const std::string third = byte_tokenizer().decode_bytes(tokens[2]);
  if (static_cast<unsigned char>(third[0]) >= 128) GTEST_SKIP() << "no character by itself";
  const json cut = answers_to({request(1, some_text(), {{"until", {third}}})}, tiny_run()).lines[0];
  EXPECT_EQ(cut["finish"], "stop");
  EXPECT_LE(cut["tokens"].size(), 3u);
  EXPECT_EQ(std::string(cut["text"]).find(third), std::string::npos);
}

// The sum over one pass of the whole, in double.
TEST(RequestRun, LikelihoodsAreThoseOfTheWholeText) {
  const std::string context = some_text(), continuation = "xyz and what follows";
  const auto model = make_tiny_model();
  const auto ids = model->tokenizer.encode(context + continuation, SpecialTokens::Literal);
  Decoder decoder(model, {1024, false});
  DenseAttention dense;
  double expected = 0;
  bool greedy = true;
  const std::size_t split = ids.size() - continuation.size();
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const at::Tensor logits = decoder.forward(std::span(&ids[t], 1), dense);
    if (t + 1 < split) continue;
    expected += at::log_softmax(logits.to(at::kDouble), 0)[ids[t + 1]].item<double>();
    greedy = greedy && logits.argmax().item<std::int64_t>() == ids[t + 1];
  }
  const json line{{"id", 1}, {"context", context}, {"continuation", continuation}};
  json decoded = line;
  decoded.update({{"id", 2}, {"decode_from", "continuation"}});
  for (const json& answer : answers_to({line.dump(), decoded.dump()}, tiny_run()).lines) {
    ASSERT_TRUE(answer.contains("loglikelihood")) << answer;
    EXPECT_NEAR(answer["loglikelihood"], expected, 1e-3);
    EXPECT_EQ(answer["greedy"], greedy);
  }
}

TEST(RequestRun, AContinuationOfOneTokenMayBeDecodedFrom) {
  const json line{{"id", 1}, {"context", "ab"}, {"continuation", "c"}};
  json decoded = line;
  decoded.update({{"id", 2}, {"decode_from", "continuation"}});
  const auto lines = answers_to({line.dump(), decoded.dump()}, tiny_run()).lines;
  EXPECT_EQ(lines[0]["loglikelihood"], lines[1]["loglikelihood"]);
}

TEST(RequestRun, WhatTheModelAnswersIsGreedy) {
  const json answer = answers_to({request(1, "some words")}, tiny_run()).lines[0];
  std::vector<std::int32_t> tokens = answer["tokens"];
  const std::string text = byte_tokenizer().decode(std::vector<std::int32_t>{tokens[0]});
  if (static_cast<unsigned char>(text[0]) >= 128 || text.size() != 1) GTEST_SKIP();
  const json line{{"id", 1}, {"context", "some words"}, {"continuation", text}};
  EXPECT_EQ(answers_to({line.dump()}, tiny_run()).lines[0]["greedy"], true);
}

// Together as each alone, and so many tokens of the prompts are prefilled once.
void expect_shared(const std::vector<std::string>& requests, const RequestOptions& options,
                   std::int64_t tokens) {
  const Answers together = answers_to(requests, options);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    json alone = answers_to({requests[i]}, options).lines[0], beside = together.lines[i];
    for (const char* time : {"prefill_s", "decode_s"}) {
      alone.erase(time);
      beside.erase(time);
    }
    EXPECT_EQ(alone, beside);
  }
  EXPECT_EQ(together.totals.shared_tokens, tokens);
}

// To the bit, and counted.
TEST(RequestRun, ASharedPrefixIsPrefilledOnce) {
  const std::string text = some_text();
  const std::vector<std::string> requests = {
      request(1, text),
      request(2, text),
      request(3, text.substr(0, 140) + "another end"),
      request(4, text.substr(0, 128)),
      request(5, "!" + text),
      request(6, "!" + text, {{"decode_from", 129}}),
      json{{"id", 7}, {"context", "!" + text}, {"continuation", " xyz"}}.dump()};
  for (const char* spec : {"", "dense", "quoka:budget_tokens=40", "random:budget_tokens=40",
                           "quest:budget_tokens=32,skip_layers=0,page_size=8",
                           "xattention:lowering=union,block_size=16,stride=4",
                           "flash_prefill:block_size=16,last_full_blocks=2,lowering=union"})
    expect_shared(requests, tiny_run(spec), 0 + 192 + 128 + 64 + 0 + 128 + 128);
  for (const char* spec : {"h2o:budget_tokens=40", "infinipot:budget_tokens=40"})
    expect_shared(requests, tiny_run(spec), 0);
}

TEST(RequestRun, BadRequestsDoNotStopTheRest) {
  const std::string longer(2000, 'a');
  const Answers answers =
      answers_to({"nonsense", "", request(1, "ab"), request(1, "ab"), request(2, longer),
                  R"({"id": 3, "tokens": [1, 999999]})", request(4, "ab", {{"decode_from", 2}}),
                  request(5, "ab", {{"decode_from", "zz"}}),
                  request(6, "ab", {{"max_new_tokens", 5000}}), request(7, "ab")},
                 tiny_run());
  ASSERT_EQ(answers.lines.size(), 9u);
  EXPECT_EQ(answers.totals.errors, 7);
  for (const std::size_t good : {1u, 8u}) EXPECT_TRUE(answers.lines[good].contains("text"));
  EXPECT_THAT(std::string(answers.lines[2]["error"]), HasSubstr("same id"));
  EXPECT_THAT(std::string(answers.lines[3]["error"]), HasSubstr("does not fit"));
  EXPECT_THAT(std::string(answers.lines[4]["error"]), HasSubstr("token"));
  json first = answers.lines[1], last = answers.lines[8];
  EXPECT_EQ(first["tokens"], last["tokens"]);
}

TEST(RequestRun, WhatIsAnsweredIsPassedOver) {
  RequestOptions options = tiny_run();
  options.answered = {"null", "1", "2"};
  const Answers answers = answers_to({"nonsense", request(1, "ab"), request(1, "ab"),
                                      request(2, "ab"), "nonsense too", request(3, "ab")},
                                     options);
  ASSERT_EQ(answers.lines.size(), 3u);
  EXPECT_EQ(answers.lines[0]["id"], 1);  // the second of that id
  EXPECT_TRUE(answers.lines[0].contains("error"));
  EXPECT_TRUE(answers.lines[1]["id"].is_null());
  EXPECT_EQ(answers.lines[2]["id"], 3);
  EXPECT_EQ(answers.totals.passed_over, 3);
}

TEST(RequestRun, AMethodThatCannotServeTheModelIsRefused) {
  EXPECT_THROW(answers_to({request(1, "ab")}, tiny_run("loki:budget_tokens=40,basis=never.h5")),
               Error);
}

TEST(RequestRun, CtrlCStopsBetweenTokens) {
  CancelSource source;
  source.cancel();
  WorkContext context;
  context.cancel = source.token();
  try {
    answers_to({request(1, "ab")}, tiny_run(), context);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Cancelled);
  }
}

}  // namespace
}  // namespace kvloupe::capture
