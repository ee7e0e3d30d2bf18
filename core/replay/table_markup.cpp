// Tables for documents. All text is hostile: what the language would read as its own is escaped.
#include "core/replay/table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace kvloupe::table {
namespace {

bool is_shown(const Column& column) { return !column.title.empty(); }

bool is_of_numbers(const Table& table, std::size_t column) {
  bool any = false;
  for (const auto& row : table.rows) {
    if (!row[column].is_number() && !row[column].is_empty()) return false;
    any = any || row[column].is_number();
  }
  return any;
}

std::string head_of(const Column& column) {
  return column.unit.empty() ? column.title : column.title + " (" + column.unit + ")";
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

}  // namespace

// Every mark that begins something in a line of GitHub's Markdown: HTML, links and formulas too. (A pipe ends a cell
// even within backquotes, so that no text is written as code.)
std::string in_markdown(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], before = i > 0 ? text[i - 1] : ' ', after = (text + " ")[i + 1];
    const bool marks = c == '_'   ? !is_word(before) || !is_word(after)
                       : c == ':' ? after == '/'
                       : c == '.'
                           ? before == 'w' || before == 'W'
                           : std::string_view("\\`*[]<>|~&").find(c) != std::string_view::npos;
    if (marks) out += '\\';
    // No backslash keeps a dollar sign from beginning a formula.
    out += c == '$' ? std::string("<span>$</span>") : std::string(1, c);
  }
  return out;
}

namespace {

const char* latex_name(char c) {
  switch (c) {
    case '\\': return "\\textbackslash{}";
    case '~': return "\\textasciitilde{}";
    case '^': return "\\textasciicircum{}";
    case '<': return "\\textless{}";
    case '>': return "\\textgreater{}";
    case '|': return "\\textbar{}";
    case '"': return "\\char34{}";
    default: return nullptr;
  }
}

// The same in every encoding of fonts. A "[" or a "*" that follows the end of a line would be read as its argument, and
// two marks in a row as one of another shape.
std::string in_latex(const std::string& text) {
  const auto is_one_of = [](const char* marks, char c) {
    return std::string_view(marks).find(c) != std::string_view::npos;
  };
  std::string out;
  char before = ' ';
  for (const char c : text) {
    if (is_one_of("-'`,", c) && (c == before || (c == '`' && is_one_of("?!", before)))) out += "{}";
    if (const char* const name = latex_name(c))
      out += name;
    else if (is_one_of("[]*", c))
      out += std::string("{") + c + "}";
    else
      out += (is_one_of("{}#$%&_", c) ? "\\" : "") + std::string(1, c);
    before = c;
  }
  return out;
}

// "-1.2e-05" is a formula.
std::string number_in_latex(const std::string& text) {
  if (text.find_first_of("-en") == std::string::npos) return text;
  const bool negative = text.starts_with('-');
  const std::string sign = negative ? "-" : "", size = text.substr(negative ? 1 : 0);
  if (size == "inf") return "$" + sign + "\\infty$";
  const std::size_t e = size.find('e');
  if (e == std::string::npos) return "$" + sign + size + "$";
  return "$" + sign + size.substr(0, e) + "\\times10^{" +
         std::to_string(std::stoi(size.substr(e + 1))) + "}$";
}

double number_of(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell.value()))
    return static_cast<double>(*whole);
  return std::get<double>(cell.value());
}

// The texts of the best and the second best number of a column; empty where nothing is marked.
struct BestTexts {
  std::string best, second;
};
BestTexts best_of(const Table& table, std::size_t column, Marks marks) {
  const replay::NumberInfo* number = replay::find_number(table.columns[column].id);
  if (marks == Marks::None || number == nullptr || number->better == replay::Better::Neither)
    return {};
  std::vector<std::pair<double, std::string>> ranked;  // the best first
  for (const auto& row : table.rows)
    if (row[column].is_number())
      ranked.emplace_back(
          number->higher_is_better() ? -number_of(row[column]) : number_of(row[column]),
          words_of(row[column], table.columns[column]));
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [value, text] : ranked)
    if (text != ranked.front().second) return {ranked.front().second, text};
  return {};
}

std::string marked(const std::string& text, const std::string& words, const BestTexts& best,
                   const char* const (&around)[4]) {
  if (!best.best.empty() && words == best.best) return around[0] + text + around[1];
  if (!best.second.empty() && words == best.second) return around[2] + text + around[3];
  return text;
}

std::string markdown_cell(const Cell& cell, const Column& column) {
  return in_markdown(words_of(cell, column));
}

std::string latex_cell(const Cell& cell, const Column& column) {
  const std::string words = words_of(cell, column);
  if (cell.is_number()) return number_in_latex(words);
  if (std::holds_alternative<Cell::Unknown>(cell.value())) return "--";
  if (std::holds_alternative<MethodText>(cell.value())) return "\\texttt{" + in_latex(words) + "}";
  return in_latex(words);
}

}  // namespace

std::string markdown_text(const Table& table, Marks marks) {
  constexpr const char* kAround[4] = {"**", "**", "*", "*"};
  std::string head = "|", rule = "|", text;
  std::vector<BestTexts> best;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    best.push_back(best_of(table, i, marks));
    if (!is_shown(table.columns[i])) continue;
    head += " " + in_markdown(head_of(table.columns[i])) + " |";
    rule += is_of_numbers(table, i) ? "---:|" : "---|";
  }
  for (const auto& row : table.rows) {
    text += "|";
    for (std::size_t i = 0; i < row.size(); ++i)
      if (is_shown(table.columns[i]))
        text += " " +
                marked(markdown_cell(row[i], table.columns[i]), words_of(row[i], table.columns[i]),
                       best[i], kAround) +
                " |";
    text += "\n";
  }
  return head + "\n" + rule + "\n" + text;
}

std::string latex_text(const Table& table, Marks marks) {
  constexpr const char* kAround[4] = {"\\textbf{", "}", "\\underline{", "}"};
  std::string alignment, head, text;
  std::vector<BestTexts> best;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    best.push_back(best_of(table, i, marks));
    if (!is_shown(table.columns[i])) continue;
    alignment += is_of_numbers(table, i) ? 'r' : 'l';
    head += (head.empty() ? "" : " & ") + in_latex(head_of(table.columns[i]));
  }
  for (const auto& row : table.rows) {
    std::string line;
    bool first = true;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!is_shown(table.columns[i])) continue;
      line += (first ? "" : " & ") + marked(latex_cell(row[i], table.columns[i]),
                                            words_of(row[i], table.columns[i]), best[i], kAround);
      first = false;
    }
    text += line + " \\\\\n";
  }
  return "% needs \\usepackage{booktabs}\n\\begin{tabular}{" + alignment + "}\n\\toprule\n" + head +
         " \\\\\n\\midrule\n" + text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace kvloupe::table
