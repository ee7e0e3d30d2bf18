// Each text of a table against what was written by hand; tokens and names of files are hostile.
#include "core/replay/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace kvloupe::table {
namespace {

using replay::Number;

constexpr const char* kBell = "\x07";

// One cell below one head.
std::string csv_of(Cell cell) { return csv_text({{"a"}, {{std::move(cell)}}}); }
std::string markdown_of(const std::string& text) {
  const std::string page = markdown_text({{"a"}, {{Token{text}}}});
  const std::string head = "| a |\n|---|\n| ";
  EXPECT_TRUE(page.starts_with(head) && page.ends_with(" |\n")) << page;
  return page.substr(head.size(), page.size() - head.size() - 3);
}
std::string latex_of(Cell cell) {
  const std::string page = latex_text({{"a"}, {{std::move(cell)}}});
  const std::size_t begin = page.find("\\midrule\n") + 9, end = page.find(" \\\\\n\\bottomrule");
  return page.substr(begin, end - begin);
}

TEST(Csv, IsExact) {
  const double tiny = 1e-5, third = 1.0 / 3;
  EXPECT_EQ(csv_text({{"i", "x", "y", "flag", "none", "unknown", "odd"},
                      {{-7, tiny, third, true, {}, std::nullopt, std::nan("")}}}),
            "i,x,y,flag,none,unknown,odd\n-7,1e-05,0.3333333333333333,1,,,\n");
  EXPECT_EQ(csv_of(0.1F), "a\n0.10000000149011612\n");
  EXPECT_EQ(csv_of(std::numeric_limits<double>::infinity()), "a\ninf\n");
  EXPECT_EQ(csv_of(Term{"head_merge", "head merge"}), "a\nhead_merge\n");
  EXPECT_EQ(csv_of(HeadRow{{trace::RowAxis::KvHead, 3}, 2}), "a\n2\n");
  EXPECT_EQ(csv_of(std::vector<int>{3, 1}), "a\n\"3,1\"\n");
}

TEST(Csv, IsQuotedWhereItMustBeAndHoldsEveryByte) {
  EXPECT_EQ(csv_of(Token{"say \"x\", y"}), "a\n\"say \"\"x\"\", y\"\n");
  EXPECT_EQ(csv_of(Token{"two\r\nlines"}), "a\n\"two\r\nlines\"\n");
  // What a spreadsheet would compute, what moves a cursor, what is no UTF-8: as it is.
  for (const std::string text : {"=1+1", "+1", "-1", "@x", "\x1B[2J", "\xFF\xFE", "plain"})
    EXPECT_EQ(csv_of(Token{text}), "a\n" + text + "\n");
  Table table{{"method"}, {{MethodText{"dense"}}}};
  table.columns.front().quoted = true;
  EXPECT_EQ(csv_text(table), "method\n\"dense\"\n");
}

// More mass recall is better, fewer kept keys are; words have no better side. Numbers that are written alike share a mark.
TEST(Marks, TheBestAndTheSecondBestAsTheyAreWritten) {
  const Table table{{"method", Number::MassRecall, Number::EffectiveBudget},
                    {{MethodText{"a"}, 0.5, 20},
                     {MethodText{"b"}, 0.70001, 20},
                     {MethodText{"c"}, 0.7, 20},
                     {MethodText{"d"}, 0.1, 20},
                     {MethodText{"e"}, std::nullopt, 20}}};
  const std::string latex = latex_text(table, Marks::Best);
  const auto count = [&](const std::string& part) {
    int times = 0;
    for (std::size_t at = latex.find(part); at != std::string::npos; at = latex.find(part, at + 1))
      ++times;
    return times;
  };
  EXPECT_EQ(count("\\textbf{"), 2) << latex;     // b and c
  EXPECT_EQ(count("\\underline{"), 1) << latex;  // a
  EXPECT_NE(latex.find("texttt{a} & \\underline{"), std::string::npos) << latex;
  EXPECT_EQ(latex_text(table).find("textbf"), std::string::npos);
  EXPECT_NE(markdown_text(table, Marks::Best).find("| **"), std::string::npos);
  const Table lower{{Number::EffectiveBudget}, {{300}, {100}, {200}}};
  const std::string markdown = markdown_text(lower, Marks::Best);
  EXPECT_LT(markdown.find("**"), markdown.find("| *2")) << markdown;
}

TEST(Csv, HasWhatPeopleDoNotSeeAndNothingMadeForThem) {
  const Table table{{"a", {"hidden", ""}, {"", "words"}}, {{1, 2, "three"}}};
  EXPECT_EQ(csv_text(table), "a,hidden\n1,2\n");
  EXPECT_EQ(markdown_text(table), "| a | words |\n|---:|---|\n| 1 | three |\n");
  EXPECT_EQ(terminal_text(table), "a  words\n1  three\n");
}

TEST(Csv, SaysUnitsWhenAsked) {
  const Table table{{"method",
                     Number::MassRecall,
                     Number::EffectiveBudget,
                     "attend_ms",
                     {"share", "share", "%", 1}},
                    {{MethodText{"dense"}, 0.5, 20, 1.25, 0.0625}}};
  EXPECT_EQ(
      csv_text(table, CsvHead::IdAndUnit),
      "method,mass_recall,effective_budget (KVs),attend_ms,share\ndense,0.5,20,1.25,0.0625\n");
}

// Half of the interval has two digits; programs get all of the number.
TEST(Cells, KnownWithinAnIntervalHaveTheDigitsThatItLetsCount) {
  const auto words = [](double number, double low, double high) {
    return words_of(Cell::within(number, low, high), {"x", "x", "", 4});
  };
  EXPECT_EQ(words(0.72919, 0.5914, 0.8338), "0.73");    // half is 0.1212
  EXPECT_EQ(words(0.72919, 0.7213, 0.7371), "0.7292");  // 0.0079
  EXPECT_EQ(words(72.919, 60, 84.5), "73");             // 12.25
  EXPECT_EQ(words(1234.5, 1000, 3000),
            "1234");  // 1,000: no digit of a number before the point is hidden
  EXPECT_EQ(words(0.72919, 0.7, 0.7), "0.7292");  // as its column has them
  EXPECT_EQ(words(0.72919, std::nan(""), 1), "0.7292");
  EXPECT_EQ(words_of(Cell::within(0.5, 0.43, 0.57), {"x", "x", "%", 1}), "50.0");
  EXPECT_EQ(words_of(Cell::within(std::nan(""), 0, 1), {"x", "x", "", 4}), "-");
  EXPECT_EQ(csv_of(Cell::within(0.72919, 0.5914, 0.8338)), "a\n0.72919\n");
}

TEST(Columns, TakeWordsUnitAndDigitsFromTheNumber) {
  const Table table{
      {Number::MassRecall, "effective_budget", "attend_ms", {"share", "share", "%", 1}},
      {{0.93751, 256.04, 12.34567, 0.0625}, {std::nullopt, {}, 1e-7, 1.0}}};
  EXPECT_EQ(markdown_text(table),
            "| mass recall | kept (KVs) | attend (ms) | share (%) |\n"
            "|---:|---:|---:|---:|\n"
            "| 0.9375 | 256.0 | 12.35 | 6.2 |\n"
            "| - |  | 1e-07 | 100.0 |\n");
  EXPECT_EQ(terminal_text(table),
            "recall   kept  attend ms  share %\n"
            "0.9375  256.0      12.35      6.2\n"
            "     -             1e-07    100.0\n");
  EXPECT_EQ(csv_text(table),
            "mass_recall,effective_budget,attend_ms,share\n"
            "0.93751,256.04,12.34567,0.0625\n,,1e-07,1\n");
}

TEST(Markdown, ShowsTextAsItIs) {
  EXPECT_EQ(markdown_of("a|b"), "a\\|b");
  EXPECT_EQ(markdown_of("a\\|b"), "a\\\\\\|b");
  EXPECT_EQ(markdown_of("`x` *y* _z_ ~~w~~"), "\\`x\\` \\*y\\* \\_z\\_ \\~\\~w\\~\\~");
  EXPECT_EQ(markdown_of("snake_case"), "snake_case");  // no mark within a word
  EXPECT_EQ(markdown_of("__init__"), "\\_\\_init\\_\\_");
  EXPECT_EQ(markdown_of("<script>&amp;"), "\\<script\\>\\&amp;");
  EXPECT_EQ(markdown_of("![i](u)[l]"), "!\\[i\\](u)\\[l\\]");
  EXPECT_EQ(markdown_of("http://a www.b"), "http\\://a www\\.b");
  EXPECT_EQ(markdown_of("$x$"), "<span>$</span>x<span>$</span>");
  EXPECT_EQ(markdown_of("a\nb"), "a\\\\x0Ab");
  EXPECT_EQ(markdown_of(std::string("\x1B[2J\xFF") + kBell), "\\\\x1B\\[2J\\\\xFF\\\\x07");
  EXPECT_EQ(markdown_of(" the "), "\u00B7the\u00B7");  // a blank at an end is not shown
  EXPECT_EQ(markdown_of("  "), "\u00B7\u00B7");
  EXPECT_EQ(markdown_of("\u65E5\u672C"), "\u65E5\u672C");
  EXPECT_EQ(markdown_of(""), "");
}

TEST(Latex, IsATabularOfBooktabs) {
  EXPECT_EQ(latex_text({{"method", "attend_ms", "share_of_x", {"p", "part", "%", 0}},
                        {{MethodText{"quoka:a_b=1"}, 1.5, -0.25, 0.5},
                         {MethodText{"dense"}, 1.25e-5, {}, std::nullopt}}}),
            "% needs \\usepackage{booktabs}\n"
            "\\begin{tabular}{lrrr}\n"
            "\\toprule\n"
            "method & attend (ms) & share of x & part (\\%) \\\\\n"
            "\\midrule\n"
            "\\texttt{quoka:a\\_b=1} & 1.5 & $-0.25$ & 50 \\\\\n"
            "\\texttt{dense} & $1.25\\times10^{-5}$ &  & -- \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

TEST(Latex, EscapesWhatItWouldObey) {
  EXPECT_EQ(latex_of(Token{"\\input{/etc/passwd}"}), "\\textbackslash{}input\\{/etc/passwd\\}");
  EXPECT_EQ(latex_of(Token{"#1 $x$ 5% a&b c_d"}), "\\#1 \\$x\\$ 5\\% a\\&b c\\_d");
  EXPECT_EQ(latex_of(Token{"x^2~y"}), "x\\textasciicircum{}2\\textasciitilde{}y");
  EXPECT_EQ(latex_of(Token{"<a|b>"}), "\\textless{}a\\textbar{}b\\textgreater{}");
  EXPECT_EQ(latex_of(Token{"\"q\""}), "\\char34{}q\\char34{}");
  // After the end of a line these are arguments of it.
  EXPECT_EQ(latex_of(Token{"[2em]"}), "{[}2em{]}");
  EXPECT_EQ(latex_of(Token{"*"}), "{*}");
  // Two of them are one longer mark.
  EXPECT_EQ(latex_of(Token{"a---b"}), "a-{}-{}-b");
  EXPECT_EQ(latex_of(Token{"``''?`"}), "`{}`'{}'?{}`");
  EXPECT_EQ(latex_of(Token{"\n\xFF"}), "\\textbackslash{}x0A\\textbackslash{}xFF");
  EXPECT_EQ(latex_of(-std::numeric_limits<double>::infinity()), "$-\\infty$");
  EXPECT_EQ(latex_of(-3), "$-3$");
}

// What a row may hold outside of the names that the encoder writes: no active character, groups that close.
void expect_grammar(const std::string& line, int num_cells) {
  int depth = 0, cells = 1;
  bool formula = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    ASSERT_TRUE(c >= 0x20 || static_cast<unsigned char>(c) >= 0x80) << line;
    if (c == '\\') {
      ASSERT_LT(i + 1, line.size()) << line;
      const char next = line[++i];
      if (std::isalpha(static_cast<unsigned char>(next)) == 0) {
        ASSERT_NE(std::string("{}#$%&_\\").find(next), std::string::npos) << line;
        ASSERT_TRUE(next != '\\' || i + 1 == line.size()) << line;  // the end of the row
      }
      continue;
    }
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    ASSERT_GE(depth, 0) << line;
    if (c == '$') formula = !formula;
    cells += c == '&';
    if (c == '^') {
      ASSERT_TRUE(formula) << line;
    }
    ASSERT_EQ(std::string("#%_~\"<>|").find(c), std::string::npos) << line;
  }
  EXPECT_EQ(depth, 0) << line;
  EXPECT_FALSE(formula) << line;
  EXPECT_EQ(cells, num_cells) << line;
}

TEST(Latex, KeepsItsGrammarWhateverATokenHolds) {
  for (int first = 0; first < 256; ++first)
    for (const char* after : {"", "\\", "}", "{", "$", "&", "%", "[", "`", "-", "^", "\xC3"}) {
      const std::string token = std::string(1, static_cast<char>(first)) + after;
      std::istringstream lines(
          latex_text({{"token", "x"}, {{Token{token}, -1e-9}, {MethodText{token}, token}}}));
      for (std::string line; std::getline(lines, line);)
        if (line.ends_with("\\\\")) expect_grammar(line, 2);
    }
}

TEST(Terminal, BreaksMethodsAtCommasAndFits) {
  const Table table{{"method", Number::MassRecall},
                    {{MethodText{"quoka:budget_tokens=256,num_queries=16"}, 0.5}}};
  EXPECT_EQ(terminal_text(table, 40),
            "method                            recall\n"
            "quoka:budget_tokens=256,          0.5000\n"
            "  num_queries=16\n");
  EXPECT_EQ(terminal_text(table, kAnyWidth),
            "method                                  recall\n"
            "quoka:budget_tokens=256,num_queries=16  0.5000\n");
}

TEST(Terminal, PutsWhatDoesNotFitBelow) {
  const Table table{{"layer", {"a", "first number"}, {"b", "second number"}, {"c", "third"}},
                    {{1, 123456, 223456, 3}}};
  EXPECT_EQ(terminal_text(table, 24),
            "layer   first  second\n"
            "       number  number\n"
            "    1  123456  223456\n"
            "\n"
            "layer  third\n"
            "    1      3\n");
}

TEST(Terminal, CountsColumnsAndObeysNoToken) {
  EXPECT_EQ(terminal_text({{"token", "n"}, {{Token{"\u65E5"}, 1}, {Token{"\x1B[2Jab"}, 22}}}),
            "token       n\n"
            "\u65E5          1\n"
            "\\x1B[2Jab  22\n");
}

}  // namespace
}  // namespace kvloupe::table
