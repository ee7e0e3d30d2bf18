// `kvloupe models`: what can be captured without fetching anything.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/table_json.h"
#include "capture/engine.h"
#include "capture/model/model_library.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"

#include <memory>
#include <vector>

namespace kvloupe::cli {
namespace {

table::Table models_table(const std::vector<capture::FoundModel>& models) {
  // What has no title is for programs, what has no id for people.
  table::Table table{{{"name", ""},
                      {"", "model"},
                      {"place", "from"},
                      {"path", ""},
                      {"bytes", ""},
                      {"family", ""},
                      {"runs", ""},
                      {"reason", ""},
                      {"", "family"},
                      {"", "size"},
                      {"", "runs"}},
                     {}};
  for (const capture::FoundModel& model : models) {
    const bool runs = model.refusal.empty();
    table.rows.push_back({printable(model.name), model.name, model.place,
                          printable(model.path.string()), model.bytes, printable(model.family),
                          runs, runs ? table::Cell(std::nullopt) : printable(model.refusal),
                          model.family.empty() ? "?" : model.family, format_bytes(model.bytes),
                          runs ? "yes" : "no: " + model.refusal});
  }
  return table;
}

void print_text(const table::Table& table, const capture::ModelFolders& folders) {
  results::add_text(table::terminal_text(table));
  results::print(
      "\nLooked in {}, {} and {}. Any .gguf file or Hugging Face folder can be given by "
      "its path.\n",
      folders.hugging_face.string(), folders.llama_cpp.string(), folders.ollama.string());
}

}  // namespace

Command models_command(const GlobalOptions& global) {
  Command command("models", "list the models on this machine that capture --model takes by name");
  const auto json = std::make_shared<bool>(false);
  command.option("--json", json.get(), "print JSON");
  command.footer =
      "Nothing is fetched: Hugging Face's cache and the folders of llama.cpp and Ollama are\n"
      "looked through, headers alone are read.";
  command.run = with_engine(global, [json] {
    const capture::ModelFolders folders = capture_engine().model_folders();
    const table::Table table = models_table(capture_engine().find_models(folders));
    if (*json)
      results::add_data(json_text("kvloupe-models/1", {{"models", json_rows(table)}}, 2));
    else
      print_text(table, folders);
  });
  return command;
}

}  // namespace kvloupe::cli
