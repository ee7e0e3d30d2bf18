// The one exception type of KVLoupe. It is thrown anywhere below and caught in two places only:
// at the command line (app/cli) and at the job boundary (core/base/jobs).
#pragma once

#include <exception>
#include <string>

namespace kvloupe {

enum class ErrorKind {
  Usage,      // the arguments alone are wrong: exit code 2
  Input,      // file, model, trace content, device, output exists: exit code 1
  Cancelled,  // Ctrl+C or a cancelled job: exit code 130
  Internal,   // our own bug: exit code 1
};

// One sentence in three parts, shown as "error: what; why; what to do".
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string what_failed, std::string why, std::string remedy);

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& what_failed() const noexcept { return what_failed_; }
  const std::string& why() const noexcept { return why_; }
  const std::string& remedy() const noexcept { return remedy_; }
  // "what; why; what to do", always on one line.
  const char* what() const noexcept override { return text_.c_str(); }
  int exit_code() const noexcept;

 private:
  ErrorKind kind_;
  std::string what_failed_;
  std::string why_;
  std::string remedy_;
  std::string text_;
};

Error usage_error(std::string what_failed, std::string why, std::string remedy);
Error input_error(std::string what_failed, std::string why, std::string remedy);
Error cancelled_error();

// For our own invariants only, never for a file's content.
#define KVLOUPE_CHECK(condition) \
  ((condition) ? void(0) : ::kvloupe::fail_check(#condition, __FILE__, __LINE__))
[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace kvloupe
