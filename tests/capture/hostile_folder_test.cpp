// Hugging Face folders that are incomplete, contradict themselves or were made to do harm: each gets its
// sentence, and nothing of what it claims is allocated.
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"

#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kModels = fs::path(KVLOUPE_TEST_SOURCE_DIR).parent_path() / "data/models";

class HostileFolder : public ::testing::Test {
 protected:
  // A copy of a tiny model in the test's own folder.
  void take(const std::string& family) {
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (const auto& entry : fs::directory_iterator(kModels / family))
      if (entry.path().extension() != ".gguf")
        fs::copy_file(entry.path(), folder / entry.path().filename());
  }
  std::string text(const std::string& file) const {
    std::ifstream stream(folder / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& file, const std::string& content) const {
    std::ofstream(folder / file, std::ios::binary) << content;
  }
  void change_json(const std::string& file, const std::function<void(json&)>& change) const {
    json content = json::parse(text(file));
    change(content);
    write(file, content.dump());
  }
  // The header of a safetensors file, its bytes as they were.
  void change_header(const std::string& file, const std::function<void(json&)>& change) const {
    const std::string bytes = text(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    json header = json::parse(bytes.substr(8, length));
    change(header);
    const std::string changed = header.dump();
    length = changed.size();
    std::string out(reinterpret_cast<const char*>(&length), sizeof length);
    std::uint64_t old = 0;
    std::memcpy(&old, bytes.data(), sizeof old);
    write(file, out + changed + bytes.substr(8 + old));
  }
  std::string refusal() const {
    try {
      load_model(folder.string());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_FALSE(error.remedy().empty());
      return error.what();
    }
    return "loaded";
  }
  std::string with_config(const std::function<void(json&)>& change) {
    take("qwen3");
    change_json("config.json", change);
    return refusal();
  }

  const fs::path folder = "model";
};

TEST_F(HostileFolder, WithoutHarmItLoads) {
  take("qwen3");
  EXPECT_EQ(refusal(), "loaded");
  take("olmoe");
  EXPECT_EQ(refusal(), "loaded");
}

TEST_F(HostileFolder, FilesThatAreMissingOrNoFiles) {
  for (const auto& [model, file] : {std::pair{"qwen3", "config.json"},
                                    {"qwen3", "model.safetensors"},
                                    {"qwen3", "tokenizer.json"},
                                    {"olmoe", "model-00002-of-00002.safetensors"}}) {
    take(model);
    fs::remove(folder / file);
    EXPECT_THAT(refusal(), HasSubstr(file));
  }
  take("qwen3");
  fs::remove(folder / "config.json");
  fs::create_symlink("config.json", folder / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("config.json"));
  take("qwen3");
  fs::remove(folder / "config.json");
  ASSERT_EQ(::mkfifo((folder / "config.json").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("not a regular file"));
  fs::remove_all("circle");
  fs::create_directory_symlink("circle", "circle");
  EXPECT_THROW(load_model("circle"), Error);
}

TEST_F(HostileFolder, AnIndexThatLeadsElsewhere) {
  for (const std::string name : {"../model.safetensors", "/etc/passwd", ".hidden", ""}) {
    take("olmoe");
    change_json("model.safetensors.index.json",
                [&](json& index) { index["weight_map"]["lm_head.weight"] = name; });
    EXPECT_THAT(refusal(), HasSubstr("no file of the folder")) << name;
  }
  take("olmoe");
  change_json("model.safetensors.index.json", [](json& index) {
    index["weight_map"]["model.layers.9.mlp.gate.weight"] = "model-00001-of-00002.safetensors";
  });
  EXPECT_THAT(refusal(), HasSubstr("model.layers.9.mlp.gate.weight"));
  take("olmoe");
  write("model.safetensors.index.json", "[]");
  EXPECT_THAT(refusal(), HasSubstr("not a JSON object"));
}

// To copy what nests so deep takes more stack than there is.
TEST_F(HostileFolder, AConfigurationThatNestsWithoutEnd) {
  constexpr std::size_t kDepth = 400000;
  take("qwen3");
  write("config.json", R"({"model_type": "qwen3", "text_config": {"a": )" +
                           std::string(kDepth, '[') + std::string(kDepth, ']') + "}}");
  EXPECT_THAT(refusal(), HasSubstr("nests without end"));
}

TEST_F(HostileFolder, WeightsThatAreNotWhatTheyClaim) {
  take("qwen3");
  write("model.safetensors", text("model.safetensors").substr(0, 5000));
  EXPECT_THAT(refusal(), HasSubstr("not"));
  take("qwen3");
  write("model.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  EXPECT_THAT(refusal(), HasSubstr("longer than the file"));
  take("qwen3");
  change_header("model.safetensors",
                [](json& header) { header["model.norm.weight"]["dtype"] = "I32"; });
  EXPECT_THAT(refusal(), HasSubstr("I32"));
  take("qwen3");
  change_header("model.safetensors", [](json& header) {
    header["model.layers.1.self_attn.q_norm.weight"]["shape"] = {4, 4};
  });
  EXPECT_THAT(refusal(), HasSubstr("has the shape [4, 4]"));
  take("qwen3");
  change_header("model.safetensors", [](json& header) { header.erase("model.norm.weight"); });
  EXPECT_THAT(refusal(), HasSubstr("model.norm is missing"));
  take("qwen3");
  change_header("model.safetensors", [](json& header) {
    header["model.layers.0.mlp.shared.weight"] = header["model.norm.weight"];
  });
  EXPECT_THAT(refusal(), HasSubstr("model.layers.0.mlp.shared.weight"));
}

TEST_F(HostileFolder, ConfigurationsThatMakeNoSense) {
  take("qwen3");
  write("config.json", "{");
  EXPECT_THAT(refusal(), HasSubstr("config.json"));
  EXPECT_THAT(with_config([](json& c) { c.erase("num_hidden_layers"); }),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with_config([](json& c) { c["num_hidden_layers"] = -1; }),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with_config([](json& c) { c["num_hidden_layers"] = 1e300; }),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with_config([](json& c) { c["num_hidden_layers"] = 4096; }), HasSubstr("missing"));
  EXPECT_THAT(with_config([](json& c) { c["num_hidden_layers"] = 4097; }),
              HasSubstr("at most 4096"));
  EXPECT_THAT(with_config([](json& c) { c["hidden_size"] = "many"; }), HasSubstr("hidden_size"));
  EXPECT_THAT(with_config([](json& c) { c["hidden_size"] = 1 << 24; }), HasSubstr("shape"));
  EXPECT_THAT(with_config([](json& c) { c["num_key_value_heads"] = 3; }), HasSubstr("evenly"));
  EXPECT_THAT(with_config([](json& c) { c["head_dim"] = 7; }), HasSubstr("not even"));
  EXPECT_THAT(with_config([](json& c) { c["rms_norm_eps"] = -1; }), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(with_config([](json& c) { c["model_type"] = "mamba"; }), HasSubstr("mamba"));
  EXPECT_THAT(with_config([](json& c) { c["hidden_act"] = "relu"; }), HasSubstr("relu"));
  EXPECT_THAT(with_config([](json& c) {
                c["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 1e4}};
              }),
              HasSubstr("dynamic"));
  EXPECT_THAT(
      with_config([](json& c) {
        c["rope_parameters"] = {{"rope_type", "linear"}, {"rope_theta", 1e4}, {"factor", 0}};
      }),
      HasSubstr("factor"));
  EXPECT_THAT(with_config([](json& c) {
                c["use_sliding_window"] = true;
                c["sliding_window"] = -4;
              }),
              HasSubstr("sliding_window"));
  EXPECT_THAT(with_config([](json& c) {
                c["use_sliding_window"] = true;
                c["sliding_window"] = 4;
                c["layer_types"] = {"sliding_attention"};
              }),
              HasSubstr("layer_types"));
  take("olmoe");
  change_json("config.json", [](json& c) { c["num_experts_per_tok"] = 99; });
  EXPECT_THAT(refusal(), HasSubstr("experts"));
}

// The published configuration of the 4B has little more than sizes.
TEST_F(HostileFolder, WhatAGemmaLeavesUnsaidIsWhatItsClassFillsIn) {
  take("gemma3_text");
  change_json("config.json", [](json& c) {
    for (const char* key : {"num_attention_heads", "num_key_value_heads", "head_dim", "rope_theta",
                            "max_position_embeddings", "query_pre_attn_scalar", "sliding_window",
                            "rope_local_base_freq", "rope_parameters"})
      c.erase(key);
  });
  const ModelConfig config = read_config(*open_model(folder));
  EXPECT_EQ(config.info.num_q_heads, 8);
  EXPECT_EQ(config.info.num_kv_heads, 4);
  EXPECT_EQ(config.info.head_dim, 256);
  EXPECT_EQ(config.context_length, 131072);
  EXPECT_EQ(config.info.rope_theta, 1e6);
  EXPECT_EQ(config.info.softmax_scale, 1.0 / 16);
  EXPECT_EQ(config.info.softmax_of(0).window, 4096);
  change_json("config.json", [](json& c) { c["use_bidirectional_attention"] = true; });
  EXPECT_THAT(refusal(), HasSubstr("attention to later tokens is not implemented"));
  take("gemma3_text");
  change_json("config.json", [](json& c) {
    c["rope_parameters"]["sliding_attention"] = {{"rope_type", "linear"}, {"factor", 3}};
  });
  EXPECT_THAT(refusal(), HasSubstr("RoPE scaling \"linear\" of its layers with a window"));
}

// Of the file's own frequencies nothing is said but they: what they were made from is not in the file.
TEST_F(HostileFolder, AGgufFilesDivisorsAreToldAlone) {
  const ModelConfig config = read_config(*open_model(kModels / "llama/model.gguf"));
  const json rope = json::parse(config.info.rope_scaling);
  EXPECT_EQ(rope.size(), 3U) << rope;
  EXPECT_EQ(rope["rope_type"], "llama3");
  EXPECT_EQ(rope["rope_theta"], config.info.rope_theta);
  EXPECT_EQ(2 * rope["divisors"].size(), static_cast<std::size_t>(config.info.head_dim));
}

// In transformers' own order: in the scaling, else at the top of the file.
TEST_F(HostileFolder, TheOriginalContextIsReadFromTheTopToo) {
  const auto original = [&] { return read_config(*open_model(folder)).ropes.front(); };
  take("llama");
  change_json("config.json", [](json& c) {
    c.erase("rope_parameters");
    c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
    c["original_max_position_embeddings"] = 77;
  });
  EXPECT_EQ(original().original_context, 77);
  change_json("config.json",
              [](json& c) { c["rope_scaling"]["original_max_position_embeddings"] = 55; });
  EXPECT_EQ(original().original_context, 55);
}

// Transformers gives all layers of this family one mask, and norms no shares unless told to.
TEST_F(HostileFolder, WindowsOfQwenWithExpertsAreOfAllLayers) {
  take("qwen3_moe");
  change_json("config.json", [](json& c) {
    c["use_sliding_window"] = true;
    c["sliding_window"] = 5;
    c["max_window_layers"] = 2;
    c.erase("norm_topk_prob");
  });
  const ModelConfig config = read_config(*open_model(folder));
  for (int layer = 0; layer < config.info.num_layers; ++layer)
    EXPECT_EQ(config.info.softmax_of(layer).window, 5) << layer;
  EXPECT_FALSE(config.experts.renormalised);
}

TEST_F(HostileFolder, FilesThatAreFarTooLarge) {
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    take("qwen3");
    fs::resize_file(folder / file, std::uintmax_t{1} << 30);  // a hole
    EXPECT_THAT(refusal(), HasSubstr(file));
  }
}

TEST_F(HostileFolder, ATokenizerOfAnotherModel) {
  take("qwen3");
  change_header("model.safetensors", [](json& header) {
    json& embedding = header["model.embed_tokens.weight"];
    const auto columns = embedding["shape"][1].get<std::uint64_t>();
    const auto begin = embedding["data_offsets"][0].get<std::uint64_t>();
    embedding["shape"] = {3, columns};
    embedding["data_offsets"] = {begin, begin + 3 * columns * 4};
    json& output = header["lm_head.weight"];
    const auto at = output["data_offsets"][0].get<std::uint64_t>();
    output["shape"] = {3, columns};
    output["data_offsets"] = {at, at + 3 * columns * 4};
  });
  EXPECT_THAT(refusal(), HasSubstr("tokens"));
  take("qwen3");
  change_json("tokenizer.json", [](json& file) { file["model"]["vocab"]["zzz"] = 100; });
  EXPECT_THAT(refusal(), HasSubstr("its tokenizer has 101 tokens, its embedding 100"));
}

// As Gemma 3's models of text name a token for images.
TEST_F(HostileFolder, AMarkerBeyondTheEmbeddingIsRefusedWhereItIsUsed) {
  const auto add_marker = [&](bool special) {
    take("gemma3_text");
    change_json("tokenizer.json", [special](json& file) {
      json marker = file["added_tokens"][0];
      marker["id"] = 100;
      marker["content"] = "<image_soft_token>";
      marker["special"] = special;
      file["added_tokens"].push_back(marker);
    });
  };
  add_marker(true);
  ASSERT_EQ(refusal(), "loaded");
  const auto model = load_model(folder.string());
  const auto of_text = model->tokenizer.encode("<image_soft_token>", SpecialTokens::Literal);
  const auto marker = model->tokenizer.encode("<image_soft_token>", SpecialTokens::Parse);
  ASSERT_EQ(marker, std::vector<std::int32_t>{100});
  Decoder decoder(model, {64, false});
  DenseAttention dense;
  decoder.forward(of_text, dense);
  EXPECT_THROW(decoder.forward(marker, dense), Error);

  CaptureOptions options;
  options.prompt_text = "a<image_soft_token>";
  options.raw = options.special = options.estimate_only = true;
  const auto estimate = [&]() -> std::string {
    try {
      capture_with(model, options, {}, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "estimated";
  };
  EXPECT_THAT(estimate(), HasSubstr("no row for the token <image_soft_token>"));
  options.special = false;
  EXPECT_EQ(estimate(), "estimated");

  // One that is found in any text is one of the text's.
  add_marker(false);
  EXPECT_THAT(refusal(), HasSubstr("its tokenizer has 101 tokens, its embedding 100"));
}

// Nothing is wrong with such a folder: it is not to be downloaded again.
TEST_F(HostileFolder, WeightsThatAreQuantisedSayByWhat) {
  const auto expect_method = [](const std::string& refusal, const std::string& method) {
    EXPECT_THAT(refusal, HasSubstr("quantised by " + method));
    EXPECT_THAT(refusal, HasSubstr("take a GGUF file"));
  };
  for (const char* method : {"bitsandbytes", "gptq", "awq", "fp8", "compressed-tensors"})
    expect_method(with_config([&](json& c) {
                    c["quantization_config"] = {{"quant_method", method}};
                  }),
                  method);
  expect_method(with_config([](json& c) { c["quantization_config"]["load_in_4bit"] = true; }),
                "bitsandbytes");
  expect_method(with_config([](json& c) {
                  c["text_config"] = c;
                  c["quantization_config"] = {{"quant_method", "fp8"}};
                }),
                "fp8");
  expect_method(with_config([](json& c) {
                  c["text_config"] = c;
                  c["text_config"]["quantization_config"] = {{"quant_method", "awq"}};
                }),
                "awq");
  EXPECT_EQ(with_config([](json& c) { c["quantization_config"] = nullptr; }), "loaded");
  take("gpt_oss");
  change_json("config.json", [](json& c) {
    c["quantization_config"] = {{"quant_method", "mxfp4"}};
  });
  EXPECT_EQ(refusal(), "loaded");
}

}  // namespace
}  // namespace kvloupe::capture
