// Prompts whose end is decoded: the chunk table, what the model computes, and what is said of it.
#include "capture/run/decode_from.h"

#include "core/base/error.h"
#include "core/trace/decoded_prompt.h"
#include "core/trace/trace_reader.h"
#include "core/trace/write/slice.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>

#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using selection::MethodSpec;

constexpr int kPrefilled = 150, kPrompt = 230;

CaptureOptions decoding_options(const std::string& name) {
  CaptureOptions options = tiny_options(name);
  options.dtype = trace::DType::F32;
  options.decode_from = std::to_string(kPrefilled);
  return options;
}

std::string refusal(const CaptureOptions& options) {
  try {
    capture_tiny(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return error.what();
  }
  return "";
}

TEST(DecodeFrom, FeedsTheEndOfThePromptTokenByToken) {
  const CaptureReport report = capture_tiny(decoding_options("decoded.h5"));
  const trace::TraceReader reader("decoded.h5");
  const trace::TraceInfo& info = reader.info();
  std::int32_t at = 0;
  for (const trace::ChunkInfo& chunk : info.chunks) {
    EXPECT_EQ(chunk.begin, at);
    const bool prefill = at < kPrefilled;
    EXPECT_EQ(chunk.phase, prefill ? trace::Phase::Prefill : trace::Phase::Decode);
    EXPECT_EQ(chunk.length, prefill ? std::min(64, kPrefilled - at) : 1);
    at = chunk.end();
  }
  EXPECT_EQ(at, kPrompt + report.decoded);
  EXPECT_EQ(trace::answer_begin(info), kPrompt);
  const trace::Validation found = trace::check_trace("decoded.h5");
  EXPECT_EQ(found.defects, std::vector<std::string>{});
  EXPECT_EQ(found.notes, std::vector<std::string>{});
}

TEST(DecodeFrom, DenseComputesTheSame) {
  CaptureOptions options = decoding_options("decoded.h5");
  capture_tiny(options);
  options.output = "whole.h5";
  options.decode_from.clear();
  capture_tiny(options);
  const trace::TraceReader decoded("decoded.h5"), whole("whole.h5");
  EXPECT_EQ(decoded.info().generated, whole.info().generated);
  for (const int layer : {0, 1, 2}) {
    const StoredLayer a = read_layer(decoded, layer), b = read_layer(whole, layer);
    EXPECT_TRUE(at::allclose(a.q, b.q, 1e-4, 1e-4)) << layer;
    EXPECT_TRUE(at::allclose(a.k, b.k, 1e-4, 1e-4)) << layer;
    EXPECT_TRUE(at::allclose(a.v, b.v, 1e-4, 1e-4)) << layer;
  }
}

// A method that only decodes prefills densely, and chooses from there on.
TEST(DecodeFrom, ClosedLoopOfAMethodThatOnlyDecodes) {
  CaptureOptions options = decoding_options("dense.h5");
  capture_tiny(options);
  options.output = "quest.h5";
  options.closed_loop =
      MethodSpec::parse("quest:budget_tokens=32,prefill=dense,skip_layers=0,page_size=8");
  capture_tiny(options);
  const trace::TraceReader dense("dense.h5"), quest("quest.h5");
  const at::Tensor all = read_layer(dense, 2).k, kept = read_layer(quest, 2).k;
  EXPECT_TRUE(at::equal(all.slice(1, 0, kPrefilled), kept.slice(1, 0, kPrefilled)));
  EXPECT_FALSE(at::allclose(all.slice(1, kPrefilled, kPrompt), kept.slice(1, kPrefilled, kPrompt),
                            1e-3, 1e-3));
  const auto& chunks = quest.info().chunks;
  for (int c = 0; c < static_cast<int>(chunks.size()); ++c) {
    const bool prefill = chunks[static_cast<std::size_t>(c)].phase == trace::Phase::Prefill;
    EXPECT_EQ(quest.read_run(0, 1, c).cells.front().dense_reason.has_value(), prefill) << c;
  }
}

TEST(DecodeFrom, ASpanIsWhereItBegins) {
  CaptureOptions options = decoding_options("span.h5");
  options.prompt_text = some_text().substr(0, 200) + "WHAT WAS THE THIRD OF THEM ALL";
  options.spans = {{"question", options.prompt_text->substr(200)}};
  options.decode_from = "question";
  capture_tiny(options);
  const auto spans = trace::TraceReader("span.h5").info().spans;
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans.back().name, trace::kDecodedPrompt);
  EXPECT_EQ(spans.back().begin, 200);
  EXPECT_EQ(spans.back().end, kPrompt);
}

// Else the tokens of the prompt would pass for sampled ones.
TEST(DecodeFrom, ASliceThatEndsInItKnowsWhichTokensAreOfThePrompt) {
  capture_tiny(decoding_options("to_slice.h5"));
  trace::SliceRequest request;
  request.until_chunk = 12;  // three chunks before 150, then ten tokens
  const trace::Slice slice = trace::slice_trace("to_slice.h5", request, "sliced.h5", true, {});
  EXPECT_EQ(slice.left_out, std::vector<std::string>{});
  EXPECT_EQ(slice.num_tokens, kPrefilled + 10);
  EXPECT_EQ(trace::answer_begin(trace::TraceReader("sliced.h5").info()), slice.num_tokens);
  EXPECT_EQ(trace::check_trace("sliced.h5").defects, std::vector<std::string>{});
  request.until_chunk = 1;  // all of it stands behind
  trace::slice_trace("to_slice.h5", request, "sliced.h5", true, {});
  EXPECT_EQ(trace::answer_begin(trace::TraceReader("sliced.h5").info()), 128);
}

TEST(DecodeFrom, PlacesThatLeaveNothingAreRefused) {
  CaptureOptions options = decoding_options("never.h5");
  for (const char* position : {"0", "-1", "230", "99999999999"}) {
    options.decode_from = position;
    EXPECT_THAT(refusal(options), HasSubstr("from 1 to 229")) << position;
  }
  options.decode_from = "question";
  EXPECT_THAT(refusal(options), HasSubstr("has no spans"));
  options.spans = {{"all", some_text().substr(0, 20)}};
  EXPECT_THAT(refusal(options), HasSubstr("has the spans all"));
  options.decode_from = "all";
  EXPECT_THAT(refusal(options), HasSubstr("begins with the prompt"));
  EXPECT_THROW(parse_named_texts({"prompt:decoded=x"}), Error);
}

TEST(DecodeFrom, ACaptureGoesOnWithItsOwn) {
  CaptureOptions options = decoding_options("whole.h5");
  options.closed_loop = MethodSpec::parse("h2o:budget_tokens=40");
  capture_tiny(options);
  const trace::TraceReader whole("whole.h5");
  options.output = "cut.h5";
  options.force = false;
  for (const std::int64_t tokens : {64, 170, 232}) {
    std::filesystem::remove("cut.h5");
    cut_short(options, tokens);
    CaptureOptions other = options;
    other.resume = true;
    other.decode_from = "151";
    EXPECT_THAT(refusal(other), HasSubstr("--decode-from position 150, not position 151"));
    other.decode_from.clear();
    EXPECT_THAT(refusal(other), HasSubstr("position 150, not the prompt's end"));
    capture_tiny(options_left("cut.h5"));
    const trace::TraceReader cut("cut.h5");
    EXPECT_EQ(cut.info().generated, whole.info().generated);
    EXPECT_EQ(cut.info().spans.size(), whole.info().spans.size());
    EXPECT_TRUE(at::equal(read_layer(cut, 2).k, read_layer(whole, 2).k));
  }
}

TEST(DecodeFrom, ASliceKnowsItsAnswer) {
  capture_tiny(decoding_options("decoded.h5"));
  const trace::TraceReader whole("decoded.h5");
  trace::SliceRequest request;
  for (const int fed : {-2, 0, 2}) {  // tokens of the answer
    request.until_chunk = 2 + kPrompt - kPrefilled + fed;
    trace::slice_trace("decoded.h5", request, "slice.h5", /*overwrite=*/true, {});
    const trace::TraceReader slice("slice.h5");
    EXPECT_EQ(slice.info().num_tokens, kPrompt + fed);
    EXPECT_EQ(static_cast<int>(slice.info().generated.size()), std::max(0, fed + 1));
  }
}

TEST(DecodeFrom, TheEstimateCountsDecodedTokens) {
  CaptureOptions options = decoding_options("never.h5");
  options.estimate_only = true;
  CaptureEstimate estimate;
  at::set_num_threads(1);
  capture_with(make_tiny_model(), options, [&](const CaptureEstimate& e) { estimate = e; }, {});
  EXPECT_EQ(estimate.prompt_tokens, kPrompt);
  EXPECT_EQ(estimate.prefill_tokens, kPrefilled);
  EXPECT_EQ(estimate.chunks, 3 + kPrompt - kPrefilled + 5);
  EXPECT_FALSE(std::filesystem::exists("never.h5"));
}

}  // namespace
}  // namespace kvloupe::capture
