// Spans named by the user's own text.
#include "capture/run/own_spans.h"

#include "core/base/error.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"

#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

std::vector<trace::TokenSpan> spans_of(const std::string& text, const std::string& span) {
  CaptureOptions options = tiny_options("spans.h5");
  options.prompt_text = text;
  options.max_new_tokens = 0;
  options.spans = parse_named_texts({span});
  capture_tiny(options);
  return trace::TraceReader("spans.h5").info().spans;
}

std::string text_of(const trace::TokenSpan& span) {
  const std::vector<std::string> texts = trace::TraceReader("spans.h5").token_texts();
  std::string text;
  for (std::int32_t t = span.begin; t < span.end; ++t) text += texts[static_cast<std::size_t>(t)];
  return text;
}

TEST(OwnSpans, CoverEveryTokenOfTheText) {
  const auto spans = spans_of("where is the red key? the red key is here", "thing=red key");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].name, "thing");
  EXPECT_EQ(spans[1].name, "thing.2");
  for (const trace::TokenSpan& span : spans) {
    EXPECT_THAT(text_of(span), HasSubstr("red key"));
    EXPECT_LT(text_of(span).size(), 20u);
  }
  EXPECT_LT(spans[0].end, spans[1].begin);
  EXPECT_EQ(text_of(spans_of("one two three", "all=one two three").front()), "one two three");
}

TEST(OwnSpans, WhatIsNoSpanIsRefused) {
  for (const char* wrong : {"", "name", "=text", "name="})
    EXPECT_THROW(parse_named_texts({wrong}), Error) << wrong;
  EXPECT_THROW(parse_named_texts({"a=1", "a=2"}), Error);
  EXPECT_EQ(parse_named_texts({"a=b=c"}).front().text, "b=c");
  try {
    spans_of("one two three", "a=four");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), HasSubstr("does not hold the text 'four'"));
  }
}

}  // namespace
}  // namespace kvloupe::capture
