// English prose for haystacks and calibration: Jane Austen's six novels (public domain), as
// whitespace- collapsed text cut into sentences. Persuasion is kept for calibration; tasks draw
// from the others.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

struct Novel {
  std::string id;    // "emma"
  std::string text;  // runs of white space collapsed to one space
  // Where each sentence begins in `text`; the first at 0. A sentence ends before the space in front
  // of the next one.
  std::vector<std::size_t> sentence_begins;
};

struct Corpus {
  std::vector<Novel>
      task_novels;          // emma mansfieldpark northangerabbey prideprejudice sensesensibility
  Novel calibration_novel;  // persuasion
};

// Read once per process from data_dir()/corpus. Throws Error{Input} when it is missing or damaged.
const Corpus& austen_corpus();

// Adjectives and nouns of the word lists in data_dir()/words, one entry a line, as they stand.
struct WordLists {
  std::vector<std::string> adjectives, nouns;
};
const WordLists& word_lists();

// Runs of white space become one space; none at either end.
std::string collapse_whitespace(std::string_view text);
// A sentence ends after [.!?] and any closing quotes when a space follows.
std::vector<std::size_t> find_sentences(std::string_view text);

}  // namespace kvloupe::capture
