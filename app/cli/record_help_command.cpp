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

// What pip installs. The folder of a checkout stays where it is, so that the package finds the program; else there
// is a wheel, for pip writes into a folder that it installs from.
std::string package() {
  const std::filesystem::path folder = paths::share_dir() / "python";
  std::error_code code;
  if (std::filesystem::is_symlink(folder, code))
    return "-e " + std::filesystem::canonical(folder).string();
  for (const auto& entry : std::filesystem::directory_iterator(folder, code))
    if (entry.path().extension() == ".whl") return entry.path().string();
  throw input_error("the Python package cannot be found",
                    "no wheel of it is in " + folder.string() + " any more",
                    "build or install the program again");
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
