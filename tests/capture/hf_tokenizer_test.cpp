// tokenizer.json files against PyPI's tokenizers: ids and offsets of texts in many scripts, which
// tests/tools/make_tokenizer_goldens.py writes; and files that cannot be mapped.
#include "capture/text/hf_tokenizer.h"

#include "capture/text/tokenizer_json.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/capture/tokenizer_goldens.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// Where the characters begin that hold these bytes: what the reference tells.
std::vector<std::size_t> at_characters(const std::string& text, std::vector<std::size_t> begins) {
  for (std::size_t& begin : begins)
    while (begin > 0 && begin < text.size() &&
           (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80)
      --begin;
  return begins;
}

void compare(const Tokenizer& tokenizer, const std::string& text, SpecialTokens special,
             const json& golden) {
  const Encoding encoding = tokenizer.encode_with_offsets(text, special);
  EXPECT_EQ(encoding.ids, golden["ids"].get<Ids>()) << text;
  EXPECT_EQ(at_characters(text, encoding.begins), golden["begins"].get<std::vector<std::size_t>>())
      << text;
}

class SmallVocabulary : public testing::TestWithParam<std::string> {};

TEST_P(SmallVocabulary, AgreesWithTokenizers) {
  const Tokenizer tokenizer = read_hf_tokenizer(kTokenizers / GetParam());
  const json goldens = read_json(kTokenizers / "goldens.json")["kinds"][GetParam()];
  ASSERT_GT(goldens.size(), 45U);
  for (const json& golden : goldens) {
    const auto text = golden["text"].get<std::string>();
    compare(tokenizer, text, SpecialTokens::Literal, golden);
    compare(tokenizer, text, SpecialTokens::Parse,
            golden.contains("parsed") ? golden["parsed"] : golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SmallVocabulary,
                         testing::Values("gpt2", "smollm", "llama3", "qwen2", "gpt4o", "llama2",
                                         "mistral", "words", "gemma"),
                         [](const auto& each) { return each.param; });

fs::path vocabularies() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  return (cache ? fs::path(cache) : fs::path(home ? home : "/") / ".cache") /
         "kvloupe/vocabularies";
}

class RealVocabulary : public testing::TestWithParam<std::string> {};

TEST_P(RealVocabulary, AgreesWithTokenizers) {
  const fs::path folder = vocabularies() / GetParam();
  if (!fs::exists(folder / "tokenizer.json"))
    GTEST_SKIP() << "no " << folder << ": tests/tools/make_tokenizer_goldens.py --real makes it";
  const Tokenizer tokenizer = read_hf_tokenizer(folder);
  const json file = read_json(kTokenizers / "real.json");
  const json& goldens = file["goldens"][GetParam()];
  ASSERT_EQ(goldens.size(), file["texts"].size());
  for (std::size_t i = 0; i < goldens.size(); ++i)
    compare(tokenizer, file["texts"][i].get<std::string>(), SpecialTokens::Literal, goldens[i]);
}

INSTANTIATE_TEST_SUITE_P(Models, RealVocabulary,
                         testing::Values("llama3", "qwen2", "gpt_oss", "deepseek", "mistral1",
                                         "mistral3"),
                         [](const auto& each) { return each.param; });

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

TEST(TokenizerJson, WhatCannotBeMappedIsNamed) {
  const json sound = read_json(kTokenizers / "qwen2/tokenizer.json");
  const auto refusal_of = [&](const char* patch) {
    json damaged = sound;
    damaged.merge_patch(json::parse(patch));
    return refusal([&] { Tokenizer(parse_tokenizer_json(damaged.dump())); });
  };
  EXPECT_EQ(refusal_of("{}"), "no error");
  EXPECT_THAT(refusal_of(R"({"model": {"type": "Unigram"}})"), HasSubstr("\"Unigram\" is not BPE"));
  EXPECT_THAT(refusal_of(R"({"model": {"type": "WordPiece"}})"), HasSubstr("WordPiece"));
  EXPECT_THAT(refusal_of(R"({"model": {"dropout": 0.1}})"), HasSubstr("random"));
  EXPECT_THAT(refusal_of(R"({"model": {"end_of_word_suffix": "</w>"}})"),
              HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(refusal_of(R"({"normalizer": {"type": "NFKC"}})"), HasSubstr("normalizer \"NFKC\""));
  EXPECT_THAT(refusal_of(R"({"pre_tokenizer": {"type": "Whitespace", "pretokenizers": null}})"),
              HasSubstr("pre-tokenizer \"Whitespace\""));
  EXPECT_THAT(refusal_of(R"({"pre_tokenizer": null})"), HasSubstr("neither byte-level"));
  EXPECT_THAT(refusal_of(R"({"post_processor": {"type": "BertProcessing"}})"),
              HasSubstr("post-processor \"BertProcessing\""));
  EXPECT_THAT(
      refusal_of(R"({"added_tokens": [{"id": 0, "content": "<|endoftext|>", "lstrip": true}]})"),
      HasSubstr("lstrip"));
  EXPECT_THAT(refusal_of(R"({"added_tokens": [{"id": -4, "content": "x"}]})"), HasSubstr("id -4"));
  EXPECT_THAT(refusal_of(R"({"added_tokens": [{"id": 7, "content": "other"}]})"),
              HasSubstr("id 7"));
  EXPECT_THAT(refusal_of(R"({"model": {"vocab": {"huge": 99999999999}}})"),
              HasSubstr("99999999999"));
  EXPECT_THAT(refusal_of(R"({"model": {"merges": [["a", "b", "c"]]}})"), HasSubstr("merge 0"));
  EXPECT_THAT(refusal_of(R"({"model": {"merges": ["Q Q"]}})"), HasSubstr("merge 0"));
  for (const char* pattern : {"(", "[a&&b]", "a{1,3}+", "\\\\h+"}) {
    json damaged = sound;
    damaged["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] =
        std::string(pattern) == "\\\\h+" ? "\\h+" : pattern;
    EXPECT_THAT(refusal([&] { Tokenizer(parse_tokenizer_json(damaged.dump())); }),
                HasSubstr("regular expression"));
  }
  json many = sound;
  many["post_processor"] = {{"type", "TemplateProcessing"}, {"single", json::array()}};
  for (int i = 0; i < 100; ++i)
    many["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "<s>"}}}});
  EXPECT_THAT(refusal([&] { parse_tokenizer_json(many.dump()); }), HasSubstr("without end"));
  EXPECT_THAT(refusal([] { parse_tokenizer_json("[]"); }), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal([] { parse_tokenizer_json("{\"model\": "); }), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal([] { parse_tokenizer_json("{\"a\":" + std::string(100000, '[')); }),
              HasSubstr("no JSON object"));
}

TEST(HfFolder, TheFilesBesideItNameTheSpecialTokens) {
  const TemporaryFolder folder;
  fs::copy_file(kTokenizers / "llama3/tokenizer.json", folder / "tokenizer.json");
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder / name) << text;
  };
  EXPECT_TRUE(read_hf_tokenizer(folder.path()).adds_bos());  // by its post-processor
  write(
      "tokenizer_config.json",
      R"({"add_bos_token": false, "eos_token": {"content": "<|im_end|>"}, "bos_token": "<|im_start|>",)"
      R"( "chat_template": [{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}]})");
  write("generation_config.json", R"({"eos_token_id": [2, 0, -1, 999999, "x"]})");
  const Tokenizer tokenizer = read_hf_tokenizer(folder.path());
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_TRUE(tokenizer.ends_answer(0) && tokenizer.ends_answer(2));
  EXPECT_FALSE(tokenizer.ends_answer(1) || tokenizer.ends_answer(-1));
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_FALSE(tokenizer.is_special(9) || tokenizer.is_special(1 << 20));
  EXPECT_EQ(tokenizer.chat_template(), "yes");
  write("chat_template.jinja", "of the file");
  EXPECT_EQ(read_hf_tokenizer(folder.path()).chat_template(), "of the file");
}

TEST(HfFolder, DamagedFilesGetTheirSentence) {
  const TemporaryFolder folder;
  const auto sentence = [&] { return refusal([&] { read_hf_tokenizer(folder.path()); }); };
  EXPECT_THAT(sentence(), HasSubstr("has no tokenizer.json"));
  fs::create_symlink("tokenizer.json", folder / "tokenizer.json");  // in a circle
  EXPECT_THAT(sentence(), HasSubstr("a link to none"));
  fs::remove(folder / "tokenizer.json");
  std::ofstream(folder / "tokenizer.json") << "{}";
  fs::resize_file(folder / "tokenizer.json", std::uintmax_t{1} << 30);
  EXPECT_THAT(sentence(), HasSubstr("more than"));
  fs::resize_file(folder / "tokenizer.json", 2);
  EXPECT_THAT(sentence(), HasSubstr("describes no model"));
  fs::copy_file(kTokenizers / "gpt2/tokenizer.json", folder / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder / "tokenizer_config.json") << "{";
  EXPECT_THAT(sentence(), HasSubstr("tokenizer_config.json"));
}

}  // namespace
}  // namespace kvloupe::capture
