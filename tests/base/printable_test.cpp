// What is fit to be shown, and what is shown by its bytes.
#include "core/base/printable.h"

#include <gtest/gtest.h>

namespace kvloupe {
namespace {

TEST(Printable, TextStaysAsItIs) {
  for (const char* text :
       {"", "plain; \"text\" \\ ~", "\u00fcber \u4f60\u597d \U0001F600", "a\u200db"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, WhatMovesACursorIsEscaped) {
  EXPECT_EQ(printable("a\x1b[31mb\x07\x7f\r"), "a\\x1B[31mb\\x07\\x7F\\x0D");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\u009b2J"), "\\xC2\\x9B2J");
  EXPECT_EQ(printable("\u202eabc\u2069"), "\\xE2\\x80\\xAEabc\\xE2\\x81\\xA9");
  EXPECT_EQ(printable("\u2028"), "\\xE2\\x80\\xA8");
}

TEST(Printable, InvalidUtf8IsEscaped) {
  EXPECT_EQ(printable("\xff"
                      "a\xc3"),
            "\\xFFa\\xC3");
  EXPECT_EQ(printable("\xc0\x80"), "\\xC0\\x80");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xED\\xA0\\x80");  // surrogate
}

TEST(Printable, LinesKeepTheirEnds) {
  EXPECT_EQ(printable("a\nb\t"), "a\\x0Ab\\x09");
  EXPECT_EQ(printable_lines("a\n\x1b\n"), "a\n\\x1B\n");
  EXPECT_EQ(printable_lines("\n"), "\n");
  EXPECT_EQ(printable_lines(""), "");
}

}  // namespace
}  // namespace kvloupe
