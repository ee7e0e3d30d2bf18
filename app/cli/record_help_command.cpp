// `kvloupe record-help`: how a model that runs in Python is recorded.
#include "app/cli/commands.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/results.h"

#include <filesystem>
#include <string>
#include <system_error>

namespace kvloupe::cli {
namespace {

// The package that comes with the program.
std::string package() {
  const std::filesystem::path folder = paths::share_dir() / "python";
  std::error_code code;
  if (!std::filesystem::exists(folder / "pyproject.toml", code))
    throw input_error("the Python package cannot be found",
                      folder.string() + " is not there any more",
                      "build or install the program again");
  return std::filesystem::canonical(folder).string();
}

}  // namespace

Command record_help_command(const GlobalOptions&) {
  Command command("record-help", "print the lines of Python that record a transformers model");
  command.run = [](const Given&) {
    results::print(
        "Once, in the Python that has torch and transformers:\n\n"
        "    pip install {}\n\n"
        "Around model.generate(...) or model(...), on CPU or GPU:\n\n"
        "    import kvloupe\n"
        "    with kvloupe.record(model, \"trace.h5\", tokenizer=tokenizer):\n"
        "        model.generate(**inputs, max_new_tokens=64)\n\n"
        "The output of the model stays as it is, bit for bit. Then: kvloupe trace.h5\n"
        "A model's folder without a script: python -m kvloupe record FOLDER --prompt-file F -o "
        "trace.h5\n",
        package());
  };
  return command;
}

}  // namespace kvloupe::cli
