// Gemma 3 270M, the real weights, against transformers (tests/tools/make_gemma3_golden.py) and llama.cpp's
// token ids. Skipped where nobody has accepted its terms and fetched it.
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/model/optional_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

namespace kvloupe::capture {
namespace {

class Gemma3 : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::filesystem::exists(file_of(*find_optional_model("gemma3-270m"))))
      model = load_model("gemma3-270m");
  }
  static void TearDownTestSuite() { model.reset(); }
  void SetUp() override {
    if (!model) GTEST_SKIP() << "not fetched: cmake/deps.sh model gemma3-270m fetches it";
  }
  static std::shared_ptr<const LoadedModel> model;
};
std::shared_ptr<const LoadedModel> Gemma3::model;

// Sums of |q|, |k| and |v| of each layer.
class Summing final : public AttentionHook {
 public:
  at::Tensor attend(const AttentionCall& call) override {
    for (const at::Tensor& tensor : {call.q, call.k, call.v})
      sums.push_back(tensor.to(at::kDouble).abs().sum().item<double>());
    return DenseAttention().attend(call);
  }
  std::vector<double> sums;
};

TEST_F(Gemma3, IsWhatTransformersComputes) {
  std::ifstream stream(std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../data/capture/gemma3_270m.json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  ASSERT_EQ(golden.size(), 2U);
  for (const auto& prompt : golden) {
    const auto ids = prompt["ids"].get<std::vector<std::int32_t>>();
    Decoder decoder(model, {static_cast<std::int64_t>(ids.size())});
    Summing summing;
    const at::Tensor logits = decoder.forward(ids, summing);
    const auto top = prompt["top"].get<std::vector<std::int64_t>>();
    for (std::size_t i = 0; i < top.size(); ++i)
      EXPECT_NEAR(logits[top[i]].item<double>(), prompt["logits"][i].get<double>(), 2e-3) << top[i];
    EXPECT_EQ(logits.argmax().item<std::int64_t>(), top[0]);
    ASSERT_EQ(summing.sums.size(), 3 * prompt["sums"].size());
    for (std::size_t i = 0; i < summing.sums.size(); ++i) {
      const double want = prompt["sums"][i / 3][i % 3].get<double>();
      EXPECT_NEAR(summing.sums[i], want, 1e-4 * want) << "layer " << i / 3;
    }
  }
}

TEST_F(Gemma3, SplitsTextAsLlamaCppDoes) {
  EXPECT_EQ(model->tokenizer.encode("The capital of France is", SpecialTokens::Literal),
            (std::vector<std::int32_t>{818, 5279, 529, 7001, 563}));
  EXPECT_EQ(model->tokenizer.bos(), 2);
  EXPECT_TRUE(model->tokenizer.adds_bos());
}

TEST_F(Gemma3, KnowsItsWindowsAndEmbeddings) {
  for (int layer = 0; layer < model->info.num_layers; ++layer) {
    const bool full = (layer + 1) % 6 == 0;
    EXPECT_EQ(model->info.softmax_of(layer).window, full ? 0 : 512) << layer;
    EXPECT_EQ(model->ropes.at(model->rope_of_layer.at(layer)).theta, full ? 1e6 : 1e4) << layer;
  }
  EXPECT_EQ(model->info.softmax_scale, 0.0625);
}

}  // namespace
}  // namespace kvloupe::capture
