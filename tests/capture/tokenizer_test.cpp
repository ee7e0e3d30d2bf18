// Byte-level BPE on small vocabularies: against a slow merge loop, a regular expression, and rules.
#include "capture/text/tokenizer.h"

#include "capture/text/pre_tokenizer.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/capture/tiny_vocabulary.h"

#include <ctime>
#include <functional>
#include <random>
#include <regex>

namespace kvloupe::capture {
namespace {

using Ids = std::vector<std::int32_t>;
using Pieces = std::vector<std::string_view>;

Pieces pre_tokenise_smollm(std::string_view text) {
  static const PreTokenizer smollm(named_pre_tokenizer("smollm")->splits);
  return smollm.split(text);
}

TEST(PreTokenizer, WorkedExamples) {
  EXPECT_THAT(pre_tokenise_smollm("  two  spaces\n\n\tTab's don't"),
              ElementsAre(" ", " two", " ", " spaces", "\n\n", "\t", "Tab", "'s", " don", "'t"));
  EXPECT_THAT(pre_tokenise_smollm("a 12 b"), ElementsAre("a", " ", "1", "2", " b"));
  EXPECT_THAT(pre_tokenise_smollm("a   1  "), ElementsAre("a", "   ", "1", "  "));
  EXPECT_THAT(pre_tokenise_smollm(" '!'s"), ElementsAre(" '!'", "s"));
  // A no-break space is white space but not the space that joins a word.
  EXPECT_THAT(pre_tokenise_smollm("\u00a0x"), ElementsAre("\u00a0", "x"));
  EXPECT_THAT(pre_tokenise_smollm("½é日五"), ElementsAre("½", "é日五"));
  EXPECT_THAT(pre_tokenise_smollm("a\xff\xc3"), ElementsAre("a", "\xff\xc3"));
  EXPECT_TRUE(pre_tokenise_smollm("").empty());
}

// Digits isolated first, then the pattern on what lies between, by the standard library.
std::vector<std::string> pieces_by_regex(const std::string& text) {
  static const std::regex pattern(
      "'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[^\\sA-Za-z0-9]+|\\s+(?!\\S)|\\s+");
  std::vector<std::string> pieces;
  std::string between;
  const auto flush = [&] {
    for (auto it = std::sregex_iterator(between.begin(), between.end(), pattern);
         it != std::sregex_iterator(); ++it) {
      pieces.push_back(it->str());
    }
    between.clear();
  };
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      flush();
      pieces.emplace_back(1, c);
    } else {
      between += c;
    }
  }
  flush();
  return pieces;
}

TEST(PreTokenizer, AgreesWithTheRegularExpressionOnAscii) {
  const std::string alphabet = "abzAZ  \t\n''stremvld019.,!-";
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const auto length = random() % 40;
    for (unsigned i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    const auto pieces = pre_tokenise_smollm(text);
    EXPECT_EQ(std::vector<std::string>(pieces.begin(), pieces.end()), pieces_by_regex(text))
        << text;
  }
}

TEST(Tokenizer, MergesInOrderOfRank) {
  const Tokenizer tokenizer(tiny_vocabulary());
  const Ids ids = tokenizer.encode("hello world", SpecialTokens::Literal);
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(tokenizer.decode_bytes(ids[0]), "hello");
  EXPECT_EQ(tokenizer.decode_bytes(ids[1]), " world");
  // "w or" was never learned without the space.
  EXPECT_EQ(tokenizer.encode("world", SpecialTokens::Literal).size(), 3U);
}

// The definition: again and again the leftmost pair of the lowest rank, over the whole list.
Ids slow_bpe(const TokenizerData& data, const std::string& piece) {
  std::vector<std::string> symbols;
  for (const char c : piece) symbols.push_back(byte_character(static_cast<unsigned char>(c)));
  for (;;) {
    std::size_t best_rank = data.merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it =
          std::find(data.merges.begin(), data.merges.end(), symbols[i] + " " + symbols[i + 1]);
      const auto rank = static_cast<std::size_t>(it - data.merges.begin());
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == data.merges.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const auto& symbol : symbols) {
    const auto it = std::find(data.tokens.begin(), data.tokens.end(), symbol);
    ids.push_back(static_cast<std::int32_t>(it - data.tokens.begin()));
  }
  return ids;
}

TEST(Tokenizer, AgreesWithTheSlowLoop) {
  std::mt19937 random(5);
  for (int vocabulary = 0; vocabulary < 20; ++vocabulary) {
    std::vector<std::string> symbols = {"a", "b", "c"};
    std::vector<std::string> merges;
    while (merges.size() < 25) {
      const std::string left = symbols[random() % symbols.size()];
      const std::string right = symbols[random() % symbols.size()];
      if (std::find(symbols.begin(), symbols.end(), left + right) != symbols.end()) continue;
      symbols.push_back(left + right);
      merges.push_back(left + " " + right);
    }
    const TokenizerData data = tiny_vocabulary(merges);
    const Tokenizer tokenizer(data);
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (unsigned i = random() % 30; i > 0; --i) text += "abc"[random() % 3];
      EXPECT_EQ(tokenizer.encode(text, SpecialTokens::Literal), slow_bpe(data, text)) << text;
    }
  }
}

TEST(Tokenizer, RoundTripOfAnyBytes) {
  const Tokenizer tokenizer(tiny_vocabulary());
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += static_cast<char>(random());
  std::string expected;
  for (const char c : text) {
    if (c != kByteWithoutToken && c != '\xff') expected += c;
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, SpecialTokens::Literal)), expected);
  EXPECT_EQ(tokenizer.dropped_bytes(), static_cast<std::int64_t>(text.size() - expected.size()));
}

TEST(Tokenizer, BytesWithoutTokenAreDroppedBeforeMerging) {
  const Tokenizer tokenizer(tiny_vocabulary({"! !"}));
  EXPECT_EQ(tokenizer.encode("!\x04!", SpecialTokens::Literal),
            tokenizer.encode("!!", SpecialTokens::Literal));
  EXPECT_EQ(tokenizer.dropped_bytes(), 1);
}

TEST(Tokenizer, SpecialTokensOnlyWhereAsked) {
  const Tokenizer tokenizer(tiny_vocabulary());
  EXPECT_EQ(tokenizer.encode("<|im_end|>", SpecialTokens::Parse), Ids{2});
  EXPECT_EQ(tokenizer.encode("<|im_end|>", SpecialTokens::Literal).size(), 10U);
  const Encoding encoding =
      tokenizer.encode_with_offsets("hello<|im_start|><|im_end|", SpecialTokens::Parse);
  EXPECT_EQ(encoding.ids[1], 1);
  EXPECT_THAT(std::vector<std::size_t>(encoding.begins.begin(), encoding.begins.begin() + 3),
              ElementsAre(0, 5, 17));
  EXPECT_EQ(tokenizer.decode(encoding.ids), "hello<|im_start|><|im_end|");
  EXPECT_EQ(tokenizer.special_id("<|im_start|>"), 1);
  EXPECT_EQ(tokenizer.special_id("h"), -1);
  EXPECT_EQ(tokenizer.eos(), 2);
}

TEST(Tokenizer, LongPiecesStayFast) {
  const Tokenizer tokenizer(tiny_vocabulary({"a a", "aa aa", "aaaa aaaa"}));
  const std::clock_t begin = std::clock();
  const Ids ids = tokenizer.encode(std::string(1 << 20, 'a'), SpecialTokens::Literal);
  const std::clock_t taken = std::clock() - begin;
  EXPECT_EQ(ids.size(), (1U << 20) / 8);
  // Of the processor. Quadratic time would take hours; the margin is for slow and instrumented builds.
  EXPECT_LT(taken, 20 * CLOCKS_PER_SEC);
}

TEST(Tokenizer, ContradictionsAreRefused) {
  const auto message_of = [](const std::function<void(TokenizerData&)>& damage) {
    TokenizerData data = tiny_vocabulary();
    damage(data);
    try {
      const Tokenizer tokenizer(std::move(data));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message_of([](TokenizerData&) {}), "no error");
  EXPECT_THAT(message_of([](auto& d) { d.pre_tokenizer = "bloom"; }), HasSubstr("bloom"));
  EXPECT_THAT(message_of([](auto& d) { d.tokens.clear(); }), HasSubstr("empty"));
  EXPECT_THAT(message_of([](auto& d) { d.types.pop_back(); }), HasSubstr("token types"));
  EXPECT_THAT(message_of([](auto& d) { d.tokens[9] = d.tokens[8]; }), HasSubstr("token 9"));
  EXPECT_THAT(message_of([](auto& d) { d.tokens[9] = ""; }), HasSubstr("token 9"));
  EXPECT_THAT(message_of([](auto& d) { d.tokens[9] = "日"; }), HasSubstr("token 9"));
  EXPECT_THAT(message_of([](auto& d) { d.tokens[9] = "\xc4"; }), HasSubstr("token 9"));
  EXPECT_THAT(message_of([](auto& d) { d.merges[3] = "hello"; }), HasSubstr("merge 3"));
  EXPECT_THAT(message_of([](auto& d) { d.merges[3] = "x y"; }), HasSubstr("merge 3"));
  EXPECT_THAT(message_of([](auto& d) { d.types.back() = 3; }), HasSubstr("control"));
  EXPECT_THAT(message_of([](auto& d) { d.eos = 1 << 20; }), HasSubstr("outside"));
  EXPECT_THROW(Tokenizer(tiny_vocabulary()).decode_bytes(-1), Error);
  EXPECT_THROW(Tokenizer(tiny_vocabulary()).decode_bytes(100000), Error);
}

}  // namespace
}  // namespace kvloupe::capture
