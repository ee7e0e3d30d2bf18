// Tokenizers of GGUF files: SentencePiece's scores against sentencepiece, the keys that say what is added, and what is
// refused.
#include "capture/text/gguf_tokenizer.h"

#include "capture/text/prompt.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/capture/gguf_builder.h"
#include "tests/capture/tiny_vocabulary.h"
#include "tests/capture/tokenizer_goldens.h"

#include <nlohmann/json.hpp>

#include <functional>

namespace kvloupe::capture {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const json& scored() {
  static const json file = read_json(kTokenizers / "sentencepiece.json");
  return file;
}

void add_scores(GgufBuilder& builder, const std::vector<float>& scores) {
  std::string payload;
  append<std::uint32_t>(payload, 6);
  append<std::uint64_t>(payload, scores.size());
  for (const float score : scores) append(payload, score);
  builder.add_raw("tokenizer.ggml.scores", 9, payload);
}

// A file with the vocabulary of sentencepiece.json, `added` plain tokens that merge before all others, and whatever `more`
// adds.
Tokenizer scored_tokenizer(const std::function<void(GgufBuilder&)>& more = {},
                           std::size_t num_scores = SIZE_MAX,
                           const std::vector<std::string>& added = {}) {
  auto tokens = scored()["tokens"].get<std::vector<std::string>>();
  auto types = scored()["types"].get<Ids>();
  GgufBuilder builder;
  builder.add_text("tokenizer.ggml.model", "llama");
  tokens.insert(tokens.end(), added.begin(), added.end());
  types.resize(tokens.size(), static_cast<int>(TokenType::Normal));
  builder.add_texts("tokenizer.ggml.tokens", tokens);
  builder.add_ints("tokenizer.ggml.token_type", types);
  auto scores = scored()["scores"].get<std::vector<float>>();
  scores.resize(std::min(num_scores, scores.size()));
  scores.resize(scores.size() + added.size(), 1.0F);
  add_scores(builder, scores);
  builder.add_u32("tokenizer.ggml.bos_token_id", 1);
  builder.add_u32("tokenizer.ggml.eos_token_id", 2);
  if (more) more(builder);
  const TemporaryFolder folder;
  builder.write(folder / "t.gguf");
  return read_tokenizer(GgufFile(folder / "t.gguf"));
}

TEST(GgufTokenizer, ScoresAgreeWithSentencePiece) {
  const Tokenizer tokenizer = scored_tokenizer();
  ASSERT_GT(scored()["goldens"].size(), 45U);
  for (const json& golden : scored()["goldens"]) {
    const auto text = golden["text"].get<std::string>();
    const Encoding encoding = tokenizer.encode_with_offsets(text, SpecialTokens::Literal);
    EXPECT_EQ(encoding.ids, golden["ids"].get<Ids>()) << text;
    // A sign of a space in the text itself is three bytes of it, and one when it is decoded.
    if (text.empty() || text.find("\u2581") != text.npos) continue;
    EXPECT_EQ(tokenizer.decode(encoding.ids), " " + text);
    std::size_t begin = 0;  // with the space in front
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
      EXPECT_EQ(encoding.begins[i], begin == 0 ? 0 : begin - 1) << text;
      begin += tokenizer.decode_bytes(encoding.ids[i]).size();
    }
  }
}

TEST(GgufTokenizer, KeysSayWhatIsAdded) {
  const Tokenizer usual = scored_tokenizer();
  EXPECT_TRUE(usual.adds_bos());
  EXPECT_EQ(raw_prompt(usual, "a").ids.front(), 1);
  EXPECT_TRUE(usual.ends_answer(2));
  EXPECT_EQ(usual.special_id("<s>"), 1);
  EXPECT_EQ(usual.encode("x<s>", SpecialTokens::Parse).back(), 1);
  const Tokenizer bare = scored_tokenizer([](GgufBuilder& builder) {
    builder.add_bool("tokenizer.ggml.add_bos_token", false);
    builder.add_bool("tokenizer.ggml.add_space_prefix", false);
    builder.add_u32("tokenizer.ggml.eot_token_id", 7);
  });
  EXPECT_FALSE(bare.adds_bos());
  EXPECT_TRUE(bare.ends_answer(7));
  EXPECT_EQ(bare.decode(bare.encode("a b", SpecialTokens::Literal)), "a b");
  EXPECT_EQ(raw_prompt(bare, "a").ids, bare.encode("a", SpecialTokens::Literal));
}

// A file with this vocabulary, whose answers end by the token 0.
Tokenizer tokenizer_of(const TokenizerData& data) {
  GgufBuilder builder;
  builder.add_text("tokenizer.ggml.model", "gpt2");
  builder.add_text("tokenizer.ggml.pre", data.pre_tokenizer);
  builder.add_texts("tokenizer.ggml.tokens", data.tokens);
  builder.add_ints("tokenizer.ggml.token_type", data.types);
  builder.add_texts("tokenizer.ggml.merges", data.merges);
  builder.add_u32("tokenizer.ggml.eos_token_id", 0);
  builder.add_text("tokenizer.chat_template", data.chat_template);
  const TemporaryFolder folder;
  builder.write(folder / "t.gguf");
  return read_tokenizer(GgufFile(folder / "t.gguf"));
}

// As in files of Gemma 3 that Google quantised.
TEST(GgufTokenizer, MarkersThatAFileCallsPlainTextAreControlTokens) {
  const TokenizerData sound = tiny_vocabulary();
  TokenizerData plain = sound;
  for (std::size_t id = 0; id < 3; ++id) plain.types[id] = static_cast<int>(TokenType::Normal);
  const Tokenizer right = tokenizer_of(sound), mended = tokenizer_of(plain);
  const std::vector<Message> chat = {{"user", "hello <|im_end|> world"}};
  EXPECT_EQ(chat_prompt(mended, chat, {}, "").ids, chat_prompt(right, chat, {}, "").ids);
  for (const std::int32_t id : {0, 1, 2}) {
    EXPECT_TRUE(mended.is_special(id)) << id;
    EXPECT_EQ(mended.ends_answer(id), right.ends_answer(id)) << id;
  }
  EXPECT_TRUE(mended.ends_answer(2)) << "<|im_end|>";
  // llama.cpp takes these for control tokens whatever else they are called.
  plain.types[2] = static_cast<int>(TokenType::UserDefined);
  EXPECT_TRUE(tokenizer_of(plain).ends_answer(2));
}

TEST(GgufTokenizer, WhatTextIsMadeOfIsNoMarker) {
  const auto markers = [](TokenizerData data) { return type_markers(data); };
  TokenizerData merged = tiny_vocabulary({"< /", "</ s", "</s >"});
  merged.chat_template += "</s>";
  EXPECT_THAT(markers(merged), IsEmpty()) << "merges make it of text";
  TokenizerData alone = tiny_vocabulary();
  alone.tokens.emplace_back("</s>");
  alone.types.push_back(static_cast<int>(TokenType::Normal));
  EXPECT_THAT(markers(alone), IsEmpty()) << "it may end what HTML strikes out";
  alone.chat_template += "{{ 'a' if 1 < 2 else '</s>' }}";
  EXPECT_THAT(markers(alone), ElementsAre("</s>"));
  TokenizerData tool = alone;
  tool.types.back() = static_cast<int>(TokenType::UserDefined);
  EXPECT_THAT(markers(tool), IsEmpty()) << "found in any text, as transformers finds it";
}

// No merges say which tokens text is made into, and a template may hold HTML.
TEST(GgufTokenizer, OfSentencePiecesTokensClearNamesAloneAreMarkers) {
  const Tokenizer tokenizer = scored_tokenizer(
      [](GgufBuilder& builder) {
        builder.add_text("tokenizer.chat_template",
                         "<b>Hi</b><|user|><start_of_turn><end_of_thought>");
      },
      SIZE_MAX, {"<b", "<b>", "<|user|>", "<start_of_turn>", "<end_of_thought>"});
  const auto of_html = tokenizer.encode("x<b>", SpecialTokens::Literal);
  EXPECT_EQ(tokenizer.decode_bytes(of_html.back()), "<b>");
  EXPECT_FALSE(tokenizer.is_special(of_html.back()));
  for (const char* marker : {"<|user|>", "<start_of_turn>", "<end_of_thought>"})
    EXPECT_GE(tokenizer.special_id(marker), 0) << marker;
}

TEST(GgufTokenizer, InvalidBytesBecomeTheReplacementCharacter) {
  const Tokenizer tokenizer = scored_tokenizer();
  const Encoding encoding = tokenizer.encode_with_offsets(
      "a\xff\xfe"
      "b",
      SpecialTokens::Literal);
  EXPECT_EQ(tokenizer.decode(encoding.ids),
            " a\ufffd\ufffd"
            "b");
  EXPECT_EQ(encoding.begins.back(), 3U);
  EXPECT_EQ(tokenizer.dropped_bytes(), 2);
}

TEST(GgufTokenizer, WhatIsMissingOrContradictsItselfIsRefused) {
  const auto refusal = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal([] { scored_tokenizer({}, 5); }), HasSubstr("scores"));
  EXPECT_THAT(
      refusal([] {
        scored_tokenizer([](GgufBuilder& b) { b.add_u32("tokenizer.ggml.eom_token_id", 9999); });
      }),
      HasSubstr("outside"));
  const auto of_model = [&](const char* model) {
    return refusal([&] {
      GgufBuilder builder;
      builder.add_text("tokenizer.ggml.model", model);
      const TemporaryFolder folder;
      builder.write(folder / "t.gguf");
      read_tokenizer(GgufFile(folder / "t.gguf"));
    });
  };
  EXPECT_THAT(of_model("bert"), HasSubstr("bert"));
  EXPECT_THAT(of_model("llama"), HasSubstr("empty"));
  EXPECT_THAT(of_model("gpt2"), HasSubstr("does not say how text is cut"));
}

}  // namespace
}  // namespace kvloupe::capture
