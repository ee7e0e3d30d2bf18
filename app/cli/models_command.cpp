// `kvloupe models`: what can be captured without fetching anything.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "capture/engine.h"
#include "capture/model/model_library.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/replay/table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::cli {
namespace {

void print_json(const std::vector<capture::FoundModel>& models) {
  nlohmann::ordered_json json;
  json["models"] = nlohmann::ordered_json::array();
  for (const capture::FoundModel& model : models) {
    const bool runs = model.refusal.empty();
    json["models"].push_back({{"name", printable(model.name)},
                              {"place", model.place},
                              {"path", printable(model.path.string())},
                              {"bytes", model.bytes},
                              {"family", printable(model.family)},
                              {"runs", runs},
                              {"reason", runs ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json(printable(model.refusal))}});
  }
  results::add_data(json_text("kvloupe-models/1", json, 2));
}

void print_table(const std::vector<capture::FoundModel>& models,
                 const capture::ModelFolders& folders) {
  table::Table table{{"model", "from", "family", "size", "runs"}, {}};
  for (const capture::FoundModel& model : models)
    table.rows.push_back({model.name, model.place, model.family.empty() ? "?" : model.family,
                          format_bytes(model.bytes),
                          model.refusal.empty() ? "yes" : "no: " + model.refusal});
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
    const std::vector<capture::FoundModel> models = capture_engine().find_models(folders);
    if (*json)
      print_json(models);
    else
      print_table(models, folders);
  });
  return command;
}

}  // namespace kvloupe::cli
