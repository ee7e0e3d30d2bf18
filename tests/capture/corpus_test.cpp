// The novels as set-up fetched them, the sentence rule, and a reader that refuses damaged
// databases.
#include "capture/tasks/corpus.h"

#include "capture/tasks/r_data.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"

#include <fstream>
#include <iterator>
#include <string>

namespace kvloupe::capture {
namespace {

std::string corpus_file(const char* name) {
  std::ifstream stream(paths::data_dir() / "corpus" / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(Corpus, WhitespaceCollapses) {
  EXPECT_EQ(collapse_whitespace(" a \n\n b\tc\r\n"), "a b c");
  EXPECT_EQ(collapse_whitespace(" \n "), "");
}

TEST(Corpus, SentencesEndAtStopsWithClosingQuotes) {
  const std::string text = "He came. \"Did he?\" No! 3.5 miles... \"Yes,\" she said.";
  std::vector<std::string> sentences;
  const auto begins = find_sentences(text);
  for (const std::size_t begin : begins) sentences.push_back(text.substr(begin, 4));
  EXPECT_THAT(sentences, ElementsAre("He c", "\"Did", "No! ", "3.5 ", "\"Yes"));
  EXPECT_TRUE(find_sentences("").empty());
  EXPECT_THAT(find_sentences("no stop at all"), ElementsAre(0u));
  EXPECT_THAT(find_sentences("One end."), ElementsAre(0u));
  EXPECT_THAT(find_sentences("One end. "), ElementsAre(0u));
}

// Counted in Python (zlib and struct) from the package's files; a line break is added to each line.
TEST(Corpus, HoldsSixNovels) {
  const auto texts =
      read_r_database(corpus_file("Rdata.rdx"), corpus_file("Rdata.rdb"), "the package");
  ASSERT_EQ(texts.size(), 6u);
  std::size_t bytes = 0;
  for (const auto& [id, lines] : texts) {
    for (const std::string& line : lines) bytes += line.size() + 1;
  }
  EXPECT_EQ(texts.at("emma").size(), 16235u);
  EXPECT_EQ(texts.at("emma").front(), "EMMA");
  EXPECT_EQ(bytes, 4025029u);
}

TEST(Corpus, KeepsPersuasionForCalibration) {
  const Corpus& corpus = austen_corpus();
  std::vector<std::string> ids;
  for (const Novel& novel : corpus.task_novels) ids.push_back(novel.id);
  EXPECT_THAT(ids, ElementsAre("emma", "mansfieldpark", "northangerabbey", "prideprejudice",
                               "sensesensibility"));
  EXPECT_EQ(corpus.calibration_novel.id, "persuasion");
  EXPECT_THAT(corpus.calibration_novel.text, HasSubstr("Sir Walter Elliot, of Kellynch Hall"));
  for (const Novel& novel : corpus.task_novels) {
    EXPECT_EQ(novel.text.find("Kellynch"), std::string::npos) << novel.id;
    EXPECT_GT(novel.sentence_begins.size(), 3000u) << novel.id;
    EXPECT_EQ(novel.text.find('\n'), std::string::npos);
  }
  EXPECT_THAT(
      corpus.task_novels[0].text,
      StartsWith("EMMA By Jane Austen VOLUME I CHAPTER I Emma Woodhouse, handsome, clever,"));
}

TEST(Corpus, WordListsAreReadWhole) {
  EXPECT_NEAR(static_cast<double>(word_lists().adjectives.size()), 912, 2);
  EXPECT_NEAR(static_cast<double>(word_lists().nouns.size()), 6782, 2);
  EXPECT_EQ(word_lists().adjectives.front(), "quizzical");
}

TEST(Corpus, DamagedDatabasesAreRefused) {
  const std::string index = corpus_file("Rdata.rdx"), database = corpus_file("Rdata.rdb");
  const auto refuses = [&](const std::string& damaged_index, const std::string& damaged_database) {
    try {
      read_r_database(damaged_index, damaged_database, "x.rdb");
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::Input &&
             std::string(error.what()).find("x.rdb") != std::string::npos;
    }
  };
  EXPECT_TRUE(refuses("", database));
  EXPECT_TRUE(refuses(index.substr(0, index.size() / 2), database));
  EXPECT_TRUE(refuses(index, database.substr(0, database.size() / 2)));
  EXPECT_TRUE(refuses(index, ""));
  EXPECT_TRUE(refuses(database, index));
  std::string flipped = database;
  for (std::size_t i = 1000; i < flipped.size(); i += 5000)
    flipped[i] = static_cast<char>(~flipped[i]);
  EXPECT_TRUE(refuses(index, flipped));
}

}  // namespace
}  // namespace kvloupe::capture
