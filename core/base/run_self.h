// Runs this program again, or another one, as a command line.
#pragma once

#include "core/base/cancel.h"

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace kvloupe {

// The program that runs, whatever became of its file.
inline constexpr const char* kOwnProgram = "/proc/self/exe";

// A command line under way. Nothing waits for it but finish().
class OwnCommand {
 public:
  struct Options {
    std::string program = kOwnProgram;
    std::string standard_input;  // all of it
    bool keep_output = true;     // false: it goes nowhere
  };
  // Throws Error when it cannot be started.
  OwnCommand(const std::vector<std::string>& arguments, const Options& options);
  ~OwnCommand();  // one that still runs is told to end; it takes the time that it needs
  OwnCommand(const OwnCommand&) = delete;
  OwnCommand& operator=(const OwnCommand&) = delete;

  // Reads what it has said. The whole lines of standard output since the last time.
  std::vector<std::string> poll();
  bool ended() const { return ended_; }
  // Waits until it has ended; its standard output is lost. Interrupts it once the token is raised.
  void finish(const CancelToken& cancel = {});
  // As Ctrl+C does: it ends in order.
  void interrupt();
  // It ends without order, soon: what it holds of memory takes the system a moment.
  void kill();
  // Of one that has ended: "" on success, else the last line of its standard error.
  std::string problem() const;
  std::string last_line() const;  // of its standard error; of one that runs the last whole one
  // The lines of its standard error that begin with "warning: ".
  std::vector<std::string> warnings() const;
  // As the shell has it: 128 and the signal's number where a signal ended it.
  int exit_code() const;

 private:
  void reap(bool wait);

  pid_t child_ = 0;
  int output_ = -1, errors_ = -1;
  std::string line_, said_;  // the begun line of standard output; the end of standard error
  bool ended_ = false;
  int status_ = 0;
};

// Returns "" on success, else the last line of its standard error. Throws Error when it cannot be
// started, and Error{Cancelled} when the token was raised; it has ended then, too.
std::string run_self(const std::vector<std::string>& arguments, const CancelToken& cancel);
using CommandRunner = std::function<std::string(const std::vector<std::string>& arguments,
                                                const CancelToken& cancel)>;

// With the standard streams of this process. Waits for its end, and interrupts it once the token is
// raised; as OwnCommand::exit_code(). Throws Error when it cannot be started.
int run_self_here(const std::vector<std::string>& arguments, const CancelToken& cancel = {});

}  // namespace kvloupe
