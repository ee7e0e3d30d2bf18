#include "app/cli/span_loss_text.h"

#include "app/cli/json_text.h"
#include "app/cli/lost_keys_text.h"
#include "app/cli/table_json.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::SpanChange;
using replay::SpanHead;
using replay::SpanLoss;
using replay::Stage;
using table::Cell;
using table::HeadRow;
using table::Table;

constexpr std::size_t kMostHeads = 20;  // of those that matter, in the text

Cell share(double part, double whole) {
  return whole > 0 ? Cell(part / whole) : Cell(std::nullopt);
}

std::vector<Cell> cells_of(const SpanLoss& loss, const SpanHead& head, double mass) {
  const std::vector<Stage> causes = head.causes();
  return {head.layer,
          HeadRow{loss.layout, head.row},
          head.kept,
          head.keys,
          head.mass,
          share(head.mass, mass),
          share(head.lost_mass, head.mass),
          causes.empty() ? Cell(std::nullopt) : table::term_of(causes.front()),
          head.enough};
}

Table heads_of(const SpanLoss& loss, const std::vector<const SpanHead*>& heads) {
  Table table{{"layer",
               {"row", "head"},
               "kept",
               {"keys", "of"},
               {"true_mass", "true mass", "", 4},
               {"mass_share", "of the span's", "%", 1},
               {"mass_lost", "of it lost", "%", 1},
               {"lost_at", "most lost at"},
               {"enough", "enough budget"}},
              {}};
  const double mass = loss.sums().mass;
  for (const SpanHead* head : heads) table.rows.push_back(cells_of(loss, *head, mass));
  return table;
}

Table causes_table(const SpanLoss::Sums& sums) {
  Table table{{{"cause", "lost at"}, {"keys", "keys"}, {"share", "share of the lost", "%", 1}}, {}};
  for (const Stage cause : sums.causes()) {
    const auto keys = sums.lost_to[static_cast<std::size_t>(cause)];
    table.rows.push_back({table::term_of(cause), keys,
                          share(static_cast<double>(keys), static_cast<double>(sums.lost()))});
  }
  return table;
}

Table layers_table(const SpanLoss& loss) {
  Table table{{"layer",
               {"heads_kept_whole", "keep all"},
               {"heads", "heads"},
               "kept",
               {"keys", "of"},
               {"true_mass", "true mass", "", 4},
               {"mass_lost", "of it lost", "%", 1},
               {"enough", "enough budget"}},
              {}};
  for (const int layer : loss.layers) {
    const SpanLoss::Sums sums = loss.sums_of_layer(layer);
    if (sums.heads == 0) continue;
    table.rows.push_back({layer, sums.whole, sums.heads, sums.kept, sums.keys, sums.mass,
                          share(sums.lost_mass, sums.mass), sums.enough});
  }
  return table;
}

Table changes_table(const SpanLoss& loss) {
  Table table{{{"change", "changed alone"},
               {"stage", "stage"},
               {"heads", "heads that would keep all"},
               {"keys", "lost keys kept"},
               "spec"},
              {}};
  for (const SpanChange& change : loss.changes)
    table.rows.push_back({change.change, table::term_of(change.stage), change.heads, change.keys,
                          change.spec ? Cell(change.spec->canonical()) : Cell(std::nullopt)});
  return table;
}

}  // namespace

Table span_heads_table(const SpanLoss& loss) {
  std::vector<const SpanHead*> heads;
  for (const SpanHead& head : loss.heads) heads.push_back(&head);
  return heads_of(loss, heads);
}

std::string span_loss_json(const SpanLoss& loss, const session::TraceSession& session) {
  KVLOUPE_CHECK(loss.span.keys.ranges().size() == 1);  // as --span names it
  const SpanLoss::Sums sums = loss.sums();
  ordered_json json{{"method", loss.method.text},
                    {"span",
                     {{"name", loss.span.name},
                      {"begin", loss.span.keys.first()},
                      {"end", loss.span.keys.bound()}}},
                    {"chunks", loss.chunks},
                    {"chunk_size", nullptr},
                    {"sentence", replay::sentence_of(loss)},
                    {"heads", sums.heads},
                    {"heads_kept_whole", sums.whole},
                    {"heads_kept_nothing", sums.nothing},
                    {"dense_heads", loss.dense_heads},
                    {"kept", sums.kept},
                    {"keys", sums.keys},
                    {"true_mass", sums.mass},
                    {"lost_mass", sums.lost_mass},
                    {"causes", json_rows(causes_table(sums))},
                    {"enough", or_null(sums.enough)},
                    {"enough_is_exact", nullptr},
                    {"changes", json_rows(changes_table(loss))},
                    {"layers", json_rows(layers_table(loss))},
                    {"rows", json_rows(span_heads_table(loss))}};
  if (const auto size = session.chunk_size()) json["chunk_size"] = *size;
  if (loss.has_budgets) json["enough_is_exact"] = loss.exact_budgets;
  return json_text("kvloupe-explain-span/1", json);
}

std::string span_loss_text(const SpanLoss& loss, const session::TraceSession& session) {
  std::string text =
      fmt::format("{}{}\n{} ({} to {})\n\n{}\n", printable(loss.method.text), cut_words(session),
                  printable(loss.span.name), loss.span.keys.first(), loss.span.keys.bound() - 1,
                  replay::sentence_of(loss));
  const std::string remedy = replay::remedy_of(loss);
  if (!remedy.empty()) text += remedy + "\n";
  const SpanLoss::Sums sums = loss.sums();
  if (!sums.causes().empty()) text += "\n" + terminal_text(causes_table(sums));
  auto matter = loss.heads_of_mass(replay::kShareThatMatters);
  if (!matter.empty()) {
    const std::size_t all = matter.size();
    matter.resize(std::min(all, kMostHeads));
    text += fmt::format("\nThe heads that give it most of its attention{}:\n{}",
                        all > kMostHeads ? fmt::format(", {} of {}", kMostHeads, all) : "",
                        terminal_text(heads_of(loss, matter)));
  }
  if (loss.layers.size() > 1) text += "\nBy layer:\n" + terminal_text(layers_table(loss));
  return text;
}

}  // namespace kvloupe::cli
