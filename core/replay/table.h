// Tables as values: what commands print and views export. A cell is a number, a word, a token, a method or a row of
// heads, and each format writes it in its own way. `csv_text` is exact and for programs, as is the JSON of
// app/cli/table_json.h; the other texts are for people. Known without Torch.
#pragma once

#include "core/replay/numbers.h"
#include "core/selection/spec/traits.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvloupe::replay {
enum class Stage;
}

namespace kvloupe::table {

// A word that programs know by an id.
struct Term {
  const char* id;
  const char* words;
};
Term term_of(replay::Stage stage);
struct Token {
  std::string text;
};
// The text of a SPEC, or what else a run is called.
struct MethodText {
  std::string text;
};
// A row of a selection: a KV head, a query head, or several.
struct HeadRow {
  selection::RowLayout layout;
  int row = 0;
};

class Cell {
 public:
  struct Absent {};   // the row has no such thing; JSON leaves it out
  struct Unknown {};  // null in JSON
  using Value = std::variant<Absent, Unknown, bool, std::int64_t, double, std::string, Term, Token,
                             MethodText, HeadRow, std::vector<int>, std::vector<std::string>>;

  Cell() = default;
  Cell(std::nullopt_t /*unknown*/) : value_(Unknown{}) {}
  Cell(bool flag) : value_(flag) {}
  template <std::integral T>
  Cell(T number) : value_(static_cast<std::int64_t>(number)) {}
  template <std::floating_point T>
  Cell(T number) {
    if (number == number)
      value_ = static_cast<double>(number);
    else
      value_ = Unknown{};
  }
  Cell(const char* text) : value_(std::string(text)) {}
  Cell(std::string text) : value_(std::move(text)) {}
  Cell(Term term) : value_(term) {}
  Cell(Token token) : value_(std::move(token)) {}
  Cell(MethodText method) : value_(std::move(method)) {}
  Cell(HeadRow row) : value_(row) {}
  Cell(std::vector<int> numbers) : value_(std::move(numbers)) {}
  Cell(std::vector<std::string> words) : value_(std::move(words)) {}
  template <typename T>
  Cell(const std::optional<T>& value) : Cell(value ? Cell(*value) : Cell(std::nullopt)) {}
  // A number that is known to lie from `low` to `high`: people read two digits of half of that, and none after them.
  // As Cell(number) where an end is not known, or where both are one.
  static Cell within(double number, double low, double high);

  const Value& value() const { return value_; }
  // After the point, whatever its column says.
  std::optional<int> digits() const { return digits_; }
  bool is_number() const {
    return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<double>(value_);
  }
  // Nothing to be seen.
  bool is_empty() const {
    return std::holds_alternative<Absent>(value_) || std::holds_alternative<Unknown>(value_);
  }

 private:
  Value value_;
  std::optional<int> digits_;
};

struct Column {
  static constexpr int kFourThatCount = -1;

  // Of a number, when it is called as one. Else its words are its name's, and a name that ends in _ms is of times.
  Column(const char* name) : Column(std::string(name)) {}
  Column(std::string name);
  Column(replay::Number number);
  // `words` are empty: for programs alone; `name` is: for people alone.
  Column(std::string name, std::string words, std::string of_unit = "",
         int after_point = kFourThatCount)
      : id(std::move(name)),
        title(std::move(words)),
        unit(std::move(of_unit)),
        digits(after_point) {}

  std::string id;       // in CSV and JSON; "parts/select" stands in an object of the row's JSON
  std::string title;    // for people
  std::string unit;     // in the head; "%": of shares, which programs get as they are
  std::string heading;  // in a terminal, where it is not the title and the unit
  int digits = kFourThatCount;  // for people: after the point; -3: three, wherever the point is
  bool quoted = false;          // CSV: also where it need not be
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;

  // The cell below the column of this id.
  const Cell& at(std::size_t row, const std::string& id) const;
};

inline constexpr std::size_t kTerminalWidth = 120;
inline constexpr std::size_t kAnyWidth = std::size_t(-1);

// As CSV has it: numbers in their shortest exact form.
std::string exact_text(const Cell& cell);
// As people read it, on one line.
std::string words_of(const Cell& cell, const Column& column);

// What heads a column of CSV: its id, or its id and its unit, as in "effective_budget (KVs)".
enum class CsvHead { Id, IdAndUnit };
// A head, then a line a row. Text is written as it is, a "=" before it too: the file is for programs.
std::string csv_text(const Table& table, CsvHead head = CsvHead::Id);
// For a terminal: words to the left, numbers to the right. Where the table is too wide, its head, its
// methods and then its other text are broken; columns that are too many even so follow below.
std::string terminal_text(const Table& table, std::size_t width = kTerminalWidth);
// What documents mark: of each number with a better side the best and the second best of all rows, as they
// are written; nothing where all are the same.
enum class Marks { None, Best };
// As GitHub reads it; the best in bold, the second best in italics.
std::string markdown_text(const Table& table, Marks marks = Marks::None);
// Text from outside, to stand as it is in a line of GitHub's Markdown.
std::string in_markdown(const std::string& text);
// A tabular for \usepackage{booktabs}; the best in bold, the second best underlined.
std::string latex_text(const Table& table, Marks marks = Marks::None);

}  // namespace kvloupe::table
