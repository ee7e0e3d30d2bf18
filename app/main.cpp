// Placeholder of the command line: version, help, and the error form of the contract.
#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  const std::string_view argument = argc > 1 ? argv[1] : "--help";
  if (argument == "--version") {
    std::puts("kvloupe " KVLOUPE_VERSION);
    return 0;
  }
  if (argument == "--help") {
    std::puts("kvloupe [trace.h5 ...]");
    return 0;
  }
  std::fprintf(stderr, "error: unknown subcommand '%s'; the program does not know it; see kvloupe --help\n", argv[1]);
  return 2;
}
