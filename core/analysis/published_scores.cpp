#include "core/analysis/published_scores.h"

#include "core/base/error.h"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

namespace kvloupe::analysis {
namespace {

constexpr Paper kPapers[] = {
    {"quoka", "QuoKA", "arXiv 2602.08722"},
    {"quest", "Quest", "arXiv 2406.10774, read from a page about it"},
    {"aqua", "AQUA", "its paper"},
    {"compact_attention", "CompactAttention", "its paper"},
};

// The columns of a file, in its order.
struct ColumnInfo {
  const char* name;
  std::string PublishedScore::*member;
};
constexpr std::array<ColumnInfo, 9> kColumns = {{{"place", &PublishedScore::place},
                                                 {"model", &PublishedScore::model},
                                                 {"task", &PublishedScore::task},
                                                 {"length", &PublishedScore::length},
                                                 {"method", &PublishedScore::method},
                                                 {"budget", &PublishedScore::budget},
                                                 {"metric", &PublishedScore::metric},
                                                 {"value", &PublishedScore::value},
                                                 {"doubt", &PublishedScore::doubt}}};

struct Rows {
  std::vector<std::vector<std::string>> done;
  std::vector<std::string> now;
};

// What the C library calls for each field and row.
void on_field(void* text, std::size_t size, void* rows) {
  static_cast<Rows*>(rows)->now.emplace_back(static_cast<const char*>(text), size);
}
void on_row(int /*end*/, void* rows) {
  auto* all = static_cast<Rows*>(rows);
  all->done.push_back(std::move(all->now));
  all->now.clear();
}

std::vector<std::vector<std::string>> rows_of(const std::string& text, const std::string& file) {
  csv_parser parser;
  KVLOUPE_CHECK(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0);
  Rows rows;
  const bool read =
      csv_parse(&parser, text.data(), text.size(), on_field, on_row, &rows) == text.size() &&
      csv_fini(&parser, on_field, on_row, &rows) == 0;
  const std::string problem = read ? "" : csv_strerror(csv_error(&parser));
  csv_free(&parser);
  if (!read)
    throw input_error("cannot read " + file,
                      fmt::format("row {}: {}", rows.done.size() + 1, problem),
                      "install KVLoupe again");
  return std::move(rows.done);
}

bool is_header(const std::vector<std::string>& row) {
  return std::equal(
      row.begin(), row.end(), kColumns.begin(), kColumns.end(),
      [](const std::string& name, const ColumnInfo& column) { return name == column.name; });
}

}  // namespace

std::span<const Paper> papers() { return kPapers; }

const Paper& paper_named(std::string_view id) {
  const auto* found = std::find_if(std::begin(kPapers), std::end(kPapers),
                                   [&](const Paper& p) { return p.id == id; });
  KVLOUPE_CHECK(found != std::end(kPapers));
  return *found;
}

std::vector<PublishedScore> read_published(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw input_error("cannot read " + file.string(), "there is no such file",
                      "install KVLoupe again");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto rows = rows_of(text, file.string());
  if (rows.empty() || !is_header(rows.front()))
    throw input_error("cannot read " + file.string(), "its first row does not name the columns",
                      "install KVLoupe again");
  std::vector<PublishedScore> scores;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != kColumns.size())
      throw input_error(
          "cannot read " + file.string(),
          fmt::format("row {} has {} columns of {}", r + 1, rows[r].size(), kColumns.size()),
          "install KVLoupe again");
    PublishedScore& score = scores.emplace_back();
    for (std::size_t c = 0; c < kColumns.size(); ++c) score.*kColumns[c].member = rows[r][c];
  }
  return scores;
}

bool is_of_answers(const PublishedScore& score) {
  for (const char* metric :
       {"accuracy", "normalized_accuracy", "score", "exact_match", "flex_match", "perplexity"})
    if (score.metric == metric) return true;
  return false;
}

std::string task_family(std::string_view task) {
  constexpr std::string_view kOurs = "kvloupe_";
  if (task.starts_with(kOurs)) task.remove_prefix(kOurs.size());
  const std::string_view family = task.substr(0, task.find('_'));
  return std::string(family == "ruler" ? "niah" : family);
}

}  // namespace kvloupe::analysis
