// What a view is apart from its picture: its name, the options that it takes, and exactly what it
// draws as a table or an array. Without widgets, so that all of it is tested without a window.
#pragma once

#include "app/state/array.h"
#include "core/replay/table.h"

#include <string>
#include <vector>

namespace kvloupe::replay {
struct MethodChoice;
}

namespace kvloupe::state {

class Workspace;
using replay::MethodChoice;
using table::Cell;
using table::MethodText;
using table::Table;
using table::Token;

enum class Format { Png, Svg, Pdf, Gif, Apng, Csv, Npy, Markdown, Latex };
const char* name_of(Format format);    // "png", "markdown"
const char* ending_of(Format format);  // of a file's name: "png", "md"
bool is_picture(Format format);
bool is_animated(Format format);
bool is_of_tables(Format format);
// In a format of tables.
std::string text_of(const Table& table, Format format);
// Below its rows, each cell under its column's id: two methods may have other heads or numbers. What a row has no column
// for stays empty.
void append_rows(Table& all, Table more);

// `kvloupe export --NAME VALUE`; in the window a control of the view.
struct ViewOption {
  std::string name;                  // "metric"
  std::vector<std::string> choices;  // the default first
  std::string meaning;               // one sentence
  // What the window calls the choices, in their order; empty: as they are named.
  std::vector<std::string> words{};

  const std::string& words_of(const std::string& choice) const;
  // The choice of this name, or the only one of which it is a word ("pearson" of relevance_pearson);
  // null where none is meant.
  const std::string* choice(const std::string& text) const;
};

inline constexpr const char* kMetricsFile = "docs/metrics.md";  // in the repository

struct ViewInfo {
  std::string id;
  std::string title;
  std::string summary;  // one sentence for tooltips and lists
  // The heading in kMetricsFile under which its numbers are defined; empty: it shows none of them.
  std::string metrics = {};
  // Coordinates of --goto that it looks at: "layer", "q_head", "kv_head", "chunk", "query", "window",
  // "key".
  std::vector<std::string> coordinates = {};
  std::vector<ViewOption> options = {};
  int num_methods = 1;                // of A and B that one figure can show: 0, 1 or 2
  bool shows_both = false;            // the window shows A and B at once
  bool over_chunks = false;           // its numbers follow the scope of numbers (number_scope.h)
  bool shows_results = false;         // of an evaluation (open_results.h), and no trace
  bool tabulates_all_chunks = false;  // its table is of all chunks, whichever the place has
  float paper_height =
      0.75F;  // of a figure on paper, below title and chips; of its width, at least
  // What the figure shows beside A and B because it was chosen: tried here, or named on the command
  // line. Null: the view takes A and B at most.
  std::vector<MethodChoice> (*more_methods)(const Workspace&) = nullptr;

  // Why nothing is drawn for the current selection; empty when something is. Asks for what the view
  // needs: call it until nothing is busy.
  std::string (*problem)(Workspace&) = nullptr;
  // What is drawn now; empty columns when there is nothing. Null: the view has no such form.
  Table (*table)(Workspace&) = nullptr;
  Array (*array)(Workspace&) = nullptr;

  // Says it one after the other: ViewInfo{id, title, summary, metrics}.follow(At::Cell).draw(problem, table).
  ViewInfo& follow(unsigned parts);  // of the place (place.h)
  ViewInfo& take(int methods_at_most,
                 std::vector<MethodChoice> (*more)(const Workspace&) = nullptr);
  ViewInfo& take_both();  // and shows A and B at once
  ViewInfo& with(std::vector<ViewOption> its_options);
  ViewInfo& count_chunks();  // its numbers follow the scope of numbers
  ViewInfo& of_results();    // it shows an evaluation
  ViewInfo& tabulate_all_chunks();
  ViewInfo& on_paper(float height);
  ViewInfo& draw(std::string (*why_not)(Workspace&), Table (*as_table)(Workspace&),
                 Array (*as_array)(Workspace&) = nullptr);

  std::string metrics_link() const;  // "docs/metrics.md#averages", or empty
  bool has(Format format) const;
  std::vector<Format> formats() const;
};

}  // namespace kvloupe::state
