#include "app/cli/lost_keys_text.h"

#include "app/cli/json_text.h"
#include "app/cli/row_json.h"
#include "app/cli/text_table.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::LostKeys;
using replay::Stage;

const std::string& token(const session::TraceSession& session, std::int64_t key) {
  return session.token_texts().at(static_cast<std::size_t>(key));
}

ordered_json mass_json(const replay::LostMass& mass) {
  ordered_json json{{"cells", mass.cells},
                    {"mass", mass.whole},
                    {"lost", mass.lost},
                    {"causes", ordered_json::object()}};
  for (int i = 0; i < replay::kNumStages; ++i)
    if (const auto stage = static_cast<Stage>(i); mass.share_of(stage) > 0)
      json["causes"][name_of(stage)] = mass.share_of(stage);
  return json;
}

ordered_json row_of(const LostKeys& lost, int row) {
  return row_json(lost.layout.axis, lost.layout.q_heads_per_row, static_cast<std::size_t>(row));
}

}  // namespace

std::string causes_sentence(const LostKeys& lost) {
  if (lost.all.cells == 0) return "The method chooses among keys in none of the cells searched.";
  if (lost.all.whole <= 0) return "None of the keys looked for stands before the chunks searched.";
  if (lost.all.lost <= 0) return "It loses no attention mass.";
  std::string text = fmt::format("It loses {:.1f} % of the attention mass of {}",
                                 100 * lost.all.lost / lost.all.whole,
                                 lost.span ? "the span's keys" : "its candidates");
  if (!lost.method.known() && lost.all.causes().empty())
    return text +
           ". Why is not known: this version has no such method, and a run records no scores.";
  const char* between = ": ";
  for (const Stage cause : lost.all.causes()) {
    text += fmt::format("{}{} {:.1f} %", between, words_of(cause), 100 * lost.all.share_of(cause));
    between = ", ";
  }
  return text + (lost.all.lost > 0 ? " of what is lost." : ".");
}

std::string cut_words(const session::TraceSession& session) {
  const auto size = session.chunk_size();
  return size ? fmt::format(", of a prompt cut anew into chunks of {} (open loop)", *size) : "";
}

std::string causes_by_layer(const LostKeys& lost) {
  const std::vector<Stage> causes = lost.all.causes();
  if (causes.empty()) return "";
  std::vector<std::string> header = {"layer", "lost"};
  for (const Stage cause : causes) header.emplace_back(words_of(cause));
  TextTable table(header);
  for (std::size_t i = 0; i < lost.layers.size(); ++i) {
    const replay::LostMass& mass = lost.by_layer[i];
    std::vector<std::string> line = {
        fmt::format("{}", lost.layers[i]),
        mass.whole > 0 ? fmt::format("{:.1f} %", 100 * mass.lost / mass.whole) : "-"};
    for (const Stage cause : causes)
      line.push_back(mass.lost > 0 ? fmt::format("{:.1f} %", 100 * mass.share_of(cause)) : "-");
    table.add(std::move(line));
  }
  return table.text();
}

std::string lost_keys_json(const LostKeys& lost, const session::TraceSession& session,
                           std::size_t count) {
  ordered_json json{{"method", lost.method.text},    {"chunk_size", nullptr},
                    {"all", mass_json(lost.all)},    {"layers", ordered_json::array()},
                    {"keys", ordered_json::array()}, {"regrets", ordered_json::array()}};
  if (const auto size = session.chunk_size()) json["chunk_size"] = *size;
  for (std::size_t i = 0; i < lost.layers.size(); ++i) {
    ordered_json layer{{"layer", lost.layers[i]}};
    layer.update(mass_json(lost.by_layer[i]));
    json["layers"].push_back(std::move(layer));
  }
  for (std::size_t i = 0; i < std::min(count, lost.keys.size()); ++i) {
    const replay::LostKey& key = lost.keys[i];
    json["keys"].push_back({{"layer", key.layer},
                            {"chunk", key.chunk},
                            {"row", row_of(lost, key.row)},
                            {"key", key.key},
                            {"token", token(session, key.key)},
                            {"true_mass", key.mass},
                            {"share", key.share},
                            {"lost_at", key.cause ? ordered_json(name_of(*key.cause)) : nullptr}});
  }
  for (std::size_t i = 0; i < std::min(count, lost.regrets.size()); ++i) {
    const replay::Regret& regret = lost.regrets[i];
    json["regrets"].push_back({{"layer", regret.layer},
                               {"row", row_of(lost, regret.row)},
                               {"key", regret.key},
                               {"token", token(session, regret.key)},
                               {"dropped", regret.dropped},
                               {"mass_when_dropped", regret.mass_when_dropped},
                               {"wanted", regret.wanted},
                               {"mass_when_wanted", regret.mass_when_wanted},
                               {"lost_mass", regret.lost_mass}});
  }
  return json_text("kvloupe-explain-worst/1", json);
}

std::string lost_keys_text(const LostKeys& lost, const session::TraceSession& session,
                           std::size_t count) {
  std::string text = fmt::format("{}{}\n{}\n", printable(lost.method.text), cut_words(session),
                                 causes_sentence(lost));
  if (const std::string table = causes_by_layer(lost); !table.empty())
    text += "\nCauses by layer, shares of what it loses:\n" + table;
  if (!lost.keys.empty()) {
    TextTable table({"layer", "head", "chunk", "key", "token", "true mass", "share", "lost at"});
    for (std::size_t i = 0; i < std::min(count, lost.keys.size()); ++i) {
      const replay::LostKey& key = lost.keys[i];
      table.add({fmt::format("{}", key.layer), replay::row_words(lost.layout, key.row),
                 fmt::format("{}", key.chunk), fmt::format("{}", key.key),
                 printable(token(session, key.key)), fmt::format("{:.4f}", key.mass),
                 fmt::format("{:.2f} %", 100 * key.share), key.cause ? words_of(*key.cause) : "-"});
    }
    text += "\n" + table.text();
  }
  if (!lost.regrets.empty()) {
    TextTable table({"layer", "head", "key", "token", "left out from chunk", "mass then",
                     "wanted in chunk", "mass then"});
    for (std::size_t i = 0; i < std::min(count, lost.regrets.size()); ++i) {
      const replay::Regret& regret = lost.regrets[i];
      table.add({fmt::format("{}", regret.layer), replay::row_words(lost.layout, regret.row),
                 fmt::format("{}", regret.key), printable(token(session, regret.key)),
                 fmt::format("{}", regret.dropped), fmt::format("{:.4f}", regret.mass_when_dropped),
                 fmt::format("{}", regret.wanted), fmt::format("{:.4f}", regret.mass_when_wanted)});
    }
    text += "\nDropped, and wanted later:\n" + table.text();
  }
  return text;
}

}  // namespace kvloupe::cli
