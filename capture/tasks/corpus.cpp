// Loads the novels and word lists that set-up has fetched.
#include "capture/tasks/corpus.h"

#include "capture/tasks/r_data.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTaskNovels[] = {"emma", "mansfieldpark", "northangerabbey", "prideprejudice",
                                       "sensesensibility"};
constexpr const char* kCalibrationNovel = "persuasion";

std::string read_data_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), {}};
  if (!stream || content.empty()) {
    throw input_error("a file of the task data is missing", path.string() + " cannot be read",
                      "run ./kvloupe.sh, which completes the set-up, or set KVLOUPE_DATA_DIR");
  }
  return content;
}

Novel make_novel(const std::map<std::string, std::vector<std::string>>& texts, const char* id,
                 const std::string& origin) {
  const auto found = texts.find(id);
  if (found == texts.end()) {
    throw input_error("the text corpus is not complete", origin + " has no novel " + id,
                      "delete the data folder of the dependency cache and run ./kvloupe.sh again");
  }
  std::string lines;
  for (const std::string& line : found->second) lines += line + '\n';
  Novel novel{id, collapse_whitespace(lines), {}};
  novel.sentence_begins = find_sentences(novel.text);
  return novel;
}

Corpus load_corpus() {
  const fs::path dir = paths::data_dir() / "corpus";
  const std::string origin = (dir / "Rdata.rdb").string();
  const auto texts =
      read_r_database(read_data_file(dir / "Rdata.rdx"), read_data_file(origin), origin);
  Corpus corpus;
  for (const char* id : kTaskNovels) corpus.task_novels.push_back(make_novel(texts, id, origin));
  corpus.calibration_novel = make_novel(texts, kCalibrationNovel, origin);
  return corpus;
}

std::vector<std::string> read_lines(const fs::path& path) {
  const std::string content = read_data_file(path);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string line = collapse_whitespace(std::string_view(content).substr(begin, end - begin));
    if (!line.empty()) lines.push_back(std::move(line));
    begin = end + 1;
  }
  if (lines.empty()) {
    throw input_error("a word list is empty", path.string() + " has no words",
                      "delete the data folder of the dependency cache and run ./kvloupe.sh again");
  }
  return lines;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Bytes of a closing quote at `at`, 0 if there is none.
std::size_t closing_quote(std::string_view text, std::size_t at) {
  static constexpr std::string_view kQuotes[] = {"\"", "'", "\u201d", "\u2019"};
  for (const std::string_view quote : kQuotes) {
    if (text.substr(at).starts_with(quote)) return quote.size();
  }
  return 0;
}

}  // namespace

const Corpus& austen_corpus() {
  static const Corpus corpus = load_corpus();
  return corpus;
}

const WordLists& word_lists() {
  static const WordLists lists = [] {
    const fs::path dir = paths::data_dir() / "words";
    return WordLists{read_lines(dir / "adjectivelist.txt"), read_lines(dir / "nounlist.txt")};
  }();
  return lists;
}

std::string collapse_whitespace(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (!is_space(c)) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::vector<std::size_t> find_sentences(std::string_view text) {
  std::vector<std::size_t> begins;
  if (!text.empty()) begins.push_back(0);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '.' && text[at] != '!' && text[at] != '?') continue;
    std::size_t end = at + 1;
    while (const std::size_t bytes = closing_quote(text, end)) end += bytes;
    if (end + 1 < text.size() && text[end] == ' ') begins.push_back(end + 1);
    at = end - 1;
  }
  return begins;
}

}  // namespace kvloupe::capture
