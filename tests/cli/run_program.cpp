#include "tests/cli/run_program.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace kvloupe::test {
namespace {

// Files instead of pipes: nothing to drain, so the program can't block on us.
struct Scratch {
  std::filesystem::path folder;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "kvloupe-run-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void redirect(int descriptor, const std::filesystem::path& path, int flags) {
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(127);
}

[[noreturn]] void become_program(const std::vector<std::string>& words,
                                 const std::vector<std::string>& environment,
                                 const Scratch& scratch) {
  redirect(0, scratch.folder / "in", O_RDONLY);
  redirect(1, scratch.folder / "out", O_WRONLY | O_CREAT);
  redirect(2, scratch.folder / "err", O_WRONLY | O_CREAT);
  for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv.front(), argv.data());
  _exit(127);
}

ProgramResult run(const std::vector<std::string>& words, const std::string& standard_input,
                  const std::vector<std::string>& environment) {
  const Scratch scratch;
  std::ofstream(scratch.folder / "in", std::ios::binary) << standard_input;
  const pid_t child = fork();
  if (child == 0) become_program(words, environment, scratch);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child)
    throw std::runtime_error("no child process");
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.standard_output = read_file(scratch.folder / "out");
  result.standard_error = read_file(scratch.folder / "err");
  return result;
}

}  // namespace

std::string ProgramResult::last_error_line() const {
  std::string text = standard_error;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::string& standard_input,
                          const std::vector<std::string>& environment) {
  std::vector<std::string> words{KVLOUPE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words, standard_input, environment);
}

ProgramResult run_script(const std::string& script) {
  return run({"/bin/bash", "-c", script}, {}, {std::string("kvloupe=") + KVLOUPE_PROGRAM});
}

nlohmann::json answer_of(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  if (result.exit_code != 0) throw std::runtime_error(result.standard_error);
  return nlohmann::json::parse(result.standard_output);
}

}  // namespace kvloupe::test
