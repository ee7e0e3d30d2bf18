// The bundled model against goldens of transformers and PyPI tokenizers, which
// tests/tools/make_goldens.py makes. Fails when the set-up has not fetched the model.
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/text/prompt.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

namespace kvloupe::capture {
namespace {

using Ids = std::vector<std::int32_t>;

const std::filesystem::path kGoldens =
    std::filesystem::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/capture";

nlohmann::json read_json(const std::string& name) {
  std::ifstream file(kGoldens / name);
  EXPECT_TRUE(file) << kGoldens / name;
  return nlohmann::json::parse(file);
}

std::shared_ptr<const LoadedModel> smollm2() {
  static const auto model = load_model("smollm2");
  return model;
}

Ids encode(const std::string& text, SpecialTokens special = SpecialTokens::Literal) {
  return smollm2()->tokenizer.encode(text, special);
}

TEST(SmolLm2, ConfigurationIsThatOfTheFile) {
  const auto model = smollm2();
  EXPECT_EQ(model->info.num_layers, 30);
  EXPECT_EQ(model->info.num_q_heads, 9);
  EXPECT_EQ(model->info.num_kv_heads, 3);
  EXPECT_EQ(model->info.head_dim, 64);
  EXPECT_EQ(model->info.hidden_size, 576);
  EXPECT_EQ(model->context_length, 8192);
  EXPECT_EQ(model->vocab_size, 49152);
  EXPECT_EQ(model->info.rope_theta, 100000);
  EXPECT_EQ(model->info.softmax_scale, 0.125);
  EXPECT_EQ(model->info.layer_types.size(), 30U);
  EXPECT_EQ(model->info.file_hash,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

TEST(SmolLm2Tokenizer, KnownIds) {
  EXPECT_EQ(encode("Hello world"), (Ids{19556, 905}));
  EXPECT_EQ(encode("One of the special magic numbers for agile-cat is: 1234567."),
            (Ids{2705, 282, 260, 1767, 9019, 2966, 327, 31888, 29, 9786, 314,
                 42,   216, 33,  34,   35,   36,   37,  38,    39, 30}));
  EXPECT_EQ(encode("  two  spaces\n\n\tTab's don't"),
            (Ids{216, 827, 216, 5600, 1116, 197, 30064, 506, 1326, 982}));
  EXPECT_EQ(encode("naïve café — 日本語 🙂"),
            (Ids{3546, 46494, 37366, 1841, 17097, 241, 115, 40993, 179, 120, 248, 47526}));
  EXPECT_EQ(encode("<|im_start|>user\nHi<|im_end|>\n", SpecialTokens::Parse),
            (Ids{1, 4093, 198, 26843, 2, 198}));
  EXPECT_EQ(encode("The grass is green. The sky is blue. The sun is yellow. Here we go. There and "
                   "back again."),
            (Ids{504, 5372, 314, 2654, 30,  378, 6376, 314,  4461, 30,   378,  2388,
                 314, 5724, 30,  3726, 392, 685, 30,   1385, 284,  1056, 1163, 30}));
}

TEST(SmolLm2Tokenizer, AgreesWithTheReferenceOnTrickyTexts) {
  const auto golden = read_json("tokenizer.json");
  ASSERT_GT(golden["texts"].size(), 200U);
  for (const auto& item : golden["texts"]) {
    const auto text = item["text"].get<std::string>();
    EXPECT_EQ(encode(text), item["literal"].get<Ids>()) << text;
    EXPECT_EQ(encode(text, SpecialTokens::Parse), item["parsed"].get<Ids>()) << text;
  }
}

TEST(SmolLm2Tokenizer, RoundTripButForTheBytesWithoutToken) {
  const std::string without(
      "\x04\x06\x13\x14\x16\x1d\xc0\xc1\xf1\xf2\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc"
      "\xfd\xfe\xff");
  ASSERT_EQ(without.size(), 21U);
  const Tokenizer& tokenizer = smollm2()->tokenizer;
  std::mt19937 random(11);
  std::string text = "Some prose first, naïve café — 日本語 🙂. ";
  for (int i = 0; i < 50000; ++i) text += static_cast<char>(random());
  std::string expected;
  for (const char c : text) {
    if (without.find(c) == std::string::npos) expected += c;
  }
  const auto dropped_before = tokenizer.dropped_bytes();
  EXPECT_EQ(tokenizer.decode(encode(text)), expected);
  EXPECT_EQ(tokenizer.dropped_bytes() - dropped_before,
            static_cast<std::int64_t>(text.size() - expected.size()));
}

TEST(SmolLm2Tokenizer, ChatPromptEqualsTheRenderedTemplate) {
  const auto golden = read_json("tokenizer.json");
  ASSERT_GT(golden["chats"].size(), 0U);
  for (const auto& chat : golden["chats"]) {
    std::vector<Message> messages;
    for (const auto& message : chat["messages"]) {
      messages.push_back({message["role"], message["content"]});
    }
    const Prompt prompt =
        chat_prompt(smollm2()->tokenizer, messages, {}, chat["prefix"].get<std::string>());
    EXPECT_EQ(prompt.ids, chat["ids"].get<Ids>()) << chat.dump();
  }
}

// Keeps q, k, v rows at the golden's positions.
class RowRecorder final : public AttentionHook {
 public:
  explicit RowRecorder(std::vector<std::int64_t> positions) : positions_(std::move(positions)) {}

  at::Tensor attend(const AttentionCall& call) override {
    if (rows.size() <= static_cast<std::size_t>(call.layer)) rows.resize(call.layer + 1);
    const std::int64_t chunk = call.q.size(1);
    for (const std::int64_t position : positions_) {
      const std::int64_t t = position - call.past_len;
      if (t < 0 || t >= chunk) continue;
      rows[call.layer].push_back(at::cat({call.q.select(1, t), call.k.select(1, position),
                                          call.v.select(1, position)}));  // [heads, head_dim]
    }
    return dense_.attend(call);
  }

  std::vector<std::vector<at::Tensor>> rows;  // [layer][position]

 private:
  std::vector<std::int64_t> positions_;
  DenseAttention dense_;
};

// [layers, heads, positions, head_dim] of the golden.
at::Tensor golden_rows(const std::string& name, std::int64_t positions) {
  std::ifstream file(kGoldens / name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  at::Tensor rows = at::empty({30, 9 + 3 + 3, positions, 64}, at::kHalf);
  EXPECT_EQ(bytes.size(), static_cast<std::size_t>(rows.numel()) * 2);
  std::copy_n(bytes.data(), std::min<std::size_t>(bytes.size(), rows.numel() * 2),
              static_cast<char*>(rows.data_ptr()));
  return rows.to(at::kFloat);
}

double cosine(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.flatten().to(at::kDouble);
  const at::Tensor y = b.flatten().to(at::kDouble);
  return (at::dot(x, y) / (x.norm() * y.norm())).item<double>();
}

void compare_rows(const RowRecorder& recorder, const at::Tensor& expected) {
  for (int layer = 0; layer < 30; ++layer) {
    const at::Tensor rows = at::stack(recorder.rows[layer], 1);  // [heads, positions, head_dim]
    const auto part = [&](const at::Tensor& t, int begin, int count) {
      return t.narrow(0, begin, count);
    };
    EXPECT_GT(cosine(part(rows, 0, 9), part(expected[layer], 0, 9)), 0.9999) << "q " << layer;
    EXPECT_GT(cosine(part(rows, 9, 3), part(expected[layer], 9, 3)), 0.9999) << "k " << layer;
    EXPECT_GT(cosine(part(rows, 12, 3), part(expected[layer], 12, 3)), 0.9999) << "v " << layer;
  }
}

// Follows the golden's greedy tokens; another token is allowed, and counted, where the reference's
// two largest logits lie within 1e-3.
void compare_greedy(const nlohmann::json& golden, Decoder& decoder, at::Tensor logits) {
  DenseAttention dense;
  const auto expected = golden["greedy"].get<Ids>();
  ASSERT_EQ(expected.size(), 32U);
  int allowed = 0;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    const auto best = static_cast<std::int32_t>(logits.argmax().item<std::int64_t>());
    if (best != expected[step]) {
      EXPECT_LT(golden["greedy_margins"][step].get<double>(), 1e-3) << "step " << step;
      ++allowed;
    }
    logits = decoder.forward(std::span(expected).subspan(step, 1), dense);
  }
  ::testing::Test::RecordProperty("other_tokens_within_1e-3", allowed);
}

class SmolLm2Forward : public testing::TestWithParam<int> {};

TEST_P(SmolLm2Forward, AgreesWithTransformers) {
  const std::string name = "smollm2_" + std::to_string(GetParam());
  const auto golden = read_json(name + ".json");
  const auto ids = golden["ids"].get<Ids>();
  ASSERT_EQ(ids.size(), static_cast<std::size_t>(GetParam()));
  const auto positions = golden["positions"].get<std::vector<std::int64_t>>();
  RowRecorder recorder(positions);
  Decoder decoder(smollm2(), {GetParam() + 32, false});
  constexpr std::size_t kChunk = 128;
  at::Tensor logits;
  for (std::size_t begin = 0; begin < ids.size(); begin += kChunk) {
    logits = decoder.forward(std::span(ids).subspan(begin, kChunk), recorder,
                             begin + kChunk == ids.size());
  }
  compare_rows(recorder, golden_rows(name + ".f16", static_cast<std::int64_t>(positions.size())));
  double largest = 0;
  for (std::size_t i = 0; i < golden["logit_ids"].size(); ++i) {
    const double actual = logits[golden["logit_ids"][i].get<std::int64_t>()].item<double>();
    largest = std::max(largest, std::abs(actual - golden["logits"][i].get<double>()));
  }
  EXPECT_LT(largest, 1e-3);
  RecordProperty("largest_logit_difference", std::to_string(largest));
  compare_greedy(golden, decoder, logits);
}

INSTANTIATE_TEST_SUITE_P(Prompts, SmolLm2Forward, testing::Values(256, 2048));

}  // namespace
}  // namespace kvloupe::capture
