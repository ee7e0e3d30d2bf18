// Tokens as people read them, and arrays as files hold them.
#include "app/state/token_text.h"
#include "app/state/array.h"
#include "app/state/labels.h"
#include "app/state/place.h"
#include "tests/base/matchers.h"

#include <cmath>

namespace kvloupe {
namespace {

using state::TokenRange;

TEST(TokenText, BytesThatAreNoCharacterAreShownAsBytes) {
  EXPECT_EQ(state::readable_text("\xE6"), "\\xE6");
  EXPECT_EQ(state::readable_text("a\xE6\x97"), "a\\xE6\\x97");
  EXPECT_EQ(state::readable_text("\xE6\x97\xA5"), "\xE6\x97\xA5");
  EXPECT_EQ(state::readable_text("a\n"), "a\u21B5");
  EXPECT_EQ(state::readable_text(std::string("\0\x1B", 2)), "\\x00\\x1B");
  EXPECT_EQ(state::readable_token(" the"), "\u00B7the");
  EXPECT_EQ(state::readable_token(""), "(empty)");
}

TEST(TokenText, AWordBeginsWithItsBlank) {
  for (const char* begins : {" the", "\n", "\t", "\u65E5"}) EXPECT_TRUE(state::begins_word(begins));
  for (const char* within : {"", "ium", ",", "\u00E9", "-"})
    EXPECT_FALSE(state::begins_word(within));
}

TEST(TokenText, SearchCrossesTokensAndIgnoresCase) {
  const std::vector<std::string> tokens{"One", " of", " the", " ONE", " of"};
  EXPECT_THAT(state::find_text(tokens, "one of"), ElementsAre(TokenRange{0, 2}, TokenRange{3, 5}));
  EXPECT_THAT(state::find_text(tokens, "f t"), ElementsAre(TokenRange{1, 3}));
  EXPECT_THAT(state::find_text(tokens, "the"), ElementsAre(TokenRange{2, 3}));
  EXPECT_TRUE(state::find_text(tokens, "").empty());
  EXPECT_TRUE(state::find_text(tokens, "zebra").empty());
}

TEST(TokenText, ScriptsThatNeedOtherFontsAreNamed) {
  EXPECT_THAT(state::unusual_code_points({"a\u00E9\u03B1", "\u65E5", "\xE6", "\u65E5\u672C"}),
              ElementsAre(U'\u65E5', U'\u672C'));
}

TEST(Array, AnArrayBeginsAtAMultipleOf64Bytes) {
  const std::string bytes =
      state::npy_bytes(state::array_of("<f4", {2, 1}, std::vector<float>{1.5F, -2}));
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t header =
      static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + header) % 64, 0U);
  EXPECT_NE(bytes.find("'shape': (2, 1, )"), std::string::npos);
  EXPECT_EQ(bytes.size(), 10 + header + 8);
}

TEST(TokenText, NamesOfAFileFitALineAndALabel) {
  using state::readable_name;
  EXPECT_EQ(readable_name("needle_key"), "needle_key");
  EXPECT_EQ(readable_name(""), "(no name)");
  EXPECT_EQ(readable_name("  "), "(no name)");
  EXPECT_EQ(readable_name("a\n\x1b[2J\xff"), "a\\x0A\\x1B[2J\\xFF");
  EXPECT_EQ(readable_name("%s%n"), "%s%n");
  for (const char* name : {"##", "a##b", "###", "####x"})
    EXPECT_EQ(readable_name(name).find("##"), std::string::npos) << name;
  EXPECT_LT(readable_name(std::string(100'000, 'W')).size(), 500U);
  EXPECT_EQ(readable_name(std::string(100'000, 'W')).substr(400), "\u2026");
}

TEST(Labels, SharesHaveOneForm) {
  EXPECT_EQ(state::share_text(0.453), "45.3 %");
  EXPECT_EQ(state::share_text(0.00432), "0.43 %");
  EXPECT_EQ(state::brief_share_text(0.453), "45 %");
  EXPECT_EQ(state::brief_share_text(0.00432), "0.43 %");
  EXPECT_EQ(state::brief_share_text(0.9951), "100 %");
  EXPECT_EQ(state::share_text(0.00014), "0.014 %");
  EXPECT_EQ(state::share_text(0.00996), "1.0 %");
  EXPECT_EQ(state::share_text(0), "0.0 %");
  EXPECT_EQ(state::share_text(1), "100.0 %");
  EXPECT_EQ(state::share_text(std::nan("")), "\u2013");
  EXPECT_EQ(state::share_tick_text(0.25), "25 %");
  EXPECT_EQ(state::share_tick_text(0.125), "12.5 %");
  EXPECT_EQ(state::share_tick_text(0), "0 %");
  EXPECT_EQ(state::share_tick_text(1e-8), "0.000001 %");
  EXPECT_EQ(state::share_tick_text(0.1 + 0.2), "30 %");
}

TEST(Labels, ARangeOfOneIsNamedOnce) {
  EXPECT_EQ(state::range_words("key", "keys", 1173, 1174), "key 1,173");
  EXPECT_EQ(state::range_words("key", "keys", 1173, 1180), "keys 1,173 to 1,179");
}

TEST(Labels, TheAxisOfChunksNamesDecodeSteps) {
  trace::TraceInfo info;
  for (int chunk = 0; chunk < 3; ++chunk) info.chunks.emplace_back();
  EXPECT_EQ(state::chunk_axis(info), "chunk");
  info.chunks[2].phase = trace::Phase::Decode;
  EXPECT_EQ(state::chunk_axis(info), "chunk, decode step from 2 on");
}

TEST(Labels, SayHowALayerAttends) {
  trace::ModelInfo model;
  model.layer_types = {trace::LayerType::Full, trace::LayerType::Sliding, trace::LayerType::Nope,
                       trace::LayerType::Sliding};
  model.shaped_softmax[1] = SoftmaxForm(1, 1024, 50, {0.5F});
  EXPECT_EQ(state::layer_name(model, 0), "0");
  EXPECT_EQ(state::layer_name(model, 1), "1 (window 1,024, softcap 50, learned sinks)");
  EXPECT_EQ(state::layer_name(model, 2), "2 (no RoPE)");
  EXPECT_EQ(state::label_of_layer(model, 3), "a window of unknown size");
}

}  // namespace
}  // namespace kvloupe
