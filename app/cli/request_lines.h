// The lines that `kvloupe run` reads and writes.
#pragma once

#include "core/base/cancel.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::cli {

// Lines of a file or of standard input ("-"), each as soon as it is there.
class LineReader {
 public:
  // Throws Error{Input} where it cannot be opened.
  explicit LineReader(const std::filesystem::path& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Without its end; nothing after the last one, and once `cancel` is raised while it waits. In the place of
  // a line longer than any prompt stands a text that is no JSON.
  std::optional<std::string> next(const CancelToken& cancel);

 private:
  bool fill(const CancelToken& cancel);

  std::string name_;
  int descriptor_ = -1;
  std::string buffer_;
  std::size_t at_ = 0;  // what of the buffer is not given yet begins here
  bool ended_ = false;
  bool is_cut_ = false;  // some of the line that is read was dropped
};

// Answers, each on the disk or with the reader of standard output ("-") before the next one is begun.
class AnswerFile {
 public:
  // Creates nothing. With `resume` the ids of the answers that the file holds are read, as JSON. Throws Error{Input} where
  // it holds something else.
  AnswerFile(std::filesystem::path path, bool resume);
  ~AnswerFile();
  AnswerFile(const AnswerFile&) = delete;
  AnswerFile& operator=(const AnswerFile&) = delete;

  const std::vector<std::string>& answered() const { return answered_; }
  // Empties the file, or drops an unfinished last line. Throws Error{Input}.
  void open();
  void write(std::string_view line);

 private:
  void read_answers();

  std::filesystem::path path_;
  bool is_standard_output_, resume_;
  std::vector<std::string> answered_;
  std::size_t whole_bytes_ = 0;  // of whole lines
  int descriptor_ = -1;
};

}  // namespace kvloupe::cli
