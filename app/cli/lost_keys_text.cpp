#include "app/cli/lost_keys_text.h"

#include "app/cli/json_text.h"
#include "app/cli/table_json.h"
#include "core/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::LostKeys;
using replay::Stage;
using table::Cell;
using table::HeadRow;
using table::Table;
using table::Token;

Token token(const session::TraceSession& session, std::int64_t key) {
  return {session.token_texts().at(static_cast<std::size_t>(key))};
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

}  // namespace

std::string causes_sentence(const LostKeys& lost) {
  if (lost.all.cells == 0) return "The method chooses among keys in none of the cells searched.";
  if (lost.all.whole <= 0) return "None of the keys looked for stands before the chunks searched.";
  if (lost.all.lost <= 0) return "It loses no attention mass.";
  std::string text = fmt::format("It loses {:.1f} % of the attention mass of {}",
                                 100 * lost.all.lost / lost.all.whole,
                                 lost.span ? "the span's keys" : "its candidates");
  if (!lost.method.known() && lost.all.causes().empty())
    return text + ". Why is not known: this version has no such method, and the run has no scores.";
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

Table causes_table(const LostKeys& lost) {
  Table table{{{"cause", "lost at"}, {"share", "share of the lost mass", "%", 1}}, {}};
  for (const Stage cause : lost.all.causes())
    table.rows.push_back({table::term_of(cause), lost.all.share_of(cause)});
  return table;
}

Table causes_by_layer(const LostKeys& lost) {
  Table table{{"layer", {"lost", "lost", "%", 1}}, {}};
  for (const Stage cause : lost.all.causes())
    table.columns.emplace_back(name_of(cause), words_of(cause), "%", 1);
  for (std::size_t i = 0; i < lost.layers.size(); ++i) {
    const replay::LostMass& mass = lost.by_layer[i];
    const auto share = [](double part, double whole) {
      return whole > 0 ? Cell(part / whole) : Cell(std::nullopt);
    };
    std::vector<Cell>& row =
        table.rows.emplace_back(std::vector<Cell>{lost.layers[i], share(mass.lost, mass.whole)});
    for (const Stage cause : lost.all.causes())
      row.push_back(share(mass.by_cause[static_cast<std::size_t>(cause)], mass.lost));
  }
  return table;
}

Table lost_keys_table(const LostKeys& lost, const session::TraceSession& session,
                      std::size_t count) {
  Table table{{"layer",
               "chunk",
               {"row", "head"},
               "key",
               "token",
               {"true_mass", "true mass", "", 4},
               {"share", "share", "%", 2},
               "lost_at"},
              {}};
  for (std::size_t i = 0; i < std::min(count, lost.keys.size()); ++i) {
    const replay::LostKey& key = lost.keys[i];
    table.rows.push_back({key.layer, key.chunk, HeadRow{lost.layout, key.row}, key.key,
                          token(session, key.key), key.mass, key.share,
                          key.cause ? Cell(table::term_of(*key.cause)) : Cell(std::nullopt)});
  }
  return table;
}

Table regrets_table(const LostKeys& lost, const session::TraceSession& session, std::size_t count) {
  Table table{{"layer",
               {"row", "head"},
               "key",
               "token",
               {"dropped", "left out from chunk"},
               {"mass_when_dropped", "mass then", "", 4},
               {"wanted", "wanted in chunk"},
               {"mass_when_wanted", "mass then", "", 4},
               {"lost_mass", ""}},
              {}};
  for (std::size_t i = 0; i < std::min(count, lost.regrets.size()); ++i) {
    const replay::Regret& regret = lost.regrets[i];
    table.rows.push_back({regret.layer, HeadRow{lost.layout, regret.row}, regret.key,
                          token(session, regret.key), regret.dropped, regret.mass_when_dropped,
                          regret.wanted, regret.mass_when_wanted, regret.lost_mass});
  }
  return table;
}

std::string lost_keys_json(const LostKeys& lost, const session::TraceSession& session,
                           std::size_t count) {
  ordered_json json{{"method", lost.method.text},
                    {"chunk_size", nullptr},
                    {"all", mass_json(lost.all)},
                    {"layers", ordered_json::array()},
                    {"keys", json_rows(lost_keys_table(lost, session, count))},
                    {"regrets", json_rows(regrets_table(lost, session, count))}};
  if (const auto size = session.chunk_size()) json["chunk_size"] = *size;
  for (std::size_t i = 0; i < lost.layers.size(); ++i) {
    ordered_json layer{{"layer", lost.layers[i]}};
    layer.update(mass_json(lost.by_layer[i]));
    json["layers"].push_back(std::move(layer));
  }
  return json_text("kvloupe-explain-worst/1", json);
}

std::string lost_keys_text(const LostKeys& lost, const session::TraceSession& session,
                           std::size_t count) {
  std::string text = fmt::format("{}{}\n{}\n", printable(lost.method.text), cut_words(session),
                                 causes_sentence(lost));
  if (!lost.all.causes().empty())
    text += "\nCauses by layer, shares of what it loses:\n" + terminal_text(causes_by_layer(lost));
  if (!lost.keys.empty()) text += "\n" + terminal_text(lost_keys_table(lost, session, count));
  if (!lost.regrets.empty())
    text += "\nDropped, and wanted later:\n" + terminal_text(regrets_table(lost, session, count));
  return text;
}

}  // namespace kvloupe::cli
