// Requests as they are read, and the tokens that they become.
#include "capture/run/request.h"

#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/capture/tiny_model.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kvloupe::capture {
namespace {

TEST(Request, IsReadWithItsDefaults) {
  const RequestLine line = read_request(R"({"id": "a\"b", "prompt": "Hello"})");
  ASSERT_TRUE(line.request) << line.error;
  EXPECT_EQ(line.id, R"("a\"b")");
  EXPECT_EQ(line.request->prompt, "Hello");
  EXPECT_EQ(line.request->max_new_tokens, 256);
  EXPECT_FALSE(line.request->raw);
  EXPECT_EQ(read_request(R"({"id": 7, "tokens": [1, 2], "decode_from": null})").id, "7");
}

TEST(Request, WhatIsWrongIsSaid) {
  const std::pair<const char*, const char*> wrong[] = {
      {"no JSON", "not JSON"},
      {"[1]", "no JSON object"},
      {"{\"id\": 1, \"prompt\": \"\xff\"}", "not JSON in UTF-8"},
      {R"({"prompt": "a"})", "no id"},
      {R"({"id": null, "prompt": "a"})", "id is not a text or a whole number"},
      {R"({"id": 1.5, "prompt": "a"})", "id is not"},
      {R"({"id": [], "prompt": "a"})", "id is not"},
      {R"({"id": 1})", "nothing to go on from"},
      {R"({"id": 1, "prompt": "a", "tokens": [1]})", "more than one prompt"},
      {R"({"id": 1, "prompt": "a", "prompt": "b"})", "two members prompt"},
      {R"({"id": 1, "prompt": ""})", "prompt is empty"},
      {R"({"id": 1, "prompt": 5})", "prompt is not a text"},
      {R"({"id": 1, "prompt": "a\u0000b"})", "NUL"},
      {R"({"id": 1, "tokens": []})", "tokens are empty"},
      {R"({"id": 1, "tokens": [-1]})", "token is -1"},
      {R"({"id": 1, "tokens": [4294967296]})", "token is 4294967296"},
      {R"({"id": 1, "tokens": ["a"]})", "token is not a whole number"},
      {R"({"id": 1, "messages": []})", "messages are not usable"},
      {R"({"id": 1, "messages": [{"role": "judge", "content": "x"}]})", "judge"},
      {R"({"id": 1, "messages": [{"role": "user", "content": "x"}], "raw": true})", "raw"},
      {R"({"id": 1, "prompt": "a", "raw": 1})", "raw is not true or false"},
      {R"({"id": 1, "prompt": "a", "until": "x"})", "until is not a list"},
      {R"({"id": 1, "prompt": "a", "until": [""]})", "until is empty"},
      {R"({"id": 1, "prompt": "a", "max_new_tokens": -1})", "max_new_tokens is -1"},
      {R"({"id": 1, "prompt": "a", "max_new_tokens": 18446744073709551615})", "max_new_tokens"},
      {R"({"id": 1, "prompt": "a", "max_new_tokens": 1.5})", "not a whole number"},
      {R"({"id": 1, "prompt": "a", "decode_from": []})", "decode_from is not a text"},
      {R"({"id": 1, "prompt": "a", "decode_from": 1.5})", "decode_from is not a whole number"},
      {R"({"id": 1, "prompt": "a", "temperature": 1})", "no member temperature"},
      {R"({"id": 1, "context": "a"})", "only one of"},
      {R"({"id": 1, "context": "a", "continuation": ""})", "continuation is empty"},
      {R"({"id": 1, "context": "a", "continuation": "b", "prompt": "c"})", "no member prompt"},
  };
  for (const auto& [text, why] : wrong) {
    const RequestLine line = read_request(text);
    EXPECT_FALSE(line.request) << text;
    EXPECT_THAT(line.error, HasSubstr(why)) << text;
  }
  EXPECT_EQ(read_request(R"({"id": 1, "prompt": ""})").id, "1");
  EXPECT_EQ(read_request("no JSON").id, "null");
}

RequestPrompt likelihood(const std::string& context, const std::string& continuation) {
  Request request;
  request.context = context;
  request.continuation = continuation;
  return prompt_of(request, byte_tokenizer());
}

std::string text_of(const std::vector<std::int32_t>& ids) { return byte_tokenizer().decode(ids); }

// What is made of nested values calls itself: it must not be asked for.
TEST(Request, NestedAsDeepAsNobodyWritesIsRefused) {
  for (const char* member : {"messages", "decode_from", "id", "other"}) {
    const std::string line = R"({"id":1,")" + std::string(member) + R"(":)" +
                             std::string(300'000, '[') + std::string(300'000, ']') + "}";
    EXPECT_THAT(read_request(line).error, HasSubstr("nested deeper than any request")) << member;
  }
  const RequestLine parts = read_request(
      R"({"id": 1, "messages": [{"role": "user", "content": "Hi"}], "until": [".", "!"]})");
  EXPECT_TRUE(parts.request) << parts.error;
}

TEST(Request, TheSpacesBeforeAContinuationAreItsOwn) {
  const RequestPrompt asked = likelihood("one two \xc2\xa0", "three");
  EXPECT_EQ(text_of(asked.continuation), " \xc2\xa0three");
  EXPECT_EQ(text_of(asked.prompt.ids), "one two \xc2\xa0thre");
  EXPECT_EQ(asked.first_scored(), 6);
  EXPECT_EQ(asked.prefilled, static_cast<std::int32_t>(asked.prompt.ids.size()));
}

TEST(Request, AnEmptyContextIsTheBeginToken) {
  for (const char* context : {"", "  "}) {
    const RequestPrompt asked = likelihood(context, "ab");
    EXPECT_EQ(asked.prompt.ids.front(), byte_tokenizer().bos());
    EXPECT_EQ(text_of(asked.continuation), context + std::string("ab"));
    EXPECT_EQ(asked.first_scored(), 0);
  }
}

Request decoding(std::variant<std::monostate, std::int64_t, std::string> from) {
  Request request;
  request.prompt = "ask this: ask that";
  request.raw = true;
  request.decode_from = std::move(from);
  return request;
}

TEST(Request, DecodesFromAPositionASpanOrTheLastPlaceOfAText) {
  EXPECT_EQ(prompt_of(decoding(std::int64_t{5}), byte_tokenizer()).prefilled, 5);
  EXPECT_EQ(prompt_of(decoding("ask"), byte_tokenizer()).prefilled, 10);
  Request request = decoding("role:assistant");
  request.raw = false;
  const RequestPrompt asked = prompt_of(request, byte_tokenizer());
  EXPECT_EQ(text_of({asked.prompt.ids.begin() + asked.prefilled, asked.prompt.ids.end()}),
            "<|im_start|>assistant\n");
  for (const std::int64_t position : {-1, 0, 18})
    EXPECT_THROW(prompt_of(decoding(position), byte_tokenizer()), Error) << position;
  EXPECT_THROW(prompt_of(decoding("nowhere"), byte_tokenizer()), Error);
}

TEST(Request, AnAnswerEndsBeforeTheFirstStopText) {
  EXPECT_EQ(before_stop("a. b\n\nc", {"\n\n", "."}), "a");
  EXPECT_EQ(before_stop("abc", {"x"}), "abc");
  EXPECT_EQ(before_stop("xABC", {"BC", "ABC"}), "x");
}

}  // namespace
}  // namespace kvloupe::capture
