// The course of a capture: chunks and tokens, what is stored, cancelling, damaged values,
// arguments.
#include "capture/run/capture.h"
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "core/base/error.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using selection::MethodSpec;

TEST(Capture, ChunksTokensAndAnswerAreThoseOfTheModel) {
  const CaptureReport report = capture_tiny(tiny_options("plain.h5"));
  const trace::TraceReader reader("plain.h5");
  const trace::TraceInfo& info = reader.info();
  EXPECT_TRUE(info.complete);
  // 230 prompt tokens in 4 chunks; of 6 new tokens the last one is not fed.
  ASSERT_EQ(info.chunks.size(), 9u);
  EXPECT_EQ(info.chunks[3].begin, 192);
  EXPECT_EQ(info.chunks[3].length, 38);
  EXPECT_EQ(info.chunks[4].phase, trace::Phase::Decode);
  EXPECT_EQ(info.chunks[8].begin, 234);
  EXPECT_EQ(info.num_tokens, 235);
  EXPECT_EQ(report.tokens, 235);
  EXPECT_EQ(report.chunks, 9);
  ASSERT_EQ(info.generated.size(), 6u);
  const std::vector<std::int32_t> ids = reader.token_ids();
  EXPECT_TRUE(std::equal(ids.begin() + 230, ids.end(), info.generated.begin()));
  const std::vector<std::string> texts = reader.token_texts();
  std::string prompt;
  for (int i = 0; i < 230; ++i) prompt += texts[static_cast<std::size_t>(i)];
  EXPECT_EQ(prompt, some_text());

  // Greedy decoding without any recording, in one chunk.
  const auto model = make_tiny_model();
  Decoder decoder(model, {300, true});
  DenseAttention dense;
  at::Tensor logits = decoder.forward(std::span(ids).first(230), dense);
  for (const std::int32_t token : info.generated) {
    EXPECT_EQ(logits.argmax().item<std::int64_t>(), token);
    logits = decoder.forward({&token, 1}, dense);
  }
}

TEST(Capture, DtypeDecidesWhatTheModelComputesWith) {
  CaptureOptions options = tiny_options("f16.h5");
  capture_tiny(options);
  options.output = "f32.h5";
  options.dtype = trace::DType::F32;
  capture_tiny(options);
  const StoredLayer half = read_layer(trace::TraceReader("f16.h5"), 0);
  const StoredLayer full = read_layer(trace::TraceReader("f32.h5"), 0);
  const auto prompt_of = [](const at::Tensor& tensor) { return tensor.slice(1, 0, 230); };
  EXPECT_TRUE(at::equal(prompt_of(full.k).to(at::kHalf).to(at::kFloat), prompt_of(half.k)));
  EXPECT_FALSE(at::equal(prompt_of(full.k), prompt_of(half.k)));
}

TEST(Capture, OnlyNamedLayersAreRecordedButAllRun) {
  CaptureOptions options = tiny_options("all.h5");
  options.closed_loop = MethodSpec::parse("quoka:budget_tokens=16");
  options.methods = {MethodSpec::parse("snapkv:budget_tokens=40")};
  capture_all_and_one_layer(options);
  const trace::TraceReader all("all.h5"), one("one.h5");
  EXPECT_TRUE(at::equal(read_layer(all, 2).q, read_layer(one, 2).q));
  EXPECT_EQ(all.read_run_layer(0, 2).positions, one.read_run_layer(0, 2).positions);
  EXPECT_EQ(all.read_run_layer(1, 2).positions, one.read_run_layer(1, 2).positions);
  EXPECT_EQ(all.info().generated, one.info().generated);
}

TEST(Capture, StoreDecidesWhatTheFileHolds) {
  CaptureOptions options = tiny_options("store.h5");
  options.store.set(trace::Part::Lse, false);
  options.mass_if_small = false;
  capture_tiny(options);
  const trace::TraceReader reader("store.h5");
  EXPECT_FALSE(reader.has_lse(0));
  EXPECT_FALSE(reader.read_key_mass(0, 0).has_value());
}

// A quarter of q, k, v decides: T/2 mean keys x 4 bytes x G x chunks against (H + 2G) x D x 2 x T.
TEST(Capture, MassIsStoredUnaskedOnlyWhereItIsSmall) {
  CaptureOptions options = tiny_options("mass.h5");
  options.chunk_size = 128;
  capture_tiny(options);
  // (128 + 230) x 2 x 4 = 2,864 bytes against 10 x 16 x 2 x 235 / 4 = 18,800.
  EXPECT_TRUE(trace::TraceReader("mass.h5").read_key_mass(0, 1).has_value());
  options.chunk_size = 2;
  capture_tiny(options);
  // 2 x (1 + ... + 115) x 2 x 4 = 106,720 bytes.
  EXPECT_FALSE(trace::TraceReader("mass.h5").read_key_mass(0, 1).has_value());
}

// Cancelled once so many tokens are done.
WorkContext cancelled_after(std::int64_t tokens) {
  CancelSource source;
  return {source.token(),
          [source, tokens](std::int64_t done, std::int64_t, const std::string&) mutable {
            if (done >= tokens) source.cancel();
          }};
}

TEST(Capture, CancelLeavesAValidIncompleteTrace) {
  CaptureOptions options = tiny_options("stopped.h5");
  options.methods = {MethodSpec::parse("snapkv:budget_tokens=40")};
  const CaptureReport report = capture_tiny(options, cancelled_after(128));
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.tokens, 128);
  EXPECT_FALSE(fs::exists("stopped.h5.part"));
  EXPECT_EQ(trace::validate_trace("stopped.h5"), std::vector<std::string>{});
  const trace::TraceReader reader("stopped.h5");
  EXPECT_FALSE(reader.info().complete);
  EXPECT_EQ(reader.info().chunks.size(), 2u);
  EXPECT_EQ(reader.info().num_tokens, 128);
}

// Its times are of a part of the answer.
TEST(Capture, CancelledWhileItAnswersItTellsNoSpeed) {
  const CaptureReport report = capture_tiny(tiny_options("stopped.h5"), cancelled_after(232));
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.tokens, 232);
  EXPECT_FALSE(report.speed);
  EXPECT_FALSE(trace::TraceReader("stopped.h5").info().speed);
}

TEST(Capture, NonFiniteValuesAreCountedAndStored) {
  auto model = std::make_shared<LoadedModel>();
  const auto sound = make_tiny_model();
  static_cast<ModelConfig&>(*model) = *sound;
  model->vocab_size = sound->vocab_size;
  model->token_embedding = sound->token_embedding.clone();
  model->output_norm = sound->output_norm;
  model->output = sound->output;
  model->layers = sound->layers;
  model->tokenizer = byte_tokenizer();
  // Byte 'z' has no place in the text but the one put there: position 100, chunk 1.
  model->token_embedding[3 + 'Z'].fill_(std::numeric_limits<float>::quiet_NaN());
  CaptureOptions options = tiny_options("nan.h5");
  (*options.prompt_text)[100] = 'Z';
  options.max_new_tokens = 0;
  options.methods = {
      MethodSpec::parse("quoka:budget_tokens=40"), MethodSpec::parse("snapkv:budget_tokens=40"),
      MethodSpec::parse("keydiff:budget_tokens=40"), MethodSpec::parse("oracle:budget_tokens=40")};
  const CaptureReport report = capture_tiny(options, {}, model);
  EXPECT_TRUE(report.complete);
  // Chunk 1 of layer 0 holds it; later tokens attend to it, so from layer 1 on chunks 1 to 3 do.
  EXPECT_EQ(report.marked_cells, 1 + 3 + 3);
}

ErrorKind failure_of(const CaptureOptions& options) {
  try {
    capture_tiny(options);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("; "));
    return error.kind();
  }
  ADD_FAILURE() << "the capture was accepted";
  return ErrorKind::Internal;
}

TEST(Capture, WrongArgumentsAreToldApart) {
  const CaptureOptions good = tiny_options("never.h5");
  CaptureOptions options = good;
  options.prompt_text.reset();
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.task = "niah:length=100";
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.prompt_text = "";
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  options = good;
  options.prompt_text = std::string(1025, 'a');
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.max_new_tokens = 1000;
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.layers = {0, 3};
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.device = "cuda:1023";  // where there is a driver too
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  for (const char* device : {"tpu", "cuda:", "cuda:0,cuda:1"}) {
    options.device = device;
    EXPECT_EQ(failure_of(options), ErrorKind::Usage);
  }
  options = good;
  options.output = "no/such/folder/t.h5";
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  options = good;
  options.prompt_text.reset();
  options.prompt_file = "no_such_file.txt";
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  EXPECT_FALSE(fs::exists("never.h5"));
  EXPECT_FALSE(fs::exists("never.h5.part"));
}

TEST(Capture, RefusesToOverwriteUnasked) {
  std::ofstream("mine.h5") << "precious";
  CaptureOptions options = tiny_options("mine.h5");
  options.force = false;
  EXPECT_EQ(failure_of(options), ErrorKind::Input);
  std::ifstream stream("mine.h5");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "precious");
  options.force = true;
  capture_tiny(options);
  EXPECT_TRUE(trace::TraceReader("mine.h5").info().complete);
}

TEST(Capture, MessagesAreChecked) {
  CaptureOptions options = tiny_options("messages.h5");
  options.prompt_text.reset();
  options.raw = false;
  options.messages_file = "messages.json";
  const auto with = [&](const std::string& content) {
    std::ofstream("messages.json") << content;
    return options;
  };
  for (const char* content :
       {"", "{}", "[]", "[1]", "[{\"role\": \"user\"}]",
        "[{\"role\": \"tool\", \"content\": \"x\"}]", "[{\"role\": \"user\", \"content\": 3}]"}) {
    EXPECT_EQ(failure_of(with(content)), ErrorKind::Input) << content;
  }
  capture_tiny(with(R"([{"role": "system", "content": "Be brief."},
                        {"role": "user", "content": "Hi <|im_end|>"}])"));
  const trace::TraceReader reader("messages.h5");
  std::string text;
  for (const std::string& token : reader.token_texts()) text += token;
  EXPECT_THAT(text, StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
                               "Hi <|im_end|><|im_end|>\n<|im_start|>assistant\n"));
  options.raw = true;
  EXPECT_EQ(failure_of(options), ErrorKind::Usage);
}

}  // namespace
}  // namespace kvloupe::capture
